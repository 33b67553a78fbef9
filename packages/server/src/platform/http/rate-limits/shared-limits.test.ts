// Limits that hold across processes: two services over one database and one real Redis, which is killed, frozen and misled.
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  eventually,
  refillsNothing,
  type Service,
  startService,
} from '../../../../test/harness/harness.ts'
import { hasRedis, RedisProcess } from '../../../../test/harness/redis-process.ts'
import { freePort } from '../../../../test/harness/service-process.ts'
import { ConfigError, loadConfig } from '../../../config.ts'
import { makeAuthority } from '../../egress/certificates.fixture.ts'

const BURST = 40
/** So slow that nothing comes back during a test. */
const SLOW = {
  HALFKEY_ROLE: 'api',
  HALFKEY_RATE_LIMITS: 'on',
  HALFKEY_TRUSTED_PROXIES: '127.0.0.1',
  HALFKEY_RATE_LIMIT_SECRET: `1/${BURST * 100}`,
  HALFKEY_RATE_LIMIT_PUBLISHABLE: `1/${BURST}`,
  HALFKEY_RATE_LIMIT_ACCOUNT: '1/5',
}

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function newRedis(...more: Parameters<typeof RedisProcess.create>): Promise<RedisProcess> {
  const redis = await RedisProcess.create(...more)
  cleanups.push(() => {
    redis.thaw()
    return redis.kill()
  })
  return redis
}

async function newService(settings: Record<string, string>): Promise<Service> {
  const service = await startService({ ...SLOW, ...settings })
  cleanups.push(() => service.stop())
  return service
}

/** A second process of the same installation. */
const beside = (first: Service, settings: Record<string, string>) =>
  newService({
    DATABASE_URL: first.databaseUrl,
    HALFKEY_KEK_FILE: join(first.dataDir, 'kek.key'),
    ...settings,
  })

async function pair(redisUrl: string, settings: Record<string, string> = {}): Promise<[Service, Service]> {
  const first = await newService({ REDIS_URL: redisUrl, ...settings })
  return [first, await beside(first, { REDIS_URL: redisUrl, ...settings })]
}

/** The value of one of the service's own figures. */
async function figure(service: Service, name: string): Promise<number> {
  const text = await service.deps.metrics.registry.getSingleMetricAsString(name)
  return Number(/^\w+ (\S+)$/m.exec(text)?.[1])
}
const errors = (service: Service) => figure(service, 'halfkey_rate_limit_store_errors_total')
const isAlone = async (service: Service) => (await figure(service, 'halfkey_rate_limit_alone')) === 1
const shared = (service: Service) => eventually('shared limits', async () => !(await isAlone(service)))

const publishable = async (service: Service) => service.admin.newKey({ publishable: true })
let addresses = 0
const newAddress = () => {
  addresses += 1
  return `198.51.100.${addresses}`
}
const probe = (service: Service, key: string, address: string) =>
  call(service.url, 'GET', '/v1/healthz', { key, headers: { 'x-forwarded-for': address } })

/** Calls of one client at once, in turn at each service. */
const burst = (services: readonly Service[], key: string, address: string, count: number) =>
  Promise.all(Array.from({ length: count }, (_, n) => probe(services[n % services.length] as Service, key, address)))

const allowed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length
/** How many calls come back to a bucket, at most, from now on until the returned function is called: one a second. */
function refill(): () => number {
  const startedAt = performance.now()
  return () => Math.ceil((performance.now() - startedAt) / 1000)
}
const remaining = (answer: Answer) => Number(/;r=(\d+);/.exec(answer.headers.get('ratelimit') ?? '')?.[1])

/** Does it again where a service gave Redis up meanwhile: a machine that stood still for so long says nothing about a limit. */
async function whileShared<T>(services: readonly Service[], attempt: () => Promise<T>): Promise<T> {
  for (;;) {
    for (const service of services) await shared(service)
    const before = await Promise.all(services.map(errors))
    const made = await attempt()
    if (isDeepStrictEqual(await Promise.all(services.map(errors)), before)) return made
  }
}

/** So many of 100 calls pass at both services together: one burst, and what came back meanwhile. */
async function expectOneBurst(services: readonly Service[], key: string): Promise<Answer[]> {
  const { answers, refilled } = await whileShared(services, async () => {
    const since = refill()
    return { answers: await burst(services, key, newAddress(), 100), refilled: since }
  })
  expect(allowed(answers)).toBeGreaterThanOrEqual(BURST)
  expect(allowed(answers)).toBeLessThanOrEqual(BURST + refilled())
  for (const answer of answers) if (answer.status !== 200) expectError(answer, 429, 'rate_limited')
  return answers
}

if (!hasRedis) process.stderr.write('redis-server is not installed: the tests of shared rate limits are skipped\n')

describe.skipIf(!hasRedis)('with a Redis', () => {
  test('two processes share one burst, to the last call, and tell it truly', async () => {
    const [one, other] = await pair((await newRedis()).url)
    const key = await publishable(one)
    const answers = await expectOneBurst([one, other], key)
    const left = answers.filter(({ status }) => status === 200).map(remaining)
    // Each call took one of the same bucket: no number is told twice, but for what came back meanwhile.
    expect(new Set(left).size).toBeGreaterThanOrEqual(BURST - 2)
    expect(Math.min(...left)).toBe(0)
    expect(Math.max(...left)).toBe(BURST - 1)
    const refused = answers.find(({ status }) => status === 429) as Answer
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('ratelimit-policy')).toBe(`"publishable";q=${BURST};w=${BURST}`)
    expect(refused.headers.get('ratelimit')).toMatch(/^"publishable";r=0;t=(39|40)$/)
  })

  test('a process tells the same of a call as one that counts in memory', async () => {
    const settings = { HALFKEY_RATE_LIMIT_PUBLISHABLE: '3/20' }
    const inRedis = await newService({ REDIS_URL: (await newRedis()).url, ...settings })
    const inMemory = await newService(settings)
    const told = async (service: Service) => {
      const key = await publishable(service)
      const answers = await burst([service], key, newAddress(), 4)
      return answers.map(({ headers }) => [headers.get('ratelimit-policy'), headers.get('ratelimit')]).sort()
    }
    // One that took longer than a token takes to come back tells of it.
    await eventually('both tell the same', async () => isDeepStrictEqual(await told(inRedis), await told(inMemory)))
  })

  test('a limit is over when Retry-After says so, at the other process too', async () => {
    const [one, other] = await pair((await newRedis()).url, { HALFKEY_RATE_LIMIT_PUBLISHABLE: '1/4' })
    const key = await publishable(one)
    const { address, both, refilled } = await whileShared([one, other], async () => {
      const at = newAddress()
      const since = refill()
      const answers = [await burst([one], key, at, 30), await burst([other], key, at, 30)]
      return { address: at, both: answers.flat(), refilled: since() }
    })
    expect(allowed(both)).toBeLessThanOrEqual(4 + refilled)
    await eventually('the end of the limit', async () => (await probe(other, key, address)).status === 200, 3_000)
  })

  test('the limits of sign-in and of an account are shared too', async () => {
    const [one, other] = await pair((await newRedis()).url, { HALFKEY_RATE_LIMIT_SIGN_IN: '1/500' })
    for (const each of [one, other])
      for (const limit of ['rateLimitSignIn', 'rateLimitAccount'] as const) refillsNothing(each, limit)
    const answers = await whileShared([one, other], async () => {
      const user = await one.admin.post('/users', {})
      const verify = (service: Service) =>
        call(service.url, 'POST', '/v1/mfa/verify', {
          key: one.admin.key,
          headers: { 'x-user-id': user.body.data.id },
          body: { challengeId: 'chl_none', code: '000000' },
        })
      return Promise.all(Array.from({ length: 24 }, (_, n) => verify(n % 2 === 0 ? one : other)))
    })
    expect(answers.filter(({ body }) => body.code !== 'rate_limited')).toHaveLength(5)
    const left = answers.map(({ headers }) => /"sign_in";r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1])
    const told = left.filter((each) => each !== undefined)
    expect(told.length).toBeGreaterThanOrEqual(5)
    expect(new Set(told).size).toBe(told.length)
  })

  test('unknown routes, broken paths and refusals count, and come after the limit', async () => {
    const [one, other] = await pair((await newRedis()).url, { HALFKEY_RATE_LIMIT_SECRET: '1/30' })
    const { key } = one.admin
    const wrong = [
      ['/v1/nothing', 404, 'not_found'],
      ['/v1/users/%zz', 400, 'malformed_request'],
      ['/v1/users?page=0', 400, 'validation_failed'],
    ] as const
    for (const [path, status, code] of wrong) {
      const answer = await call(one.url, 'GET', path, { key })
      expectError(answer, status, code)
      expect(answer.headers.get('ratelimit')).toMatch(/^"secret";r=2\d;t=\d+$/)
    }
    for (let n = 0; n < 20; n += 1) expectError(await call(one.url, 'GET', '/v1/nothing'), 401, 'api_key_missing')
    await Promise.all(Array.from({ length: 40 }, () => one.admin.get('/tenant')))
    // Fewer than a bucket of their own would hold, and more than come back meanwhile.
    for (const [path] of wrong) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => call(other.url, 'GET', path, { key })))
      expect(answers.map(({ status }) => status)).toContain(429)
    }
  })

  test('a user of Redis who may do no more than the documentation says will do', async () => {
    const redis = await newRedis()
    const rights = '~halfkey:rl:* +eval +evalsha +get +set +time'
    await redis.command('ACL', 'SETUSER', 'limits', 'on', '>pass', ...rights.split(' '))
    const service = await newService({ REDIS_URL: `redis://limits:pass@127.0.0.1:${redis.port}/0` })
    await expectOneBurst([service], await publishable(service))
  })

  test('what lies in Redis names nobody, and goes by itself', async () => {
    const redis = await newRedis()
    const service = await newService({ REDIS_URL: redis.url })
    const key = await publishable(service)
    await probe(service, key, '203.0.113.77')
    await service.admin.get('/tenant')
    // The trial by which a process looks whether it may write lives a second only.
    const namesOf = async () =>
      ((await redis.command('KEYS', '*')) as string[]).filter((name) => name !== 'halfkey:rl:trial:0')
    const names = await namesOf()
    expect(names.length).toBe(2)
    const keyIds = (await service.admin.get('/api-keys')).body.data.map(({ id }: { id: string }) => id)
    for (const name of names) {
      expect(name).toMatch(/^halfkey:rl:(publishable|secret):[\w-]{22}$/)
      for (const personal of ['203.0.113.77', ...keyIds]) expect(name).not.toContain(personal)
      expect(await redis.command('GET', name)).toMatch(/^\d+\.\d{3}$/)
      expect(await redis.command('TTL', name)).toBeGreaterThan(0)
      expect(await redis.command('MEMORY', 'USAGE', name)).toBeLessThan(200)
    }
    // Another installation on the same Redis is another one.
    const stranger = await newService({ REDIS_URL: redis.url })
    await probe(stranger, await publishable(stranger), '203.0.113.77')
    expect((await namesOf()).length).toBe(4)
  })

  test('killed under load: no request fails, each process limits by itself, and shares again when it is back', async () => {
    const redis = await newRedis()
    const [one, other] = await pair(redis.url)
    const key = await publishable(one)
    const statuses: number[] = []
    let isLoaded = true
    const load = Array.from({ length: 20 }, async (_, n) => {
      while (isLoaded)
        statuses.push((await [one, other][n % 2]?.admin.call('GET', '/tenant', { key: one.admin.key }))?.status ?? 0)
    })
    await eventually('some load', async () => statuses.length > 100)
    await redis.kill()
    for (const service of [one, other]) await eventually('both noticed', async () => isAlone(service))
    const before = statuses.length
    await eventually('more load', async () => statuses.length > before + 100)
    // Alone: each has a burst of its own, and no more than that.
    const refilled = refill()
    const answers = await burst([one, other], key, newAddress(), 4 * BURST)
    expect(allowed(answers)).toBeGreaterThanOrEqual(2 * BURST)
    expect(allowed(answers)).toBeLessThanOrEqual(2 * (BURST + refilled()))
    await redis.start()
    await shared(one)
    await shared(other)
    isLoaded = false
    await Promise.all(load)
    expect(new Set(statuses)).toEqual(new Set([200]))
    await expectOneBurst([one, other], key)
    for (const service of [one, other]) {
      expect(await errors(service)).toBeGreaterThan(0)
      expect(service.logs().match(/this process applies rate limits by itself/g)?.length).toBeGreaterThanOrEqual(1)
      expect(service.logs().match(/rate limits are shared again/g)?.length).toBeGreaterThanOrEqual(1)
      expect((await call(service.url, 'GET', '/readyz')).status).toBe(200)
    }
  })

  test('what a client had used up before Redis went away is used up after it', async () => {
    const redis = await newRedis()
    const service = await newService({ REDIS_URL: redis.url })
    const key = await publishable(service)
    const address = newAddress()
    const refilled = refill()
    const before = await burst([service], key, address, BURST + 5)
    await redis.kill()
    await eventually('it is noticed', () => isAlone(service))
    const after = await burst([service], key, address, BURST)
    expect(allowed([...before, ...after])).toBeLessThanOrEqual(BURST + refilled())
  })

  test('frozen: nobody waits for it but those who were the first, and it is found again', async () => {
    const redis = await newRedis()
    const [one, other] = await pair(redis.url)
    const key = await publishable(one)
    redis.freeze()
    // All of these wait for it together, and are then counted here: one burst passes, as ever.
    const refilled = refill()
    const first = await burst([one], key, newAddress(), 100)
    expect(allowed(first)).toBeGreaterThanOrEqual(BURST)
    expect(allowed(first)).toBeLessThanOrEqual(BURST + refilled())
    expect(await isAlone(one)).toBe(true)
    const failed = await errors(one)
    for (let n = 0; n < 100; n += 1) expect((await probe(one, key, newAddress())).status).toBe(200)
    // None of these asked Redis, or each would have failed: what failed meanwhile are looks in the background.
    expect((await errors(one)) - failed).toBeLessThan(50)
    expect(await isAlone(one)).toBe(true)
    redis.thaw()
    await probe(other, key, newAddress())
    await shared(one)
    await shared(other)
    await expectOneBurst([one, other], key)
  })

  test('away at the start: the service starts alone, and shares as soon as it is there', async () => {
    const redis = await newRedis()
    await redis.kill()
    const [one, other] = await pair(redis.url)
    const key = await publishable(one)
    expect([await isAlone(one), await isAlone(other)]).toEqual([true, true])
    expect((await probe(one, key, newAddress())).status).toBe(200)
    await redis.start()
    await shared(one)
    await shared(other)
    await expectOneBurst([one, other], key)
  })

  test('one that restarts without its scripts and its data goes on with an empty bucket', async () => {
    const redis = await newRedis()
    const service = await newService({ REDIS_URL: redis.url })
    const key = await publishable(service)
    await probe(service, key, newAddress())
    await redis.command('SCRIPT', 'FLUSH')
    await redis.command('FLUSHALL')
    await expectOneBurst([service], key)
  })

  test.each([
    ['read-only', 'READONLY', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
    ['out of memory', 'OOM', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
    ['without a right to write', 'ERR', ['ACL', 'SETUSER', 'default', '-set'], ['ACL', 'SETUSER', 'default', '+@all']],
    [
      'with an entry of another kind',
      'WRONGTYPE',
      [
        'EVAL',
        "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) redis.call('LPUSH', key, 1) end",
        '0',
      ],
      ['FLUSHALL'],
    ],
  ] as const)('%s: no request fails, and it is asked again once it is well', async (_, reason, breaks, mends) => {
    const redis = await newRedis()
    const service = await newService({ REDIS_URL: redis.url })
    const key = await publishable(service)
    const address = newAddress()
    await probe(service, key, address)
    await redis.command(...breaks)
    expect(allowed(await burst([service], key, address, 20))).toBe(20)
    expect(await isAlone(service)).toBe(true)
    expect(service.logs()).toContain(`"reason":"${reason}`)
    await redis.command(...mends)
    await shared(service)
    await expectOneBurst([service], key)
  })

  test('with a password over TLS it is used, and neither is the password told nor an unknown certificate trusted', async () => {
    const [password, wrong] = ['p@ss/w:rd?#ü', 'another-w0rd']
    const authority = makeAuthority('Redis CA')
    const { mkdtempSync, rmSync, writeFileSync } = await import('node:fs')
    const { tmpdir } = await import('node:os')
    const folder = mkdtempSync(join(tmpdir(), 'hk-redis-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const { cert, key } = authority.issue(['localhost', '127.0.0.1'])
    writeFileSync(join(folder, 'cert.pem'), cert)
    writeFileSync(join(folder, 'key.pem'), key)
    writeFileSync(join(folder, 'ca.pem'), authority.ca)
    const tlsPort = await freePort()
    await newRedis(
      [
        '--requirepass',
        password,
        '--tls-port',
        String(tlsPort),
        '--tls-cert-file',
        join(folder, 'cert.pem'),
        '--tls-key-file',
        join(folder, 'key.pem'),
        '--tls-ca-cert-file',
        join(folder, 'ca.pem'),
        '--tls-auth-clients',
        'no',
      ],
      (port) => `redis://:${encodeURIComponent(password)}@127.0.0.1:${port}`,
    )
    const url = (word: string) => `rediss://:${encodeURIComponent(word)}@localhost:${tlsPort}`
    const untrusting = await newService({ REDIS_URL: url(password) })
    expect(await isAlone(untrusting)).toBe(true)
    const before = getCACertificates('default')
    setDefaultCACertificates([...before, authority.ca])
    onTestFinished(() => setDefaultCACertificates(before))
    const service = await newService({ REDIS_URL: url(password) })
    await shared(service)
    await expectOneBurst([service], await publishable(service))
    const refused = await newService({ REDIS_URL: url(wrong) })
    expect(await isAlone(refused)).toBe(true)
    expect(refused.logs()).toContain('"reason":"WRONGPASS"')
    const nameless = await newService({ REDIS_URL: `rediss://localhost:${tlsPort}` })
    expect(nameless.logs()).toContain('"reason":"NOAUTH"')
    for (const { logs } of [untrusting, service, refused, nameless])
      for (const word of [password, encodeURIComponent(password), wrong]) expect(logs()).not.toContain(word)
  })
})

/** Takes connections and does nothing else, or answers nonsense. */
async function impostor(greet: (socket: Socket) => void): Promise<string> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    greet(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(
    () =>
      new Promise<void>((resolve) => {
        for (const socket of open) socket.destroy()
        server.close(() => resolve())
      }),
  )
  const address = server.address()
  return `redis://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

/** What is no Redis, by what it does with a connection. */
const NO_REDIS: [what: string, greet: (socket: Socket) => void][] = [
  ['takes the connection and says nothing', () => {}],
  [
    'speaks another protocol',
    (socket) => {
      socket.on('data', () => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'))
    },
  ],
  ['hangs up at once', (socket) => void socket.destroy()],
]
test.each(NO_REDIS)('what %s at the start is no Redis, and stops nothing', async (_, greet) => {
  const service = await newService({ REDIS_URL: await impostor(greet) })
  expect(await isAlone(service)).toBe(true)
  const key = await publishable(service)
  const refilled = refill()
  const answers = await burst([service], key, newAddress(), 2 * BURST)
  expect(allowed(answers)).toBeGreaterThanOrEqual(BURST)
  expect(allowed(answers)).toBeLessThanOrEqual(BURST + refilled())
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]))
})

/** Speaks Redis' protocol; every call of a script gets this reply, once the first one, the trial, had a good one. */
const talker =
  (reply: string) =>
  (socket: Socket): void => {
    let count = 0
    socket.on('data', (data) => {
      for (const command of data.toString().match(/evalsha|hello|select|auth|ping/gi) ?? []) {
        if (command.toLowerCase() !== 'evalsha') socket.write('+OK\r\n')
        else socket.write(count++ === 0 ? '*2\r\n:1\r\n:1000\r\n' : reply)
      }
    })
  }
test.each([
  ['a text', '+OK\r\n'],
  ['nothing', '$-1\r\n'],
  ['an empty list', '*0\r\n'],
  ['words', '*2\r\n$1\r\nx\r\n$1\r\ny\r\n'],
  ['no time', '*2\r\n:1\r\n$-1\r\n'],
  ['a negative time', '*2\r\n:1\r\n:-5000000\r\n'],
  ['a refusal for longer than the window', '*2\r\n:999\r\n:999999999999999\r\n'],
])('a Redis that answers %s is left: nobody is refused for it, and headers stay true', async (_, reply) => {
  const service = await newService({ REDIS_URL: await impostor(talker(reply)) })
  expect(await isAlone(service)).toBe(false)
  const key = await publishable(service)
  // Soon it is asked again, and begins with a good answer.
  await eventually('it is left', async () => service.logs().includes('this process applies rate limits by itself'))
  const answers = await burst([service], key, newAddress(), BURST / 2)
  expect(allowed(answers)).toBe(BURST / 2)
  for (const { headers } of answers) expect(headers.get('ratelimit')).toMatch(/^"publishable";r=\d+;t=\d+$/)
  expect(await errors(service)).toBeGreaterThan(0)
})

test('a REDIS_URL that is none is refused by name, without the password that may be in it', () => {
  for (const url of ['http://:hunter2@127.0.0.1', 'hunter2', 'redis//hunter2', 'unix:///hunter2']) {
    const load = () => loadConfig({ REDIS_URL: url })
    expect(load).toThrow(ConfigError)
    expect(load).toThrow(/REDIS_URL must/)
    expect(load).not.toThrow(/hunter2/)
  }
  expect(loadConfig({ REDIS_URL: 'rediss://:hunter2@redis.internal:6380/3' }).redisUrl).toContain('rediss:')
})
