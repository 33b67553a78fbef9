import { setTimeout as pause } from 'node:timers/promises'
import { createPoller, singleFlight } from '../concurrency/poll.ts'
import type { Db } from '../db/db.ts'
import { awaitDurable } from '../db/durable.ts'
import { fail, HttpError } from '../http/errors.ts'
import type { Logger } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import type { RecordKind } from '../security/records/kind.ts'
import { readNewer } from '../security/records/newer.ts'
import type { FloorCodec } from './document.ts'
import { covers, describeSetbacks, highest, type Marks } from './marks.ts'
import { type ChainSource, compare, readMarks } from './source.ts'
import type { FloorStorage } from './storage.ts'
import { writtenUpTo } from './store.ts'
import { createStored, type Stored } from './stored.ts'

const PAUSE_MS = 1_000
/** Of the time of a process at most: the marks of very many tenants take some. */
const SHARE = 0.05
/** However long a round took: a moment in which the machine was busy is not the size of the installation. */
const PAUSE_MAX_MS = 10_000
/**
 * How long a comparison counts: twice the longest pause, so that one round may fail and the next one still counts. Whoever locks
 * the tables that a comparison reads must not be answered for longer.
 */
const TRUST_MS = 20_000
/** How long a start waits for a floor that a network is between. */
const START_WAIT_MS = 3_000
const STOP_WAIT_MS = 2_000

/** High-water marks outside the database: with them, a process notices that the database went back to an earlier state. */
export interface Floor {
  /** Why nothing is signed or released, for operators; null while the database was found not to be behind its floor. */
  closed(): string | null
  /** @throws database_behind_floor; not_ready if the database could not be compared with its floor for 20 s */
  require(): void
  /** Whether the last read and the last write of the floor succeeded; null where there is no floor. */
  isKept(): boolean | null
  /** Compares once, and from then on every second. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Where no floor is kept: `HALFKEY_FLOOR=off`, and commands. */
export const NO_FLOOR: Floor = {
  closed: () => null,
  require: () => {},
  isKept: () => null,
  start: async () => {},
  stop: async () => {},
}

export interface FloorOptions {
  storage: FloorStorage
  codec: FloorCodec
  /** Not the pool of requests, which may be exhausted. Of the server that takes writes. */
  db: Db
  chains: readonly ChainSource[]
  /** Of whose records the floor holds versions. */
  kinds: readonly RecordKind[]
  /** Whether this process made the installation, so that nothing is missed if there is no floor yet. */
  isNew: boolean
  /** Whether a floor that is there is of another database: in development, databases come and go. */
  isReplaced: boolean
  log: Logger
  metrics: Metrics
  now(): Date
  /** An operator took an earlier state for the present one. */
  onAccepted(): void
}

/** The marks that the database must have, as far as storage and memory say. */
function floorOf(seen: Stored, known: Marks | null, { isReplaced }: FloorOptions): Marks | null {
  if (seen.kind !== 'marks' || (isReplaced && known === null)) return known
  return known === null ? seen.marks : highest(known, seen.marks)
}

const STALE = 'The database could not be compared with its floor'

/** Null for an epoch that no operator began: whoever wrote it may have put the database back, too. */
function unlessTampered(error: unknown): null {
  if (error instanceof HttpError && error.code === 'record_tampered') return null
  throw error
}

/** What was found, with the versions that are above the floor. From now on, records below the floor do not verify. */
async function withVersions({ db, kinds }: FloorOptions, floor: Marks | null, found: Marks): Promise<Marks> {
  if (floor !== null) db.records.remember(floor.versions)
  return { ...found, versions: await readNewer(db, kinds, floor?.versions ?? {}) }
}

function warnIfMissing({ storage, isNew, log }: FloorOptions, seen: Stored): void {
  if (seen.kind === 'missing' && !isNew)
    log.warn(
      { floor: storage.place },
      'there is no floor, so an earlier state of the database would not be noticed; a new floor begins',
    )
}

/** Keeps the floor of an installation, and holds the database against it. */
export function createFloor(options: FloorOptions): Floor {
  const { storage, codec, db, chains, log, metrics, now } = options
  const stored = createStored({ storage, codec, log, metrics, now })
  /** The highest marks that this process knows to be of this database, and durable. */
  let known: Marks | null = null
  /** Whether a floor that verified, or that there was none, has been seen: what this process knows alone proves nothing. */
  let wasCompared = false
  let behind: string | null = null
  /** When the state that was compared last was read. */
  let comparedAt = Number.NEGATIVE_INFINITY
  let wasClosed = false
  metrics.floorBehind.set(0)

  const isStale = () => performance.now() - comparedAt > TRUST_MS
  const closed = () => behind ?? (isStale() ? STALE : null)

  function conclude(readAt: number, found: string | null): void {
    comparedAt = readAt
    if (found !== null && found !== behind)
      log.error({ floor: storage.place, setbacks: found }, 'the database is behind its floor: nothing is signed')
    if (found === null && behind !== null) log.warn({}, 'the database is no longer behind its floor')
    behind = found
  }

  /** Tells that nothing is signed any more, also where no round has come to a conclusion. */
  function tell(): void {
    const isClosed = closed() !== null
    if (isClosed && !wasClosed && behind === null) log.error({ floor: storage.place }, STALE)
    wasClosed = isClosed
    metrics.floorBehind.set(isClosed ? 1 : 0)
  }

  /** What of the floor still counts: an operator may have accepted an earlier state, here or on another machine. */
  function inEpoch(floor: Marks | null, { epoch }: Marks): Marks | null {
    if (known !== null && epoch > known.epoch) options.onAccepted()
    return floor !== null && epoch > floor.epoch ? null : floor
  }

  async function round(): Promise<void> {
    // Before the database: what another process has written there was in this database before.
    const seen = await stored.read(behind !== null)
    const readAt = performance.now()
    if (seen.kind === 'forged' && !wasCompared && !options.isReplaced)
      return conclude(readAt, `the floor at ${storage.place} does not verify: ${seen.why}`)
    const found = await readMarks(db, chains).catch(unlessTampered)
    if (found === null) return conclude(readAt, 'an accepted restore in the database does not verify')
    const floor = inEpoch(floorOf(seen, known, options), found)
    const setbacks = floor === null ? [] : await compare(db, chains, floor, found)
    if (setbacks.length > 0) return conclude(readAt, describeSetbacks(setbacks))
    conclude(readAt, null)
    if (!wasCompared) warnIfMissing(options, seen)
    const marks = await withVersions(options, floor, found)
    if (floor === null || !covers(floor, marks)) await awaitDurable(db, await writtenUpTo(db))
    known = floor === null ? marks : highest(floor, marks)
    wasCompared ||= seen.kind !== 'unread'
    await stored.write(known, seen)
  }

  const turn = singleFlight(round)
  const stopping = new AbortController()
  const poller = createPoller({
    pauseMs: PAUSE_MS,
    work: async () => {
      const startedAt = performance.now()
      await turn().finally(tell)
      const tookMs = performance.now() - startedAt
      const restMs = Math.min(tookMs / SHARE, PAUSE_MAX_MS) - PAUSE_MS
      if (restMs > 0) await pause(restMs, undefined, { ref: false, signal: stopping.signal }).catch(() => {})
    },
    log,
    failure: 'the floor could not be compared with the database, or not raised',
  })

  return {
    closed,
    require() {
      if (behind !== null) throw fail('database_behind_floor')
      if (isStale()) throw fail('not_ready', [{ name: 'floor', code: 'not_ready', message: `${STALE}.` }])
    },
    isKept: stored.isKept,
    async start() {
      await stored.read(true)
      await stored.settle(START_WAIT_MS)
      await turn().finally(tell)
      poller.start()
    },
    async stop() {
      stopping.abort()
      await poller.stop()
      // The marks of the last second. A stop waits for nobody.
      await turn().catch((error: unknown) => log.warn({ err: error }, 'the floor was not written at the stop'))
      await stored.settle(STOP_WAIT_MS)
    },
  }
}
