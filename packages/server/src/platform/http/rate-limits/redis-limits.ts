import { createHash } from 'node:crypto'
import { createClient } from '@redis/client'
import { type RatePolicy, type RateVerdict, verdictOf } from './rate-limit.ts'

/** What a call may wait for Redis. */
const ANSWER_MS = 100
/** For all of a connection: name, TCP, TLS, password. Nobody but the start waits for that. */
const CONNECT_MS = 1_000
const PREFIX = 'halfkey:rl'
/** Tests a new connection. It writes, so that a read-only or full Redis counts as unreachable. */
const TRIAL: RatePolicy = { name: 'trial', perSecond: 1_000, burst: 1_000 }

/**
 * The algorithm of memory, by Redis' clock, which all processes share. In: burst, window in seconds, the entry's life in
 * seconds. Out: 1 for an allowed call and 0 for a refused one, and microseconds until the bucket is empty.
 */
const SCRIPT = `local at = redis.call('TIME')
local now = at[1] * 1000 + at[2] / 1000
local window = ARGV[2] * 1000
local full = math.min(tonumber(redis.call('GET', KEYS[1]) or now) or now, now + window)
local start = math.max(now, full)
local next = start + window / ARGV[1]
if next - now > window + 0.01 then return {0, math.floor((start - now) * 1000)} end
redis.call('SET', KEYS[1], string.format('%.3f', next), 'EX', ARGV[3])
return {1, math.floor((next - now) * 1000)}`
const SCRIPT_SHA1 = createHash('sha1').update(SCRIPT).digest('hex')

/** The script's verdict on one call. @throws Error for any other reply; no call is refused because of it */
function readAnswer(answer: unknown, policy: RatePolicy): RateVerdict {
  const [allowed, emptyInUs] = (Array.isArray(answer) ? answer : []) as number[]
  const isValid = [allowed, emptyInUs].every((each) => Number.isInteger(each) && Number(each) >= 0)
  const emptyInMs = Number(emptyInUs) / 1000
  // By the script's own measure no bucket takes longer than the window, that of a refusal included.
  if (!isValid || emptyInMs > (policy.burst / policy.perSecond) * 1000 + 1)
    throw Object.assign(new Error('not an answer of the script'), { code: 'nonsense' })
  return verdictOf(policy, allowed === 1, emptyInMs)
}

/** One connection to Redis, until its first failure. */
export interface LimitStore {
  /** Counts one call under `entry` where it is allowed. @throws Error when Redis fails, or says nothing for 100 ms */
  take(entry: string, policy: RatePolicy): Promise<RateVerdict>
  /** Fails what waits for an answer. */
  destroy(): void
}

/** Fails after a while. An answer that has come in by then counts, even where this process was too busy to read it. */
function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    // The immediate comes after what has arrived is read.
    const timer = setTimeout(() => setImmediate(() => reject(Object.assign(new Error('late'), { code: 'late' }))), ms)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/**
 * Connects, and tries what it will be used for. `onLost` hears of a connection that ends by itself.
 * @throws Error when there is no Redis, or no right to use it
 */
export async function connectLimits(url: string, onLost: (error: unknown) => void): Promise<LimitStore> {
  const client = createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandsQueueMaxLength: 50_000,
    // Reconnects only with a new connection: the client's own retry would keep a hanging one.
    socket: { reconnectStrategy: false, connectTimeout: CONNECT_MS },
    commandOptions: { timeout: undefined as never },
  })
  client.on('error', onLost)
  const destroy = () => {
    // It is open until it has failed by itself.
    if (client.isOpen) client.destroy()
  }
  const store: LimitStore = {
    async take(entry, policy) {
      const windowSeconds = policy.burst / policy.perSecond
      const input = {
        keys: [`${PREFIX}:${policy.name}:${entry}`],
        // An entry may be forgotten when its bucket is empty, in whole seconds.
        arguments: [policy.burst, windowSeconds, Math.ceil(windowSeconds)].map(String),
      }
      const answer = client.evalSha(SCRIPT_SHA1, input).catch((error: Error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return client.eval(SCRIPT, input)
      })
      return readAnswer(await inTime(answer, ANSWER_MS), policy)
    },
    destroy,
  }
  try {
    await inTime(client.connect(), CONNECT_MS)
    await store.take('0', TRIAL)
  } catch (error) {
    destroy()
    throw error
  }
  return store
}
