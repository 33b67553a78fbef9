import type { Db } from '../../db/db.ts'
import { HttpError } from '../../http/errors.ts'
import { KeyServiceError } from '../key-services/key-service.ts'
import { composed } from '../sealed-values.ts'
import type { RecordKind, RecordRow } from './kind.ts'
import { placeOf } from './records.ts'
import { keyOf } from './walk.ts'

/** Rows that one statement looks at: only keys and versions. */
const PORTION = 5_000
/** Records that are verified at a time. Each may need a call to a key service, and nothing is answered before the first time has ended. */
const VERIFIED_MAX = 200

interface Candidate {
  kind: RecordKind
  row: RecordRow
}

/** The records of a kind whose versions, as their rows have them, are higher than known. */
async function candidates(db: Db, kind: RecordKind, known: Readonly<Record<string, number>>): Promise<Candidate[]> {
  const key = keyOf(kind)
  const names = key.join(', ')
  const found: Candidate[] = []
  for (let after: unknown[] = []; ; ) {
    const from = after.length === 0 ? '' : `and (${names}) > (${key.map((_, at) => `$${at + 1}`).join(', ')})`
    const rows: RecordRow[] = await db.query<RecordRow>(
      composed(
        `select ${names}, version from ${kind.table} where version > 0 ${from} order by ${names} limit ${PORTION}`,
        after,
      ),
    )
    for (const row of rows) {
      const place = placeOf(kind, row)
      const version = Object.hasOwn(known, place) ? (known[place] as number) : 0
      if ((row.version as number) > version) found.push({ kind, row })
    }
    if (rows.length < PORTION) return found
    after = key.map((column) => rows.at(-1)?.[column])
  }
}

/** Some of them, by chance: rows that never verify do not keep the others waiting for ever. */
function some(all: Candidate[]): Candidate[] {
  if (all.length <= VERIFIED_MAX) return all
  for (let at = 0; at < VERIFIED_MAX; at += 1) {
    const other = at + Math.floor(Math.random() * (all.length - at))
    ;[all[at], all[other]] = [all[other] as Candidate, all[at] as Candidate]
  }
  return all.slice(0, VERIFIED_MAX)
}

/** A record whose key does not open, or not now, is not believed yet. What is wrong with the key is reported where it is opened. */
function unlessClosed(error: unknown): false {
  if (error instanceof KeyServiceError || (error instanceof HttpError && error.code === 'record_tampered')) return false
  throw error
}

/**
 * The versions of records that have become newer than known, by place. Only rows with the right MAC count: a version that somebody else
 * wrote would have the genuine record refused. Of very many at once, only some.
 */
export async function readNewer(
  db: Db,
  kinds: readonly RecordKind[],
  known: Readonly<Record<string, number>>,
): Promise<Record<string, number>> {
  const all: Candidate[] = []
  for (const kind of kinds) all.push(...(await candidates(db, kind, known)))
  const newer: Record<string, number> = {}
  for (const { kind, row } of some(all)) {
    const key = keyOf(kind)
    const where = key.map((column, at) => `${column} = $${at + 1}`).join(' and ')
    const read = composed(
      `select ${kind.read.join(', ')} from ${kind.table} where ${where}`,
      key.map((column) => row[column]),
    )
    const whole = await db.one<RecordRow>(read)
    if (whole !== undefined && (await db.records.isSealed(kind, whole).catch(unlessClosed)))
      newer[placeOf(kind, whole)] = whole.version as number
  }
  return newer
}
