import type { Db } from '../db/db.ts'
import type { Id } from '../ids.ts'
import { type Marks, passedPlaces, type Setback, setbacksOf } from './marks.ts'
import { readChanges, readEpoch } from './store.ts'

/** A tenant's place in a chain. */
export interface ChainPlace {
  tenantId: Id<'ten'>
  seq: number
  /** Hex. */
  hash: string
}

/** Chains of hashes, one per tenant, whose ends the floor keeps. */
export interface ChainSource {
  /** `audit`: the first word of the names of its marks. */
  name: string
  /** The ends of the chains of the next tenants by id; none before a chain's first entry. */
  ends(db: Db, after: string, limit: number): Promise<ChainPlace[]>
  /** The entries that the chains have at these places. */
  at(db: Db, places: readonly Pick<ChainPlace, 'tenantId' | 'seq'>[]): Promise<ChainPlace[]>
  /** A number that grows with all chains together. */
  counter?(db: Db): Promise<number>
}

const PORTION = 5_000

/**
 * Reads how far the database has come, without versions of records.
 * @param chains those of all slices
 * @throws record_tampered for an epoch that no operator began
 */
export async function readMarks(
  db: Db,
  chains: readonly ChainSource[],
  epochOf: (db: Db) => Promise<number> = readEpoch,
): Promise<Marks> {
  const epoch = await epochOf(db)
  const counters: Record<string, number> = { records: await readChanges(db) }
  const places: Record<string, { seq: number; hash: string }> = {}
  for (const source of chains) {
    if (source.counter !== undefined) counters[source.name] = await source.counter(db)
    for (let after = ''; ; ) {
      const ends = await source.ends(db, after, PORTION)
      for (const { tenantId, seq, hash } of ends) places[`${source.name} ${tenantId}`] = { seq, hash }
      if (ends.length < PORTION) break
      after = ends.at(-1)?.tenantId as string
    }
  }
  return { epoch, counters, chains: places, versions: {} }
}

/** Chains that no longer have the entry that the floor names. */
async function findForks(db: Db, sources: readonly ChainSource[], floor: Marks, found: Marks): Promise<Setback[]> {
  const passed = passedPlaces(floor, found)
  const forks: Setback[] = []
  for (const source of sources) {
    const own = passed
      .filter(({ name }) => name.startsWith(`${source.name} `))
      .map(({ name, place }) => ({ name, place, tenantId: name.slice(source.name.length + 1) as Id<'ten'> }))
    for (let at = 0; at < own.length; at += PORTION) {
      const portion = own.slice(at, at + PORTION)
      const entries = await source.at(
        db,
        portion.map(({ tenantId, place }) => ({ tenantId, seq: place.seq })),
      )
      const hashes = new Map(entries.map(({ tenantId, hash }) => [tenantId, hash]))
      for (const { name, place, tenantId } of portion)
        if (hashes.get(tenantId) !== place.hash)
          forks.push({ what: name, floor: place.seq, database: found.chains[name]?.seq ?? null, isForked: true })
    }
  }
  return forks
}

/** In what a database is behind its floor. */
export async function compare(db: Db, sources: readonly ChainSource[], floor: Marks, found: Marks): Promise<Setback[]> {
  const setbacks = setbacksOf(floor, found)
  return setbacks.length > 0 ? setbacks : findForks(db, sources, floor, found)
}
