import { createHash } from 'node:crypto'
import { createClient } from '@redis/client'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { type RatePolicy, type RateVerdict, verdictOf } from './rate-limit.ts'

/** What a call may wait for Redis. */
const ANSWER_MS = 100
/** For all of a connection: name, TCP, TLS, password. Nobody but the start waits for that. */
const CONNECT_MS = 1_000
const PREFIX = 'halfkey:rl'
/** What a new connection is tried with: it writes, so that a read-only or full Redis is none. */
const TRIAL: RatePolicy = { name: 'trial', perSecond: 1_000, burst: 1_000 }

/**
 * The same algorithm as in memory, by Redis' clock, which all processes share. In place of the library's fixed windows,
 * at whose borders twice the burst would pass. In: 1, the entry's life in seconds, burst, window in seconds. Out, where
 * the library expects points used and the time until they are back: more than the burst for a refusal, and microseconds.
 */
const SCRIPT = `local at = redis.call('TIME')
local now = at[1] * 1000 + at[2] / 1000
local burst = tonumber(ARGV[3])
local window = ARGV[4] * 1000
local full = math.min(tonumber(redis.call('GET', KEYS[1]) or now) or now, now + window)
local start = math.max(now, full)
local next = start + window / burst * ARGV[1]
if next - now > window + 0.01 then return {burst + 1, math.floor((start - now) * 1000)} end
redis.call('SET', KEYS[1], string.format('%.3f', next), 'EX', ARGV[2])
return {1, math.floor((next - now) * 1000)}`
const SCRIPT_SHA1 = createHash('sha1').update(SCRIPT).digest('hex')

/** What the script may have said of one call. @throws Error for anything else: nobody is to be refused for nonsense */
function readAnswer(answer: RateLimiterRes, policy: RatePolicy): RateVerdict {
  const emptyInMs = answer.msBeforeNext / 1000
  const isSense = [answer.consumedPoints, answer.msBeforeNext].every((each) => Number.isInteger(each) && each >= 0)
  // A refusal's too: by the script's own measure it is never longer.
  if (!isSense || emptyInMs > (policy.burst / policy.perSecond) * 1000 + 1)
    throw Object.assign(new Error('no answer of the script'), { code: 'nonsense' })
  return verdictOf(policy, answer.consumedPoints <= policy.burst, emptyInMs)
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
    // One way to come back, by a new connection: this client's own would keep what hangs.
    socket: { reconnectStrategy: false, connectTimeout: CONNECT_MS },
    commandOptions: { timeout: undefined as never },
  })
  client.on('error', onLost)
  const destroy = () => {
    // It is open until it has failed by itself.
    if (client.isOpen) client.destroy()
  }
  const run = {
    eval: (_: string, options: { keys: string[]; arguments: string[] }) =>
      client.evalSha(SCRIPT_SHA1, options).catch((error: Error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return client.eval(SCRIPT, options)
      }),
  }
  const limiters = new Map<string, RateLimiterRedis>()
  /** One for each policy, of which there are as many as settings. */
  const limiterOf = (policy: RatePolicy) => {
    const known = limiters.get(policy.name)
    if (known !== undefined) return known
    const made = new RateLimiterRedis({
      storeClient: run,
      useRedisPackage: true,
      keyPrefix: `${PREFIX}:${policy.name}`,
      points: policy.burst,
      duration: policy.burst / policy.perSecond,
      customIncrTtlLuaScript: SCRIPT,
    })
    limiters.set(policy.name, made)
    return made
  }
  const store: LimitStore = {
    async take(entry, policy) {
      // An entry may be forgotten when its bucket is empty, in whole seconds.
      const lifetime = { customDuration: Math.ceil(policy.burst / policy.perSecond) }
      const answer = await inTime(
        limiterOf(policy)
          .consume(entry, 1, lifetime)
          .catch((refusal: unknown) => {
            if (!(refusal instanceof RateLimiterRes)) throw refusal
            return refusal
          }),
        ANSWER_MS,
      )
      return readAnswer(answer, policy)
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
