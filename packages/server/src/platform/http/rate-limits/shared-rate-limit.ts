import { createHmac, type KeyObject } from 'node:crypto'
import type { Logger } from '../../observability/log.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { LocalRateLimiter, RateLimiter, RatePolicy, RateVerdict } from './rate-limit.ts'
import { connectLimits, type LimitStore } from './redis-limits.ts'

const PAUSE_MIN_MS = 250
const PAUSE_MAX_MS = 5_000
/** After a connection has held this long, the pauses start from the shortest again. */
const GOOD_MS = 10_000
/** How soon a revocation of the signing keys changes the names of entries: in all processes, so that they agree again. */
const NAMING_MS = 1_000
const NAME_CHARS = 22

/** A limiter over a Redis that other processes share. */
export interface SharedRateLimiter extends RateLimiter {
  /** Connects, waiting a second at most. What is not there then is looked for in the background. */
  start(): Promise<void>
  stop(): Promise<void>
}

export interface SharedOptions {
  /** `redis://` or `rediss://`, with whatever user, password and database it needs. */
  url: string
  /** Counts along, and takes over while Redis is away. */
  local: LocalRateLimiter
  metrics: Metrics
  log: Logger
  /** A secret that all processes have: entries are named by a hash under it, for addresses are personal. */
  namingKey(): Promise<KeyObject>
}

/** What went wrong, without whatever else a server may have put into its message. */
function reasonOf(error: unknown): string {
  const { code, name, message } = error as { code?: unknown; name?: string; message?: string }
  if (typeof code === 'string') return code
  return /^[A-Z]{3,20}(?= )/.exec(message ?? '')?.[0] ?? name ?? 'unknown'
}

/** Names entries by a hash under a secret of the installation's, followed as it changes. */
function createNaming(namingKey: () => Promise<KeyObject>) {
  let key: KeyObject | undefined
  let timer: NodeJS.Timeout | undefined
  const read = async () => {
    key = await namingKey()
  }
  return {
    ready: async () => {
      if (key === undefined) await read()
    },
    /** To be called once `ready` was. */
    nameOf: (entry: string) =>
      createHmac('sha256', key as KeyObject)
        .update(`halfkey/v1/rate-limit ${entry}`)
        .digest('base64url')
        .slice(0, NAME_CHARS),
    follow() {
      // What cannot be read now is read the next time; until then names stay.
      timer = setInterval(() => void read().catch(() => {}), NAMING_MS)
      timer.unref()
    },
    stop: () => clearInterval(timer),
  }
}

/**
 * Limits that hold across all processes of one Redis. Fails open: after the first failure the process limits by `local`,
 * no call asks Redis, and the connection is retried in the background. No call waits longer than 100 ms.
 */
export function createSharedRateLimiter(options: SharedOptions): SharedRateLimiter {
  const { url, local, metrics, log } = options
  const naming = createNaming(options.namingKey)
  let store: LimitStore | null = null
  let connectedAt = 0
  let failures = 0
  let stopped = false
  let isToldAlone = false
  let pausing: NodeJS.Timeout | undefined
  let connecting: Promise<void> | undefined

  function alone(error: unknown): void {
    metrics.rateLimitStoreErrors.inc()
    metrics.rateLimitAlone.set(1)
    if (!isToldAlone)
      log.warn({ reason: reasonOf(error) }, 'Redis is unreachable: this process applies rate limits by itself')
    isToldAlone = true
    const pauseMs = Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** failures) * (0.5 + Math.random() / 2)
    failures += 1
    clearTimeout(pausing)
    if (stopped) return
    pausing = setTimeout(() => void attempt(), pauseMs)
    pausing.unref()
  }

  /** The first failure of a connection closes it, and fails all calls that wait for its replies. */
  function leave(left: LimitStore, error: unknown): void {
    if (store !== left) return void metrics.rateLimitStoreErrors.inc()
    store = null
    if (performance.now() - connectedAt > GOOD_MS) failures = 0
    left.destroy()
    if (!stopped) alone(error)
  }

  async function connectOnce(): Promise<void> {
    let made: LimitStore | undefined
    try {
      await naming.ready()
      made = await connectLimits(url, (error) => {
        if (made !== undefined) leave(made, error)
      })
    } catch (error) {
      if (!stopped) alone(error)
      return
    }
    if (stopped) return made.destroy()
    store = made
    connectedAt = performance.now()
    metrics.rateLimitAlone.set(0)
    if (isToldAlone) log.info({}, 'rate limits are shared again')
    isToldAlone = false
  }

  function attempt(): Promise<void> {
    connecting ??= connectOnce().finally(() => {
      connecting = undefined
    })
    return connecting
  }

  async function ask(from: LimitStore, key: string, policy: RatePolicy): Promise<RateVerdict> {
    try {
      const verdict = await from.take(naming.nameOf(key), policy)
      // Also counted locally, so that a used-up burst stays used up if Redis becomes unreachable.
      if (verdict.allowed) local.take(key, policy)
      return verdict
    } catch (error) {
      leave(from, error)
      return local.take(key, policy)
    }
  }

  return {
    take: (key, policy) => (store === null ? local.take(key, policy) : ask(store, key, policy)),
    async start() {
      naming.follow()
      await attempt()
    },
    async stop() {
      stopped = true
      clearTimeout(pausing)
      naming.stop()
      store?.destroy()
      store = null
      await connecting
    },
  }
}
