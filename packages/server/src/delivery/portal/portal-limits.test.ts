import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { newType, ok } from '../events/own-events.fixture.ts'
import { newSubscriber, openPortal, publish } from '../subscribers/subscribers.fixture.ts'

const PAID = 'acme.invoice.paid'
const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))

// The operator opens private networks to the tenants' own webhooks.
let production: Service
let dns: DnsServer
let receiver: Receiver
let tenant: Tenant
beforeAll(async () => {
  dns = await startDnsServer()
  receiver = await startReceiver()
  const kekFile = join(folder, 'kek.key')
  writeFileSync(kekFile, randomBytes(32).toString('base64'), { mode: 0o600 })
  production = await startService({
    HALFKEY_ENV: 'production',
    HALFKEY_KEK_FILE: kekFile,
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_TRUSTED_PROXIES: '127.0.0.1',
    HALFKEY_DNS_SERVERS: dns.address,
    HALFKEY_EGRESS_ALLOW: '10.0.0.0/8,127.0.0.0/8,inner.test,moves.test',
    HALFKEY_WEBHOOK_RETRY_DELAYS: '1h',
  })
  tenant = await production.newTenant()
  await newType(tenant, PAID)
  dns.set('public.test', [{ type: 'A', address: '93.184.216.34' }])
  dns.set('inner.test', [{ type: 'A', address: '10.1.2.3' }])
  dns.set('moves.test', [{ type: 'A', address: '93.184.216.34', ttlSeconds: 0 }])
})
afterAll(async () => {
  await production.stop()
  await receiver.close()
  await dns.close()
  rmSync(folder, { recursive: true })
})

test.each([
  'https://10.0.0.7/',
  'http://10.0.0.7/',
  'http://127.0.0.1:3000/',
  'https://inner.test/',
  'http://inner.test/',
  'http://moves.test/',
])('what the operator allows is open to the tenant and closed to subscribers: %s', async (url) => {
  const ada = await newSubscriber(tenant)
  const { call } = await openPortal(production, tenant, ada)
  const own = ok(await tenant.post('/webhooks', { url, events: ['*'] }), 201)
  ok(await tenant.delete(`/webhooks/${own.id}`))
  const body = { url, events: ['*'] }
  for (const answer of [
    await call('POST', '/webhooks', { body }),
    await tenant.post('/webhooks', { ...body, subscriberId: ada }),
  ])
    expect(expectRefusal(answer, 'webhook_url_blocked')[0].field).toBe('url')
  const made = ok(await call('POST', '/webhooks', { body: { url: 'https://public.test/', events: ['*'] } }), 201)
  for (const answer of [
    await call('PATCH', `/webhooks/${made.id}`, { body: { url } }),
    await tenant.patch(`/webhooks/${made.id}`, { url }),
  ])
    expect(expectRefusal(answer, 'webhook_url_blocked')[0].field).toBe('url')
  ok(await call('DELETE', `/webhooks/${made.id}`))
})

test('a name that moves to an allowed address after the check is refused at the send, for the subscriber alone', async () => {
  const ada = await newSubscriber(tenant)
  const { port } = new URL(receiver.url)
  const { call } = await openPortal(production, tenant, ada)
  const url = `https://moves.test:${port}/theirs`
  const theirs = ok(await call('POST', '/webhooks', { body: { url, events: ['*'] } }), 201)
  dns.set('moves.test', [{ type: 'A', address: '127.0.0.1', ttlSeconds: 0 }])
  const ownUrl = `http://moves.test:${port}/own`
  const own = ok(await tenant.post('/webhooks', { url: ownUrl, events: [PAID], includeSubscribers: true }), 201)
  await publish(tenant, PAID, ada)
  await receiver.until('the tenant’s own delivery', ({ path }) => path === '/own')
  const attempt = await eventually('the attempt', async () => {
    const [delivery] = ok(await call('GET', `/webhooks/${theirs.id}/deliveries`))
    return delivery?.attempts[0]
  })
  const refusal = { statusCode: null, error: 'blocked: the host is not on the public internet' }
  expect(attempt).toMatchObject(refusal)
  expect(ok(await call('POST', `/webhooks/${theirs.id}/test`, { body: {} })).attempts[0]).toMatchObject(refusal)
  expect(receiver.received.filter(({ path }) => path !== '/own')).toEqual([])
  ok(await tenant.delete(`/webhooks/${own.id}`))
})

test('pages that name a link are limited by address, before the database is asked for it', async () => {
  const ada = await newSubscriber(tenant)
  const { url } = await openPortal(production, tenant, ada, { origins: ['https://app.example.com'] })
  const open = () =>
    call(production.url, 'GET', `/portal${new URL(url).search}`, { headers: { 'x-forwarded-for': '203.0.113.99' } })
  const { rateLimitPublishable } = production.deps.config
  const before = { ...rateLimitPublishable }
  Object.assign(rateLimitPublishable, { perSecond: 1e-3, burst: 2 })
  const answers = [await open(), await open(), await open()]
  Object.assign(rateLimitPublishable, before)
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
})

test('a subscriber’s calls have a limit, over all links, which is no other subscriber’s', async () => {
  const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
  const links = await Promise.all(Array.from({ length: 3 }, () => openPortal(production, tenant, ada)))
  const bobs = await openPortal(production, tenant, bob)
  // From different addresses, so that only the subscriber's own limit is left.
  const ask = ({ call }: typeof bobs, n: number) =>
    call('GET', '/subscriber', { headers: { 'x-forwarded-for': `203.0.113.${n}` } })
  Object.assign(production.deps.config.rateLimitPublishable, { perSecond: 1e-3, burst: 6 })
  const answers = []
  for (let n = 0; n < 9; n += 1) answers.push(await ask(links[n % 3] as typeof bobs, n))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(6)
  for (const answer of answers.slice(6)) expectError(answer, 429, 'rate_limited')
  ok(await ask(bobs, 10))
})

test('a call that waits for its body counts once, although its link is asked for again', async () => {
  const ada = await newSubscriber(tenant)
  const { call: ask, token } = await openPortal(production, tenant, ada)
  Object.assign(production.deps.config.rateLimitPublishable, { perSecond: 1e-3, burst: 2 })
  const body = JSON.stringify({ url: 'https://public.test/', events: ['*'] })
  const begunAt = performance.now()
  const headers = {
    authorization: `Bearer ${token}`,
    'x-forwarded-for': '203.0.113.20',
    'content-type': 'application/json',
    'content-length': body.length,
  }
  const slow = request(`${production.url}/portal/api/webhooks`, { method: 'POST', headers })
  const answered = new Promise<number | undefined>((resolve, reject) => {
    slow.on('response', (response) => resolve(response.resume().statusCode))
    slow.on('error', reject)
  })
  slow.flushHeaders()
  slow.write(body.slice(0, 5))
  while (performance.now() - begunAt < 150) ok(await tenant.get('/subscribers'))
  slow.end(body.slice(5))
  expect(await answered).toBe(201)
  ok(await ask('GET', '/subscriber', { headers: { 'x-forwarded-for': '203.0.113.21' } }))
  expectError(await ask('GET', '/subscriber', { headers: { 'x-forwarded-for': '203.0.113.22' } }), 429, 'rate_limited')
})
