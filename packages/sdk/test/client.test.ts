import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { png } from '../../server/src/tenancy/apps/logo/png.fixture.ts'
import { logIn, newAuthenticator, signUp } from '../../server/test/harness/authenticator.ts'
import { type DnsServer, startDnsServer } from '../../server/test/harness/dns-server.ts'
import { eventually, type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../server/test/harness/receiver.ts'
import { type StripeFake, startStripeFake } from '../../server/test/harness/stripe-fake.ts'
import type { Fetch } from '../src/attempt.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { HalfkeyError, isHalfkeyError } from '../src/errors.ts'
import type { User } from '../src/models.ts'
import type { Page } from '../src/paging.ts'
import { useBilling } from './billing.ts'
import { newHolder, useApprovals, useDelegatedSessions, useOwnKey, useTemplates, useWallets } from './delegating.ts'
import { useCustomDomains } from './domains.ts'
import { useExternalWallets, useProviders } from './providers.ts'
import { useKeyShares, useSharedKeys } from './sharing.ts'
import {
  useEmail,
  useGuestsAndMfa,
  useHostedPage,
  useIssuers,
  useMessenger,
  usePasskeys,
  useSessions,
} from './sign-in.ts'

let service: Service
let receiver: Receiver
let dns: DnsServer
let stripe: StripeFake
let tenant: Tenant
let client: HalfkeyClient
/** Every request of `client`, as `METHOD /path`. */
const requests: string[] = []

const recording: Fetch = (url, init) => {
  requests.push(`${init.method} ${new URL(url).pathname.replace('/v1', '')}`)
  return fetch(url, init)
}

beforeAll(async () => {
  dns = await startDnsServer()
  stripe = await startStripeFake()
  service = await startService({
    HALFKEY_WEBHOOK_RETRY_DELAYS: '1ms',
    HALFKEY_DNS_SERVERS: dns.address,
    ...stripe.settings,
  })
  receiver = await startReceiver()
  tenant = await service.newTenant()
  client = createClient({ baseUrl: `${service.url}/v1`, apiKey: tenant.key, fetch: recording })
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
  await dns.close()
  await stripe.close()
})

const failure = (call: Promise<unknown>): Promise<HalfkeyError> =>
  call.then(
    () => Promise.reject(new Error('the call succeeded')),
    (error: unknown) => (error instanceof HalfkeyError ? error : Promise.reject(error)),
  )

async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const records: T[] = []
  for await (const record of list) records.push(record)
  return records
}

describe('every method works against the server', () => {
  test('apps', async () => {
    const app = await client.apps.create({ name: 'Shop', allowedOrigins: ['https://shop.example'] })
    expect(app).toMatchObject({ name: 'Shop', allowedOrigins: ['https://shop.example'] })
    expect(await client.apps.get(app.id)).toEqual(app)
    expect((await client.apps.list()).data.map(({ id }) => id)).toEqual([app.id, tenant.appId])
    expect((await client.apps.update(app.id, { metadata: { tier: 'gold' } })).metadata).toEqual({ tier: 'gold' })
    const { branding } = await client.apps.setLogo(app.id, { png: png({}).toString('base64') })
    expect(await client.apps.logo(app.id)).toMatchObject(branding.logo as object)
    expect((await client.apps.removeLogo(app.id)).branding.logo).toBeNull()
    await client.users.create({ appId: app.id })
    expect((await failure(client.apps.delete(app.id))).code).toBe('app_not_empty')
    expect((await client.apps.delete(app.id, { force: true })).id).toBe(app.id)
    expect((await failure(client.apps.get(app.id))).code).toBe('not_found')
  })

  test('users', async () => {
    const user = await client.users.create({ email: 'Zoë@example.com', metadata: { plan: 'gold' } })
    expect(await client.users.get(user.id)).toEqual(user)
    expect((await client.users.create()).email).toBeNull()
    const found = await client.users.list({ search: 'zoë@', trustLevel: 'embedded', appId: tenant.appId })
    expect(found).toEqual({ data: [user], total: 1, page: 1, pageSize: 20, hasMore: false })
    const changed = await client.users.update(user.id, { name: 'Zoë', metadata: { plan: null } })
    expect(changed).toMatchObject({ name: 'Zoë', metadata: {} })
    const { id } = await client.users.bulk.start({ action: 'suspend', userIds: [user.id] })
    await eventually('the user is suspended', async () => (await client.users.bulk.get(id)).status === 'succeeded')
    expect((await client.users.list({ search: 'zoë@', sort: 'email' })).data[0]?.status).toBe('suspended')
    expect((await client.users.delete(user.id)).status).toBe('deleted')
  })

  test('API keys', async () => {
    const made = await client.apiKeys.create({ name: 'Backend', type: 'secret', scopes: ['users:read'] })
    const { key, ...record } = made
    expect(await client.apiKeys.get(made.id)).toEqual(record)
    expect((await client.apiKeys.list({ pageSize: 1 })).data[0]?.id).toBe(made.id)
    const limited = createClient({ baseUrl: service.url, apiKey: key })
    expect((await limited.users.list()).page).toBe(1)
    expect((await failure(limited.users.create())).code).toBe('insufficient_scope')
    const rotated = await client.apiKeys.rotate(made.id, { graceSeconds: 0 })
    expect(rotated.key).not.toBe(key)
    expect((await failure(limited.users.list())).code).toBe('api_key_invalid')
    expect((await client.apiKeys.revoke(made.id)).status).toBe('revoked')
    expect((await failure(client.apiKeys.rotate(made.id))).code).toBe('api_key_not_active')
  })

  test('x402', async () => {
    const { kinds } = await client.x402.supported()
    const network = `halfkey:${tenant.tenantId}`
    expect(kinds).toMatchObject([{ scheme: 'exact', network }])
    const party = `shop::1220${'5a'.repeat(32)}`
    const extra = { decimals: 10, method: 'GET', resource: 'https://api.example.com/' } as const
    const price = { amount: '1', asset: `${party}/USDX`, payTo: party, maxTimeoutSeconds: 60, extra }
    const terms = { scheme: 'exact', network, ...price } as const
    const payload = { payer: party, delegatedSessionId: `dse_${'0'.repeat(26)}`, nonce: '5d'.repeat(32) }
    const paymentPayload = { x402Version: 2, accepted: terms, payload } as const
    const body = { x402Version: 2, paymentPayload, paymentRequirements: terms } as const
    expect(await client.x402.verify(body)).toMatchObject({ isValid: false, invalidReason: 'payment_not_found' })
    expect(await client.x402.settle(body)).toMatchObject({ success: false, errorReason: 'payment_not_found' })
  })

  test('members', async () => {
    const made = await client.members.invite({ email: 'ada@example.com', name: 'Ada', role: 'admin' })
    const { link, ...member } = made
    expect(link?.url).toContain('/dashboard#link=hk_dl_')
    expect(await client.members.get(made.id)).toEqual(member)
    expect((await client.members.list({ status: 'invited' })).data).toEqual([member])
    expect(await client.members.update(made.id, { role: 'support' })).toMatchObject({ role: 'support' })
    expect((await client.members.createLink(made.id)).link?.url).not.toBe(link?.url)
    expect((await client.members.createLink(made.id, { delivery: 'email' })).link).toBeNull()
    expect(await client.members.getSignIn()).toMatchObject({ emailCode: false, oidc: null })
    expect((await failure(client.members.updateSignIn({ emailCode: true }))).code).toBe('insufficient_scope')
    expect((await client.members.remove(made.id)).status).toBe('removed')
    expect((await failure(client.members.createLink(made.id))).code).toBe('member_removed')
  })

  test('webhooks', async () => {
    const made = await client.webhooks.create({ url: `${receiver.url}/a`, events: ['app.updated'], description: 'A' })
    const { secret, ...record } = made
    expect(secret).toMatch(/^whsec_/)
    expect(await client.webhooks.get(made.id)).toEqual(record)
    expect((await client.webhooks.list({ status: 'active' })).data).toContainEqual(record)
    expect((await client.webhooks.update(made.id, { description: null })).description).toBeNull()
    expect((await client.webhooks.rotate(made.id)).secret).not.toBe(secret)
    expect((await client.webhooks.test(made.id)).status).toBe('succeeded')
    expect((await client.webhooks.test(made.id, { eventType: 'user.created' })).eventType).toBe('user.created')
    expect((await client.webhooks.eventTypes({ page: 2 })).page).toBe(2)
    const check = { filter: { path: 'data.total', gte: '100' }, event: { data: { total: '25' } } }
    expect(await client.webhooks.checkFilter(check)).toMatchObject({ matches: false, reason: expect.any(String) })
    expect((await client.webhooks.delete(made.id)).id).toBe(made.id)
    expect((await failure(client.webhooks.get(made.id))).code).toBe('not_found')
    const blocked = await failure(client.webhooks.create({ url: 'https://169.254.169.254/', events: ['*'] }))
    expect(blocked).toMatchObject({ status: 400, code: 'webhook_url_blocked', details: [{ field: 'url' }] })
  })

  test('subscribers', async () => {
    const made = await client.subscribers.create({ externalId: 'customer-1', name: 'Ada Ltd' })
    expect(await client.subscribers.get(made.id)).toEqual(made)
    expect((await client.subscribers.list({ externalId: 'customer-1' })).data).toEqual([made])
    expect((await failure(client.subscribers.create({ externalId: 'customer-1' }))).code).toBe('already_exists')
    expect((await client.subscribers.update(made.id, { name: null })).name).toBeNull()
    const webhook = await client.webhooks.create({ url: receiver.url, events: ['*'], subscriberId: made.id })
    expect((await client.webhooks.list({ subscriberId: made.id })).data.map(({ id }) => id)).toEqual([webhook.id])
    const { url } = await client.subscribers.createPortalLink(made.id, { origins: ['https://app.example.com'] })
    expect(url).toMatch(/\/portal\?link=plk_\w+#token=prt_\w+$/)
    expect(await client.subscribers.revokePortalLinks(made.id)).toEqual({ revoked: 1 })
    expect((await client.subscribers.delete(made.id)).id).toBe(made.id)
    expect((await failure(client.webhooks.get(webhook.id))).code).toBe('not_found')
  })

  test('billing', () => useBilling(client))

  test('analytics', async () => {
    const { period, series, totals } = await client.analytics.get({ period: '7d' })
    expect([period, series.length]).toEqual(['7d', 7])
    expect(totals.newUsers).toBeGreaterThanOrEqual(0)
  })

  test('custom domains', () => useCustomDomains(client, dns))

  test('the audit log', async () => {
    const user = await client.users.create({ name: 'Watched' })
    const [entry] = await eventually('an entry', async () => {
      const page = await client.auditLog.list({ target: user.id, action: 'user.*', since: user.createdAt })
      return page.total === 1 && page.data
    })
    expect(entry).toMatchObject({ action: 'user.created', target: user.id, appId: user.appId })
  })

  test('the feed of events', async () => {
    const { id } = await client.users.create()
    // It shows what was committed before everything that still runs: not always at once.
    await eventually('the event', async () => {
      const { events } = await client.events.list({ limit: 100 })
      return events.some((event) => event.type === 'user.created' && event.data.userId === id)
    })
  })

  test('own events and their types', async () => {
    const { id } = await client.eventTypes.create({ name: 'test.order.shipped' })
    expect((await client.eventTypes.list()).data.map((type) => type.id)).toContain(id)
    expect((await client.eventTypes.update(id, { deprecated: true })).deprecated).toBe(true)
    const event = { type: 'test.order.shipped', data: { orderId: '1' } } as const
    expect(await client.events.publish(event)).toMatchObject(event)
    expect(await client.events.publishBatch([event, event])).toMatchObject([event, event])
    expect((await client.eventTypes.archive(id)).status).toBe('archived')
    expect((await client.eventTypes.get(id)).status).toBe('archived')
  })

  test('deliveries, dead letters and their recovery', async () => {
    receiver.behave((received, response) =>
      answer(received.path === '/dead' ? 500 : 200)(received, response, undefined as never),
    )
    const { id } = await client.webhooks.create({ url: `${receiver.url}/dead`, events: ['user.updated'] })
    const user = await client.users.create()
    for (const name of ['a', 'b']) await client.users.update(user.id, { name })
    const dead = await eventually('two dead letters', async () => {
      const page = await client.webhooks.deliveries.list(id, { status: 'dead_letter', eventType: 'user.updated' })
      return page.total === 2 && page.data
    })
    const first = dead[0] as (typeof dead)[0]
    const { payload, format, headers, ...delivery } = await client.webhooks.deliveries.get(id, first.id)
    expect(delivery).toEqual(first)
    expect([format, headers]).toEqual(['standard', { 'content-type': 'application/json' }])
    expect(payload).toMatchObject({ id: first.eventId, data: { userId: user.id } })
    expect(await client.events.get(first.eventId)).toEqual(payload)
    expect((await client.events.deliveries(first.eventId)).data.map((each) => each.id)).toContain(first.id)
    receiver.behave(answer(200))
    expect((await client.webhooks.deliveries.retry(id, first.id)).id).toBe(first.id)
    const job = await client.webhooks.recover(id, { since: user.createdAt })
    await eventually('recovery', async () => (await client.jobs.get(job.id)).status === 'succeeded')
    await eventually(
      'both delivered',
      async () => (await client.webhooks.deliveries.list(id, { status: 'succeeded' })).total === 2,
    )
    expect(await client.webhooks.purge(id)).toEqual({ purged: 0 })
    expect(await client.webhooks.deliveries.bulk(id, { action: 'purge', filter: {} })).toMatchObject({ total: 0 })
  })

  test('sign-in, sessions, guests and the second factor', async () => {
    const clientOf = (accessToken: string) =>
      createClient({ baseUrl: service.url, apiKey: tenant.key, accessToken, fetch: recording })
    const signedIn = await usePasskeys(service, client, clientOf)
    const exchanged = await useHostedPage(service, tenant, client, signedIn.accessToken)
    expect(exchanged.sessionId).toBe(signedIn.sessionId)
    await useSessions(client, clientOf, exchanged)
    await useMessenger(tenant, client)
    await useIssuers(service, tenant, client, clientOf)
    await useProviders(service, tenant, client, clientOf)
    await useExternalWallets(tenant, client, clientOf)
    await useEmail(service, tenant, client, clientOf)
    await useGuestsAndMfa(client, clientOf)
  })

  test('wallets, the faucet, delegated sessions, transactions and templates', async () => {
    const as = (who: object) => createClient({ baseUrl: service.url, apiKey: tenant.key, fetch: recording, ...who })
    const { mine, wallet, dripped } = await newHolder(client, (userId) => as({ userId }))
    expect(dripped).toMatchObject({ owner: wallet.partyId, symbol: 'USDX', amount: '100' })
    await useWallets(client, mine, wallet)
    await useDelegatedSessions(client, mine, dripped, (delegateToken) => as({ delegateToken }))
    await useOwnKey(
      client,
      (accessToken) => as({ accessToken }),
      (delegateToken) => as({ delegateToken }),
    )
    await useTemplates(client)
  })

  test('shared keys and key shares', async () => {
    const { pin } = service.running
    const as = (who: object) =>
      createClient({ baseUrl: service.url, apiKey: tenant.key, fetch: recording, pin, ...who })
    const clientOf = (accessToken: string) => as({ accessToken })
    await useSharedKeys(client, clientOf, (delegateToken) => as({ delegateToken }))
    await useKeyShares(client, clientOf)
  })

  test('templates of emails', async () => {
    const { emailTemplates } = client.apps
    const written = { subject: 'Your code', text: '{{code}}' }
    const preview = await emailTemplates.preview(tenant.appId, { kind: 'sign_in', language: 'en', ...written })
    expect(preview.subject).toBe('Your code')
    expect((await emailTemplates.set(tenant.appId, 'sign_in', 'en', written)).isDefault).toBe(false)
    expect((await emailTemplates.reset(tenant.appId, 'sign_in', 'en')).isDefault).toBe(true)
    expect((await emailTemplates.list(tenant.appId)).total).toBeGreaterThan(1)
  })

  test('tenant', async () => {
    const before = await client.tenant.get()
    expect(before.id).toBe(tenant.tenantId)
    expect((await client.tenant.update({ name: 'Renamed' })).name).toBe('Renamed')
  })

  test('health', async () => {
    expect((await client.health.check()).status).toBe('ok')
    expect((await client.health.ready()).checks.map(({ name }) => name)).toContain('database')
  })

  test('approvals', async () => {
    const publishable = await tenant.newKey({ publishable: true })
    const as = (of: object) => createClient({ baseUrl: service.url, apiKey: publishable, fetch: recording, ...of })
    const authenticator = newAuthenticator()
    const origin = service.url.replace('127.0.0.1', 'localhost')
    const made = await signUp({ url: service.url, key: publishable }, {}, { authenticator, origin })
    // A passkey approves from the next day. This test is the last one, because clients do not move their clocks.
    service.advance(86_400_000)
    const { accessToken } = await logIn({ url: service.url, key: publishable }, authenticator, {}, { origin })
    expect(made.isNewUser).toBe(true)
    await useApprovals(
      client,
      as({ accessToken }),
      (delegateToken) => as({ delegateToken }),
      (options) => authenticator.get(options, origin) as never,
    )
  })

  test('and every operation of the API has a method', () => {
    const { paths } = JSON.parse(readFileSync(new URL('../../server/openapi.json', import.meta.url), 'utf8'))
    const called = (method: string, path: string) => {
      // An id of ours, a template's name, or the kind and language of an email.
      const id = '([a-z]+_[0-9a-z]{26}|Shop%3AVoucher|sign_in|en)'
      const pattern = new RegExp(`^${method.toUpperCase()} ${path.replace(/\{\w+\}/g, id)}$`)
      return requests.some((request) => pattern.test(request))
    }
    const operations = Object.keys(paths).flatMap((path) =>
      Object.keys(paths[path]).map((method) => ({ method, path })),
    )
    expect(operations.length).toBeGreaterThanOrEqual(70)
    expect(operations.filter(({ method, path }) => !called(method, path))).toEqual([])
  })
})

describe('a list', () => {
  test('iterates over all pages, and resolves to the first page', async () => {
    const other = createClient({ baseUrl: service.url, apiKey: (await service.newTenant()).key })
    const made: string[] = []
    for (let n = 0; n < 7; n++) made.unshift((await other.users.create({ externalId: `n-${n}` })).id)
    const list = other.users.list({ pageSize: 3, search: 'n-' })
    const page = await list
    expectTypeOf(page).toEqualTypeOf<Page<User>>()
    expect(page).toMatchObject({ total: 7, page: 1, pageSize: 3, hasMore: true })
    expect((await all(list)).map(({ id }) => id)).toEqual(made)
    expect((await all(other.users.list({ pageSize: 3, page: 2 }))).map(({ id }) => id)).toEqual(made.slice(3))
    expect(await all(other.users.list({ page: 9 }))).toEqual([])
  })

  test('of event types, which have no ids, is complete', async () => {
    const types = (await all(client.webhooks.eventTypes({ pageSize: 7 }))).map(({ type }) => type)
    expect(new Set(types).size).toBe(types.length)
    expect(types.length).toBe((await client.webhooks.eventTypes()).total)
  })

  test('throws when a page fails', async () => {
    await expect(all(client.users.list({ pageSize: 101 }))).rejects.toThrow(HalfkeyError)
    await expect(all(client.webhooks.deliveries.list('wh_none'))).rejects.toMatchObject({ code: 'not_found' })
  })
})

describe('a call whose response was lost', () => {
  /** Lets the server do its work, and then loses its answer, as a broken connection does. */
  function losingFirst() {
    const replayed: (string | null)[] = []
    const sender: Fetch = async (url, init) => {
      const response = await fetch(url, init)
      replayed.push(response.headers.get('idempotency-replayed'))
      if (replayed.length > 1) return response
      await response.body?.cancel()
      throw new TypeError('fetch failed')
    }
    return { replayed, sender }
  }

  test('has its effect once, and returns the first result', async () => {
    const { replayed, sender } = losingFirst()
    const other = await service.newTenant()
    const unlucky = createClient({ baseUrl: service.url, apiKey: other.key, fetch: sender })
    const user = await unlucky.users.create({ name: 'Ada' })
    expect(replayed).toEqual([null, 'true'])
    expect((await unlucky.users.list()).data).toEqual([user])
  })

  test('still returns a secret that is shown only once', async () => {
    const { replayed, sender } = losingFirst()
    const other = await service.newTenant()
    const unlucky = createClient({ baseUrl: service.url, apiKey: other.key, fetch: sender })
    const { id, key } = await unlucky.apiKeys.create({ name: 'Backend', type: 'secret', scopes: ['api_keys:read'] })
    expect(replayed).toEqual([null, 'true'])
    expect((await createClient({ baseUrl: service.url, apiKey: key }).apiKeys.get(id)).lastUsedAt).toBeDefined()
  })
})

describe('an API error', () => {
  test('has status, code, details and request id', async () => {
    const error = await failure(client.users.create({ email: 'x', name: '' }))
    expect(error).toMatchObject({
      name: 'HalfkeyError',
      status: 400,
      code: 'validation_failed',
      retryAfterSeconds: null,
    })
    expect(error.details.map(({ field }) => field)).toEqual(expect.arrayContaining(['email', 'name']))
    expect(error.message).toContain('email: ')
    await eventually('its line in the log', async () => service.logs().includes(error.requestId as string))
  })

  test('is recognised by isHalfkeyError', async () => {
    const error: unknown = await failure(client.users.get('usr_none'))
    expect(isHalfkeyError(error)).toBe(true)
    expect(isHalfkeyError(error, 'already_exists')).toBe(false)
    if (!isHalfkeyError(error, 'not_found')) throw error
    expectTypeOf(error.code).toEqualTypeOf<'not_found'>()
    for (const other of [new Error('x'), { name: 'HalfkeyError', code: 'not_found' }, null, undefined, 'not_found'])
      expect(isHalfkeyError(other)).toBe(false)
  })

  test('is thrown for an id with any characters: the id stays one segment of the path', async () => {
    for (const id of ['usr/../x', '../apps', '?force=true', '#', 'ü ☃', '%2e%2e', 'a'.repeat(1_000)])
      expect(await failure(client.users.get(id)), id).toMatchObject({ status: 404, code: 'not_found' })
  })
})

describe('invalid arguments are refused before anything is sent', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['an empty id', () => client.users.get('')],
    ['a dot for an id', () => client.users.delete('.')],
    ['two dots for an id', () => client.webhooks.purge('..')],
    ['no id', () => client.users.get(undefined as never)],
    ['an idempotency key that no header can hold', () => client.users.create({}, { idempotencyKey: 'a\nb' })],
    ['an empty idempotency key', () => client.users.create({}, { idempotencyKey: '' })],
    ['retries without end', () => client.users.list({}, { maxRetries: Number.POSITIVE_INFINITY })],
    ['no time', () => client.users.list({}, { timeoutMs: 0 })],
  ])('%s', async (_, call) => {
    const before = requests.length
    await expect(call()).rejects.toThrow(TypeError)
    expect(requests.length).toBe(before)
  })

  test.each<[string, object]>([
    ['no key', { apiKey: undefined }],
    ['an empty key', { apiKey: '' }],
    ['no URL', { baseUrl: undefined }],
    ['another protocol', { baseUrl: 'ftp://example.com/v1' }],
    ['no protocol', { baseUrl: 'localhost:8080' }],
    ['a relative path', { baseUrl: 'v1' }],
    ['another host by two slashes', { baseUrl: '//example.com/v1' }],
    ['credentials in the URL', { baseUrl: 'https://ada:secret@example.com/v1' }],
    ['a password in the URL', { baseUrl: 'https://:secret@example.com/v1' }],
    ['a query in the URL', { baseUrl: 'https://example.com/v1?key=1' }],
    ['a token beside a user id', { accessToken: 'a', userId: 'usr_1' }],
    ['a delegated session’s token beside a user’s', { accessToken: 'a', delegateToken: 'dst_a' }],
    ['a delegated session’s token beside a user id', { userId: 'usr_1', delegateToken: 'dst_a' }],
    ['a delegate’s key without a token', { delegateKey: { prove: async () => '' } }],
    ['a delegated session’s token that no header can hold', { delegateToken: 'dst_a\n' }],
    ['too many retries', { maxRetries: 11 }],
    ['half a retry', { maxRetries: 0.5 }],
    ['a timer’s overflow', { timeoutMs: 2 ** 31 }],
  ])('%s', (_, options) => {
    expect(() => createClient({ baseUrl: service.url, apiKey: tenant.key, ...options })).toThrow(TypeError)
  })
})

describe('the base URL', () => {
  test.each([
    ['https://example.com', 'https://example.com/v1/tenant'],
    ['https://example.com/', 'https://example.com/v1/tenant'],
    ['https://example.com/v1', 'https://example.com/v1/tenant'],
    ['https://example.com/v1/', 'https://example.com/v1/tenant'],
    ['https://example.com:8443/wallets/v1', 'https://example.com:8443/wallets/v1/tenant'],
    ['/dashboard/api', '/dashboard/api/tenant'],
    ['/', '/v1/tenant'],
  ])('%s', async (baseUrl, url) => {
    const asked: string[] = []
    const sender: Fetch = async (to) => {
      asked.push(to)
      return Response.json({ data: {} })
    }
    await createClient({ baseUrl, apiKey: 'hk_sk_x', fetch: sender }).tenant.get()
    expect(asked).toEqual([url])
  })
})

describe('the request', () => {
  async function headersOf(options: object): Promise<Record<string, string>[]> {
    const seen: Record<string, string>[] = []
    const sender: Fetch = async (_, init) => {
      seen.push(init.headers as Record<string, string>)
      return Response.json({ data: {} })
    }
    const one = createClient({ baseUrl: service.url, apiKey: 'hk_sk_x', fetch: sender, ...options })
    await one.users.create({})
    await one.users.get('usr_1')
    return seen
  }

  test('has the API key, the user, and for changes a random idempotency key', async () => {
    const [post, get] = await headersOf({ userId: 'usr_7' })
    expect(post).toEqual({
      accept: 'application/json',
      'content-type': 'application/json',
      'x-api-key': 'hk_sk_x',
      'x-user-id': 'usr_7',
      'idempotency-key': expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
    })
    expect(get).toEqual({ accept: 'application/json', 'x-api-key': 'hk_sk_x', 'x-user-id': 'usr_7' })
  })

  test('has an access token, which a function returns anew for each request', async () => {
    let asked = 0
    const accessToken = async () => `token-${++asked}`
    expect((await headersOf({ accessToken })).map((each) => each.authorization)).toEqual([
      'Bearer token-1',
      'Bearer token-2',
    ])
    expect((await headersOf({ accessToken: 'fixed' }))[0]?.authorization).toBe('Bearer fixed')
    expect((await headersOf({ delegateToken: 'dst_1' }))[0]?.authorization).toBe('Bearer dst_1')
  })

  test('has an idempotency key also without crypto.randomUUID, as on pages over http', async () => {
    const given = crypto.randomUUID
    Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true })
    try {
      const [post] = await headersOf({})
      expect(post?.['idempotency-key']).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    } finally {
      Object.defineProperty(crypto, 'randomUUID', { value: given, configurable: true })
    }
  })
})

describe('the key stays secret', () => {
  const SECRET_KEY = 'hk_sk_thisMustNotBeSeen'

  test('when a client is printed', () => {
    const secretive = createClient({ baseUrl: service.url, apiKey: SECRET_KEY, accessToken: 'tokenNotToBeSeen' })
    const shown = [inspect(secretive, { depth: 9, showHidden: true }), JSON.stringify(secretive), String(secretive)]
    expect(shown[0]).toContain('HalfkeyClient')
    expect(JSON.parse(shown[1] as string)).toEqual({ name: 'HalfkeyClient', baseUrl: `${service.url}/v1` })
    for (const text of shown) expect(text).not.toMatch(/NotBeSeen|NotToBeSeen/)
    expect(inspect({ ...secretive }, { depth: 9, showHidden: true })).not.toMatch(/NotBeSeen/)
  })

  test('in errors of the API, of the network, and for an invalid key', async () => {
    const wrong = createClient({ baseUrl: service.url, apiKey: SECRET_KEY })
    const unreachable = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: SECRET_KEY, maxRetries: 0 })
    const errors: unknown[] = [await failure(wrong.users.list()), await failure(unreachable.users.list())]
    for (const apiKey of [`${SECRET_KEY}\n`, `${SECRET_KEY}é`, ` ${SECRET_KEY}`])
      expect(() => {
        try {
          createClient({ baseUrl: service.url, apiKey })
        } catch (error) {
          errors.push(error)
          throw error
        }
      }).toThrow(TypeError)
    const token = createClient({ baseUrl: service.url, apiKey: SECRET_KEY, accessToken: () => 'NotBeSeen\n' })
    errors.push(await token.users.list().catch((error: unknown) => error))
    expect(errors).toHaveLength(6)
    for (const error of errors) expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('NotBeSeen')
  })
})
