import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../../test/harness/envelope.ts'
import {
  type Answer,
  call,
  eventually,
  type Service,
  startService,
  type Tenant,
} from '../../../../test/harness/harness.ts'
import { listenForMetrics } from '../../observability/metrics-route.ts'

/** Trusts nobody and limits nothing. */
let plain: Service
/** Behind a proxy on this machine, with limits that a test reaches. */
let limited: Service
const BURST = { secret: 20, publishable: 5 }
beforeAll(async () => {
  plain = await startService()
  limited = await startService({
    HALFKEY_TRUSTED_PROXIES: '127.0.0.1,10.0.0.0/8',
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_RATE_LIMIT_SECRET: `1/${BURST.secret}`,
    HALFKEY_RATE_LIMIT_PUBLISHABLE: `1/${BURST.publishable}`,
    HALFKEY_METRICS_TOKEN: 'scrape-me',
  })
})
afterAll(async () => {
  await plain.stop()
  await limited.stop()
})

const from = (address: string, more: Record<string, string> = {}) => ({ 'x-forwarded-for': address, ...more })

async function keyFor(tenant: Tenant, allowedIps: string[]): Promise<string> {
  const answer = await tenant.post('/api-keys', {
    name: 'one place',
    type: 'secret',
    scopes: ['tenant:read'],
    allowedIps,
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data.key
}

describe('the address of a client', () => {
  test('is the peer where no proxy is trusted, whatever the headers say', async () => {
    const tenant = await plain.newTenant()
    const [elsewhere, here] = [await keyFor(tenant, ['203.0.113.7']), await keyFor(tenant, ['127.0.0.1'])]
    const claims = [
      {},
      from('203.0.113.7'),
      from('203.0.113.7', {
        'x-real-ip': '203.0.113.7',
        forwarded: 'for=203.0.113.7',
        'cf-connecting-ip': '203.0.113.7',
      }),
    ]
    for (const headers of claims) {
      expectError(await tenant.get('/tenant', { key: elsewhere, headers }), 403, 'ip_not_allowed')
      expect((await tenant.get('/tenant', { key: here, headers })).status).toBe(200)
    }
  })

  test('is what a trusted proxy reports: the last address that is none of the proxies', async () => {
    const tenant = await limited.newTenant()
    const key = await keyFor(tenant, ['203.0.113.0/24', '2001:db8::/32'])
    for (const address of [
      '203.0.113.7',
      '198.51.100.1, 203.0.113.7',
      '203.0.113.9, 10.1.2.3',
      '2001:db8::7',
      '::ffff:203.0.113.7',
    ])
      expect((await tenant.get('/tenant', { key, headers: from(address) })).status, address).toBe(200)
    for (const address of [
      '198.51.100.1',
      '203.0.113.7, 198.51.100.1',
      '203.0.113.7, 198.51.100.1, 10.1.2.3',
      '',
      'x',
      '203.0.113.7.evil',
      "' OR 1=1",
      '2001:db9::7',
    ])
      expectError(await tenant.get('/tenant', { key, headers: from(address) }), 403, 'ip_not_allowed', address)
  })

  test('is asked for before scopes and records, after the key', async () => {
    const tenant = await plain.newTenant()
    const key = await keyFor(tenant, ['203.0.113.7'])
    expectError(await tenant.get('/users/none', { key }), 403, 'ip_not_allowed')
    expectError(await tenant.get('/nothing', { key }), 403, 'ip_not_allowed')
    expectError(await tenant.get('/tenant', { key: `${key}x` }), 401, 'api_key_invalid')
  })
})

/** Calls until the first refusal, at most `most` times. */
async function exhaust(
  request: () => Promise<Answer>,
  most: number,
): Promise<{ allowed: number; refused: Answer; seconds: number }> {
  const startedAt = performance.now()
  for (let allowed = 0; allowed <= most; allowed += 1) {
    const answer = await request()
    if (answer.status === 429) return { allowed, refused: answer, seconds: (performance.now() - startedAt) / 1000 }
  }
  throw new Error(`no 429 within ${most} calls`)
}

describe('the rate limit', () => {
  test('lets a burst through, then answers 429 with the time to wait, after which it is over', async () => {
    const tenant = await limited.newTenant()
    const { allowed, refused, seconds } = await exhaust(() => tenant.get('/tenant'), 60)
    expect(allowed).toBeGreaterThanOrEqual(BURST.secret)
    expect(allowed).toBeLessThanOrEqual(BURST.secret + Math.ceil(seconds))
    expectError(refused, 429, 'rate_limited')
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(refused.headers.get('ratelimit-policy')).toBe(`"secret";q=${BURST.secret};w=${BURST.secret}`)
    expect(refused.headers.get('ratelimit')).toMatch(/^"secret";r=0;t=\d+$/)
    await eventually('the end of the limit', async () => (await tenant.get('/tenant')).status === 200, 3_000)
  })

  test('is told with every answer', async () => {
    const tenant = await limited.newTenant()
    const rest = async () => Number(/r=(\d+)/.exec((await tenant.get('/nothing')).headers.get('ratelimit') ?? '')?.[1])
    const [first, second] = [await rest(), await rest()]
    expect(first).toBeGreaterThan(BURST.secret - 4)
    expect(second).toBeLessThanOrEqual(first)
  })

  test('counts unknown routes and refusals, comes before them, and counts no missing key', async () => {
    const tenant = await limited.newTenant()
    const startedAt = performance.now()
    await exhaust(() => tenant.post('/nothing', undefined, { raw: '{' }), 60)
    for (const ask of [() => tenant.get('/users?page=0'), () => tenant.post('/users', undefined, { raw: '{' })]) {
      const { allowed, refused } = await exhaust(ask, 60)
      expectError(refused, 429, 'rate_limited')
      // No more than comes back meanwhile.
      expect(allowed).toBeLessThanOrEqual(Math.ceil((performance.now() - startedAt) / 1000))
    }
    for (let i = 0; i < 30; i += 1) expectError(await call(limited.url, 'GET', '/v1/tenant'), 401, 'api_key_missing')
    expect((await call(limited.url, 'GET', '/healthz')).status).toBe(200)
  })

  test('is one for each secret key, wherever it calls from', async () => {
    const tenant = await limited.newTenant()
    const other = await tenant.newKey({ scopes: ['tenant:read'] })
    const addresses = Array.from({ length: 62 }, (_, i) => `203.0.113.${i}`)
    await exhaust(() => tenant.get('/tenant', { headers: from(addresses.pop() as string) }), 60)
    expect((await tenant.get('/tenant', { key: other })).status).toBe(200)
    expect((await (await limited.newTenant()).get('/tenant')).status).toBe(200)
  })

  test('is one for each publishable key and address', async () => {
    const tenant = await limited.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const health = (address: string, which = key) => tenant.get('/healthz', { key: which, headers: from(address) })
    const { allowed, refused } = await exhaust(() => health('203.0.113.7'), 20)
    expect(allowed).toBeGreaterThanOrEqual(BURST.publishable)
    expect(refused.headers.get('ratelimit-policy')).toMatch(/^"publishable";q=5;w=5$/)
    expect((await health('203.0.113.8')).status).toBe(200)
    expect((await health('203.0.113.7', await tenant.newKey({ publishable: true }))).status).toBe(200)
  })

  test('is not there when it is turned off', async () => {
    const tenant = await plain.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const answers = await Promise.all(Array.from({ length: 200 }, () => tenant.get('/healthz', { key })))
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]))
    expect(answers[0]?.headers.get('ratelimit')).toBeNull()
  })
})

describe('/metrics', () => {
  const metrics = (service: Service, headers: Record<string, string> = {}) =>
    call(service.url, 'GET', '/metrics', { headers })

  test('with a token set, answers to that token alone and is 404 to all others', async () => {
    const answer = await metrics(limited, { authorization: 'Bearer scrape-me' })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/plain')])
    for (const authorization of [
      '',
      'Bearer',
      'Bearer scrape-m',
      'Bearer scrape-me2',
      'bearer scrape-me',
      'Basic scrape-me',
      'scrape-me',
    ]) {
      const refused = await metrics(limited, { authorization })
      expectError(refused, 404, 'not_found', authorization)
    }
    expectError(await metrics(limited), 404, 'not_found')
    expectError(await call(limited.url, 'GET', '/metrics?token=scrape-me'), 404, 'not_found')
  })

  test('on a port of its own asks for the token too, where one is set', async () => {
    const own = await listenForMetrics(limited.deps, '127.0.0.1', 0)
    try {
      const read = (headers: Record<string, string>) =>
        call(`http://127.0.0.1:${own.port}`, 'GET', '/metrics', { headers })
      for (const headers of [{}, { authorization: 'Bearer scrape-m' }]) {
        const refused = await read(headers)
        expect([refused.status, refused.body.code]).toEqual([404, 'not_found'])
      }
      expect((await read({ authorization: 'Bearer scrape-me' })).status).toBe(200)
    } finally {
      await own.close()
    }
  })

  test('without one, is open to this machine in development', async () => {
    const tenant = await plain.newTenant()
    await tenant.get('/users/none')
    const answer = await metrics(plain)
    expect(answer.status).toBe(200)
    expect(answer.text).toContain('route="/v1/users/:id"')
    for (const secret of [tenant.key, tenant.tenantId]) expect(answer.text).not.toContain(secret)
  })

  test('is not there on the main port when it has a port of its own', async () => {
    const service = await startService({ HALFKEY_METRICS_PORT: '0' })
    try {
      expectError(await metrics(service), 404, 'not_found')
    } finally {
      await service.stop()
    }
  })
})

test('the addresses of one IPv6 network count as one, and an IPv4 address is the same in either spelling', async () => {
  const tenant = await limited.newTenant()
  const key = await tenant.newKey({ publishable: true })
  const statuses = async (addresses: string[]) => {
    const answers = await Promise.all(
      addresses.map((address) => tenant.get('/healthz', { key, headers: from(address) })),
    )
    return answers.filter(({ status }) => status === 429).length
  }
  const many = Array.from({ length: 6 * BURST.publishable }, (_, n) => `2001:db8:0:7:${n + 1}::1`)
  expect(await statuses(many)).toBeGreaterThanOrEqual(BURST.publishable - 1)
  expect(await statuses(['2001:db8:0:8::1'])).toBe(0)
  const spellings = Array.from({ length: 6 * BURST.publishable }, (_, n) =>
    n % 2 ? '203.0.113.9' : '::ffff:203.0.113.9',
  )
  expect(await statuses(spellings)).toBeGreaterThanOrEqual(BURST.publishable - 1)
})
