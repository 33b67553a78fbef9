import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../../test/harness/dashboard-page.ts'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { signIn } from '../../../test/matrix/requests.ts'
import { newType, ok } from '../events/own-events.fixture.ts'
import { newSubscriber, newWebhook, openPortal, portalOf, publish, sentTo } from '../subscribers/subscribers.fixture.ts'

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const PAID = 'acme.invoice.paid'

async function tenantWithType(): Promise<Tenant> {
  const tenant = await service.newTenant()
  await newType(tenant, PAID, { description: 'A customer paid.', example: { invoiceId: 'inv_1' } })
  return tenant
}

/** A tenant with two subscribers, their portals, and a webhook of each with one delivery. */
async function twoSubscribers() {
  const tenant = await tenantWithType()
  const make = async () => {
    const id = await newSubscriber(tenant)
    const webhookId = await newWebhook(tenant, receiver.url, id)
    await sentTo(tenant, await publish(tenant, PAID, id))
    const [{ id: deliveryId }] = ok(await tenant.get(`/webhooks/${webhookId}/deliveries`))
    return { id, webhookId, deliveryId, portal: await openPortal(service, tenant, id) }
  }
  return { tenant, ada: await make(), bob: await make() }
}

/** Every call of the portal, with these ids. */
const callsOf = ({ webhookId, deliveryId }: { webhookId: string; deliveryId: string }) =>
  [
    ['GET', `/webhooks/${webhookId}`],
    ['PATCH', `/webhooks/${webhookId}`, { description: 'Taken' }],
    ['PATCH', `/webhooks/${webhookId}`, { url: `${receiver.url}/taken` }],
    ['PATCH', `/webhooks/${webhookId}`, { events: [PAID] }],
    ['POST', `/webhooks/${webhookId}/rotate`, {}],
    ['POST', `/webhooks/${webhookId}/test`, {}],
    ['GET', `/webhooks/${webhookId}/deliveries`],
    ['GET', `/webhooks/${webhookId}/deliveries/${deliveryId}`],
    ['POST', `/webhooks/${webhookId}/deliveries/${deliveryId}/retry`],
    ['DELETE', `/webhooks/${webhookId}`],
  ] as const

test('a link opens the portal of its subscriber: add, choose, see, retry, rotate, test, pause, delete', async () => {
  const tenant = await tenantWithType()
  await newType(tenant, 'acme.old')
  await tenant.delete(`/event-types/${ok(await tenant.get('/event-types?name=acme.old'))[0].id}`)
  ok(await tenant.patch(`/apps/${tenant.appId}`, { branding: { name: 'Acme', accentColor: '#1d4ed8' } }))
  const ada = await newSubscriber(tenant, { name: 'Ada Ltd', metadata: { secret: 'of the app' } })
  const { call, url } = await openPortal(service, tenant, ada)
  expect(url).toMatch(/^http:\/\/localhost:\d+\/portal#token=prt_[0-9A-Za-z]{49}$/)
  const first = await call('GET', '/subscriber')
  expect(ok(first)).toEqual({
    subscriber: { name: 'Ada Ltd' },
    branding: { name: 'Acme', accentColor: '#1d4ed8', logoUrl: null },
    eventTypes: [{ name: PAID, description: 'A customer paid.', deprecated: false }],
    expiresAt: expect.any(String),
  })
  expect(first.headers.get('set-cookie')).toBeNull()
  expect(first.headers.get('cache-control')).toBe('no-store')
  const made = ok(await call('POST', '/webhooks', { body: { url: receiver.url, events: [PAID] } }), 201)
  const { secret, ...webhook } = made
  expect(secret).toMatch(/^whsec_/)
  expect(Object.keys(made).sort()).toEqual([
    'createdAt',
    'description',
    'disabledReason',
    'events',
    'filter',
    'format',
    'health',
    'id',
    'payload',
    'previousSecretUntil',
    'secret',
    'secretLast4',
    'status',
    'updatedAt',
    'url',
  ])
  expect(ok(await call('GET', '/webhooks'))).toEqual([webhook])
  expect(ok(await call('GET', `/webhooks/${made.id}`))).toEqual(webhook)
  expect(ok(await tenant.get(`/webhooks/${made.id}`))).toMatchObject({ subscriberId: ada, appId: tenant.appId })
  const eventId = await publish(tenant, PAID, ada)
  await receiver.until('the event', ({ event }) => event.id === eventId)
  const delivery = await eventually('the delivery has ended', async () => {
    const [found] = ok(await call('GET', `/webhooks/${made.id}/deliveries?status=succeeded`))
    return found
  })
  // The app's ordering keys are its own, and a whole list at once is not for strangers.
  expect(delivery).not.toHaveProperty('heldByKey')
  const asCsv = await call('GET', `/webhooks/${made.id}/deliveries`, { headers: { accept: 'text/csv' } })
  expect(asCsv.headers.get('content-type')).toContain('application/json')
  expect(ok(await call('GET', `/webhooks/${made.id}/deliveries/${delivery.id}`)).payload).toMatchObject({
    id: eventId,
    subscriber_id: ada,
  })
  ok(await call('POST', `/webhooks/${made.id}/deliveries/${delivery.id}/retry`))
  await receiver.count('the retry', 2, ({ event }) => event.id === eventId)
  expect(ok(await call('POST', `/webhooks/${made.id}/rotate`, { body: {} })).secret).not.toBe(secret)
  expect(ok(await call('POST', `/webhooks/${made.id}/test`, { body: { eventType: PAID } })).status).toBe('succeeded')
  expect(ok(await call('PATCH', `/webhooks/${made.id}`, { body: { status: 'paused' } })).status).toBe('paused')
  ok(await call('DELETE', `/webhooks/${made.id}`))
  expect(ok(await call('GET', '/webhooks'))).toEqual([])
})

test('what a subscriber does is in the audit log in the subscriber’s name', async () => {
  const tenant = await tenantWithType()
  const ada = await newSubscriber(tenant)
  const { call } = await openPortal(service, tenant, ada)
  ok(await call('POST', '/webhooks', { body: { url: receiver.url, events: ['*'] } }), 201)
  const entry = await eventually('the entry', async () => {
    const found: { action: string }[] = ok(await tenant.get('/audit-log?page_size=100'))
    return found.find(({ action }) => action === 'webhook.created')
  })
  expect(JSON.stringify(entry)).toContain(ada)
})

test('another subscriber’s ids, the tenant’s and those that name nothing get the same 404', async () => {
  const { tenant, ada, bob } = await twoSubscribers()
  const own = await newWebhook(tenant, receiver.url, null)
  await sentTo(tenant, await publish(tenant, PAID))
  const [{ id: ownDelivery }] = ok(await tenant.get(`/webhooks/${own}/deliveries`))
  const unknown = await bob.portal.call('GET', '/webhooks/wh_none')
  expectError(unknown, 404, 'not_found')
  const before = ok(await tenant.get(`/webhooks/${ada.webhookId}`))
  for (const ids of [ada, { webhookId: own, deliveryId: ownDelivery }])
    for (const [method, path, body] of callsOf(ids)) {
      const answer = await bob.portal.call(method, path, body === undefined ? {} : { body })
      expect(answer.text, `${method} ${path}`).toBe(unknown.text)
    }
  // A delivery of another's webhook below one's own.
  for (const path of ['', '/retry']) {
    const method = path === '' ? 'GET' : 'POST'
    const theirs = `/webhooks/${bob.webhookId}/deliveries/${ada.deliveryId}${path}`
    expect((await bob.portal.call(method, theirs)).text).toBe(unknown.text)
  }
  expect(ok(await bob.portal.call('GET', '/webhooks')).map(({ id }: { id: string }) => id)).toEqual([bob.webhookId])
  expect(ok(await tenant.get(`/webhooks/${ada.webhookId}`))).toEqual(before)
})

test('a subscriber chooses only what is offered, and nothing that says whose a webhook is', async () => {
  const { tenant, ada, bob } = await twoSubscribers()
  const { call } = ada.portal
  for (const entry of ['user.created', 'user.*', 'webhook.*', 'acme.*', 'acme.none', 'halfkey.*']) {
    const body = { url: receiver.url, events: ['*', entry] }
    expect(expectRefusal(await call('POST', '/webhooks', { body }), 'validation_failed', entry)[0].field).toBe(
      'events.1',
    )
    const patch = await call('PATCH', `/webhooks/${ada.webhookId}`, { body: { events: [entry] } })
    expect(expectRefusal(patch, 'validation_failed', entry)[0].field).toBe('events.0')
    const tested = await call('POST', `/webhooks/${ada.webhookId}/test`, { body: { eventType: entry } })
    expect(expectRefusal(tested, 'validation_failed', entry)[0].field).toBe('eventType')
  }
  for (const more of [
    { subscriberId: bob.id },
    { appId: tenant.appId },
    { includeSubscribers: true },
    { metadata: {} },
    { filter: null },
    { headers: { 'X-Api-Key': 'a' } },
    { oauth: null },
    { clientCertificate: null },
    { format: 'standard' },
    { payload: 'full' },
  ]) {
    const [field] = Object.keys(more)
    const created = await call('POST', '/webhooks', { body: { url: receiver.url, events: ['*'], ...more } })
    expect(expectRefusal(created, 'validation_failed')[0].field).toBe(field)
    const changed = await call('PATCH', `/webhooks/${ada.webhookId}`, { body: more })
    expect(expectRefusal(changed, 'validation_failed')[0].field).toBe(field)
  }
  for (const query of ['subscriber_id=x', 'app_id=x', 'event_type=user.created'])
    expectError(await call('GET', `/webhooks?${query}`), 400, 'validation_failed', query)
})

test('a link ends when it expires or is revoked, and no other with it', async () => {
  const { tenant, ada, bob } = await twoSubscribers()
  const short = await openPortal(service, tenant, ada.id, { expiresInSeconds: 60 })
  ok(await short.call('GET', '/subscriber'))
  service.advance(61_000)
  expectError(await short.call('GET', '/subscriber'), 401, 'portal_link_invalid')
  ok(await ada.portal.call('GET', '/subscriber'))
  expect(ok(await tenant.delete(`/subscribers/${ada.id}/portal-links`))).toEqual({ revoked: 1 })
  for (const [method, path, body] of callsOf(ada))
    expectError(
      await ada.portal.call(method, path, body === undefined ? {} : { body }),
      401,
      'portal_link_invalid',
      path,
    )
  ok(await bob.portal.call('GET', '/subscriber'))
  const next = await openPortal(service, tenant, ada.id)
  ok(await next.call('GET', '/webhooks'))
  for (const expiresInSeconds of [59, 86_401, 1.5, '60'])
    expectRefusal(await tenant.post(`/subscribers/${ada.id}/portal-link`, { expiresInSeconds }), 'validation_failed')
})

test('the token opens nothing but the portal, and nothing else opens the portal', async () => {
  const { tenant, ada } = await twoSubscribers()
  const { token } = ada.portal
  const bearer = { authorization: `Bearer ${token}` }
  const publishable = await tenant.newKey({ publishable: true })
  for (const path of ['/users', '/webhooks', `/webhooks/${ada.webhookId}`, '/subscribers', '/subscriber']) {
    expectError(await call(service.url, 'GET', `/v1${path}`, { headers: bearer }), 401, 'api_key_missing', path)
    expectError(await call(service.url, 'GET', `/v1${path}`, { key: token }), 401, 'api_key_invalid', path)
  }
  for (const key of [publishable, tenant.key])
    expect((await call(service.url, 'GET', '/v1/users/me', { key, headers: bearer })).status).toBe(401)
  for (const headers of [bearer, { cookie: `halfkey_session=${token}; __Host-halfkey_session=${token}` }]) {
    expect((await call(service.url, 'GET', '/dashboard/api/webhooks', { headers })).status).toBe(401)
    expect((await call(service.url, 'GET', '/signin/api/auth/sessions', { headers })).status).toBeGreaterThanOrEqual(
      400,
    )
  }
  const { accessToken } = await signIn(service, tenant)
  const page = await openPage(service, { key: tenant.key })
  const others: Record<string, string>[] = [
    {},
    { 'x-api-key': tenant.key },
    { 'x-api-key': publishable },
    { authorization: `Bearer ${tenant.key}` },
    { authorization: `Bearer ${accessToken}` },
    { authorization: token },
    { authorization: `Bearer ${token}x` },
    { authorization: `Bearer prt_${'0'.repeat(49)}` },
    { cookie: page.cookie, 'x-halfkey-csrf': page.session.csrfToken },
    { 'x-api-key': token },
    { cookie: `token=${token}` },
  ]
  for (const headers of others)
    for (const path of ['/subscriber', '/webhooks', `/webhooks/${ada.webhookId}`])
      expectError(
        await call(service.url, 'GET', `/portal/api${path}`, { headers }),
        401,
        'portal_link_invalid',
        JSON.stringify(headers),
      )
  for (const path of [
    '/users',
    '/subscribers',
    '/portal-link',
    '/webhooks/event-types/x',
    `/webhooks/${ada.webhookId}/recover`,
    '',
  ])
    expect((await ada.portal.call('GET', path)).status, path).toBe(404)
  // Another way to ask for what is sent to the tenant.
  expect(
    (
      await ada.portal.call('POST', `/webhooks/${ada.webhookId}/recover`, {
        body: { since: '2026-01-01T00:00:00.000Z' },
      })
    ).status,
  ).toBe(404)
  const traced = randomUUID()
  ok(await ada.portal.call('GET', '/subscriber', { headers: { 'x-request-id': traced } }))
  await eventually('the line of the call', async () => service.logs().includes(traced))
  expect(service.logs()).not.toContain(token)
  const stored = await service.sql<{ row: string }>('select portal_links::text as row from portal_links')
  expect(JSON.stringify(stored)).not.toContain(token.slice(4, 30))
})

test('no other page can call with the token, since none gets permission to read', async () => {
  const { ada } = await twoSubscribers()
  const answer = await ada.portal.call('GET', '/subscriber', { headers: { origin: 'https://evil.example' } })
  expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  const preflight = await call(service.url, 'OPTIONS', '/portal/api/subscriber', {
    headers: { origin: 'https://evil.example' },
  })
  expect(preflight.headers.get('access-control-allow-origin')).toBeNull()
})

test('the page may be embedded by the origins of its link, and without them by none', async () => {
  const tenant = await service.newTenant()
  const ada = await newSubscriber(tenant)
  const origins = ['https://app.example.com', 'http://localhost:3000']
  const embedded = await openPortal(service, tenant, ada, { origins })
  const { search } = new URL(embedded.url)
  expect(search).toMatch(/^\?link=plk_/)
  const ancestorsOf = async (query: string) => {
    const page = await call(service.url, 'GET', `/portal${query}`)
    expect(page.status).toBe(200)
    expect(page.headers.get('set-cookie')).toBeNull()
    const policy = page.headers.get('content-security-policy') as string
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
    return [/frame-ancestors ([^;]*)$/.exec(policy)?.[1], page.headers.get('x-frame-options')]
  }
  expect(await ancestorsOf(search)).toEqual([origins.join(' '), null])
  for (const query of ['', '?link=', '?link=plk_none', `?link=${ada}`, `?link=plk_${'0'.repeat(26)}`])
    expect(await ancestorsOf(query), query).toEqual(["'none'", 'DENY'])
  ok(await tenant.delete(`/subscribers/${ada}/portal-links`))
  expect(await ancestorsOf(search)).toEqual(["'none'", 'DENY'])
  for (const origin of [
    '*',
    'https://*.example.com',
    'http://app.example.com',
    'https://a.example;script-src *',
    "'self'",
    'https://a.example/path',
    'null',
    '',
  ])
    expect(
      expectRefusal(
        await tenant.post(`/subscribers/${ada}/portal-link`, { origins: [origin] }),
        'validation_failed',
        origin,
      )[0].field,
    ).toBe('origins.0')
  const six = Array.from({ length: 6 }, (_, n) => `https://${n}.example.com`)
  expectRefusal(await tenant.post(`/subscribers/${ada}/portal-link`, { origins: six }), 'validation_failed')
})

test('the page’s files are there, and nothing else below its path is', async () => {
  for (const path of [
    '/portal/',
    '/portal/x',
    '/portal/assets/none.js',
    '/portal/index.html',
    '/portal/assets/%2e%2e/%2e%2e/brand/tokens.css',
  ])
    expectError(await call(service.url, 'GET', path), 404, 'not_found', path)
  const page = await call(service.url, 'GET', '/portal')
  expect(page.headers.get('cache-control')).toBe('no-store')
  // Where the pages are built, as by `npm ci`.
  for (const [, path = ''] of page.text.matchAll(/(?:src|href)="(\/portal\/[^"]+)"/g)) {
    const file = await call(service.url, 'GET', path)
    expect(file.status, path).toBe(200)
    expect(file.headers.get('cache-control')).toContain('immutable')
    expect(file.text).not.toContain('/dashboard/api')
  }
})

test('branding is readable: white text has a contrast of at least 4.5 on the accent colour', async () => {
  const tenant = await service.newTenant()
  const brand = (branding: object) => tenant.patch(`/apps/${tenant.appId}`, { branding })
  for (const accentColor of ['#ffffff', '#f59e0b', '#777777', '#ff0000']) {
    const [detail] = expectRefusal(await brand({ accentColor }), 'validation_failed', accentColor)
    expect(detail).toMatchObject({ field: 'branding.accentColor', code: 'low_contrast' })
  }
  for (const accentColor of ['red', '#fff', '#1D4ED8', '#12345', 'url(x)', ''])
    expectRefusal(await brand({ accentColor }), 'validation_failed', accentColor)
  // #767676 is the lightest grey that WCAG 2.2 accepts.
  for (const accentColor of ['#767676', '#000000', null])
    expect(ok(await brand({ accentColor })).branding).toMatchObject({ name: null, accentColor, logo: null })
  expect(ok(await brand({ name: 'Acme' })).branding).toMatchObject({ name: 'Acme', accentColor: null, logo: null })
  const { call } = await openPortal(service, tenant, await newSubscriber(tenant))
  expect(ok(await call('GET', '/subscriber')).branding).toEqual({ name: 'Acme', accentColor: null, logoUrl: null })
})

test('a repeat with an Idempotency-Key is the subscriber’s, not that of another with the same key', async () => {
  const { ada, bob } = await twoSubscribers()
  const create = (portal: typeof ada.portal) =>
    portal.call('POST', '/webhooks', {
      body: { url: receiver.url, events: ['*'] },
      headers: { 'idempotency-key': 'one' },
    })
  const first = ok(await create(ada.portal), 201)
  expect(ok(await create(ada.portal), 201)).toEqual(first)
  expect(ok(await create(bob.portal), 201).id).not.toBe(first.id)
})

test('a link of an answer that is repeated is the same, and no log or audit entry has it', async () => {
  const tenant = await service.newTenant()
  const ada = await newSubscriber(tenant)
  const ask = () => tenant.post(`/subscribers/${ada}/portal-link`, {}, { headers: { 'idempotency-key': 'link' } })
  const [first, again] = [await ask(), await ask()]
  expect(first.headers.get('cache-control')).toBe('no-store')
  expect(ok(again, 201)).toEqual(ok(first, 201))
  const { token } = portalOf(service, first.body.data.url)
  expect(service.logs()).not.toContain(token)
  expect((await tenant.get('/audit-log?page_size=100')).text).not.toContain(token)
})
