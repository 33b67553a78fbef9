import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import { type FloorCodec, FloorForgedError } from './document.ts'
import { covers, type Marks } from './marks.ts'
import type { FloorStorage } from './storage.ts'

/** How often a floor that a network is between is read, unless something is waited for there; also after a failure. */
const REMOTE_MS = 10_000

/** A file answers at once, unless its disk hangs: then the database is compared with what this process knows. */
const LOCAL_WAIT_MS = 2_000

const DONE = { read: 'read', write: 'written' } as const
type Operation = keyof typeof DONE

/** What is stored as the floor, as far as this process knows. */
export type Stored =
  | { kind: 'unread' }
  | { kind: 'missing' }
  | { kind: 'forged'; why: string }
  | { kind: 'marks'; marks: Marks; isCurrent: boolean }

export interface StoredOptions {
  storage: FloorStorage
  codec: FloorCodec
  log: Logger
  metrics: Metrics
  now(): Date
}

/** Reads and writes the stored floor. A storage over the network is used in the background: nothing waits for it. */
export function createStored({ storage, codec, log, metrics, now }: StoredOptions) {
  let seen: Stored = { kind: 'unread' }
  let busy: Promise<void> | undefined
  let readAt = Number.NEGATIVE_INFINITY
  /** What failed last, and still fails. */
  const failures = new Map<Operation, { at: number; cause: string }>()
  metrics.floorFailures.inc({ operation: 'read' }, 0)
  metrics.floorFailures.inc({ operation: 'write' }, 0)

  const isDue = (at: number) => performance.now() - at >= (storage.isRemote ? REMOTE_MS : 0)
  const mayTry = (...operations: Operation[]) =>
    operations.every((operation) => isDue(failures.get(operation)?.at ?? Number.NEGATIVE_INFINITY))

  function failed(operation: Operation, error: unknown): void {
    metrics.floorFailures.inc({ operation })
    const { code, message } = error as NodeJS.ErrnoException
    const cause = code ?? message
    // Once a cause, not once a second.
    if (failures.get(operation)?.cause !== cause)
      log.warn({ err: error, floor: storage.place }, `the floor could not be ${DONE[operation]}`)
    failures.set(operation, { at: performance.now(), cause })
  }

  async function readNow(): Promise<void> {
    readAt = performance.now()
    try {
      const bytes = await storage.read()
      failures.delete('read')
      if (bytes === null) seen = { kind: 'missing' }
      else seen = { kind: 'marks', ...(await codec.decode(bytes)), isCurrent: codec.isByCurrentKey(bytes) }
    } catch (error) {
      if (!(error instanceof FloorForgedError)) return failed('read', error)
      if (seen.kind !== 'forged')
        log.error(
          { err: error, floor: storage.place },
          'the floor does not verify: something else than Halfkey wrote it',
        )
      seen = { kind: 'forged', why: error.message }
    }
  }

  async function writeNow(marks: Marks): Promise<void> {
    try {
      await storage.write(await codec.encode(marks, now()))
      seen = { kind: 'marks', marks, isCurrent: true }
      failures.delete('write')
    } catch (error) {
      failed('write', error)
    }
  }

  /** Over the network, what was read is up to ten seconds old: another process may have written more. */
  async function replace(marks: Marks, basis: Stored): Promise<void> {
    if (storage.isRemote) {
      await readNow()
      const isAsCompared =
        seen.kind === 'marks' && basis.kind === 'marks' ? covers(basis.marks, seen.marks) : seen.kind === basis.kind
      if (!isAsCompared || failures.has('read')) return
    }
    await writeNow(marks)
  }

  async function settle(ms: number): Promise<void> {
    if (busy === undefined) return
    const patience = new AbortController()
    await Promise.race([busy, pause(ms, undefined, { ref: false, signal: patience.signal }).catch(() => {})])
    patience.abort()
  }

  /** One at a time; awaited only where no network is between. */
  async function run(work: () => Promise<void>): Promise<void> {
    busy ??= work().finally(() => {
      busy = undefined
    })
    if (!storage.isRemote) await settle(LOCAL_WAIT_MS)
  }

  return {
    /** What is stored. Over the network, what was stored when it was last looked, `now` and then at once. */
    async read(isUrgent: boolean): Promise<Stored> {
      if (mayTry('read') && (isDue(readAt) || isUrgent)) await run(readNow)
      return seen
    },
    /**
     * Replaces what is stored, unless it says the same, or was never read: it could say more.
     * @param basis what `read` returned, and `marks` were compared with; if something else was read since, nothing is written
     */
    async write(marks: Marks, basis: Stored): Promise<void> {
      if (seen.kind === 'unread' || seen !== basis) return
      const isSame = seen.kind === 'marks' && seen.isCurrent && covers(seen.marks, marks) && covers(marks, seen.marks)
      // Another process may have written what this one could not.
      if (isSame) failures.delete('write')
      else if (mayTry('read', 'write')) await run(() => replace(marks, basis))
    },
    /** Whether the last read and the last write succeeded. */
    isKept: () => failures.size === 0,
    /** Waits at most `ms` for what is under way. */
    settle,
  }
}
