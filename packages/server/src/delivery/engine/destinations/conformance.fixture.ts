import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../../test/harness/dns-server.ts'
import { expectError } from '../../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { newId } from '../../../platform/ids.ts'
import { newType, ok } from '../../events/own-events.fixture.ts'
import { newSubscriber, openPortal } from '../../subscribers/subscribers.fixture.ts'
import { createUser, deliveriesIn, deliveryOf } from '../delivery.fixture.ts'
import type { Stage } from './stage.fixture.ts'

const RETRIES = 2
const PAID = 'acme.invoice.paid'

interface On {
  service: Service
  dns: DnsServer
  open(): Promise<Stage>
}

/** What every destination must keep. `open` makes a new one. */
export function describeConformance(name: string, open: () => Promise<Stage>): void {
  describe.concurrent(`${name}: conformance of a destination`, () => {
    let on: On
    beforeAll(async () => {
      const dns = await startDnsServer()
      const service = await startService({
        HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms,100ms',
        HALFKEY_WEBHOOK_DISABLE_AFTER: '1h',
        HALFKEY_DNS_SERVERS: dns.address,
      })
      on = { service, dns, open }
    })
    afterAll(async () => {
      await on.service.stop()
      await on.dns.close()
    })
    describe('deliveries', () => delivering(() => on))
    describe('failures', () => failing(() => on))
    describe('who may reach it', () => guarding(() => on))
  })
}

async function makeWebhook(tenant: Tenant, target: object, more: object = {}) {
  return ok(await tenant.post('/webhooks', { ...target, events: ['user.created'], ...more }), 201)
}

function arrivals(stage: Stage, count: number): Promise<string[]> {
  return eventually(`${count} bodies`, async () => {
    const bodies = await stage.arrived()
    return bodies.length >= count && bodies
  })
}

function delivering(on: () => On): void {
  test('a delivery succeeds once the other side has confirmed it, and not before', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const answered = Promise.withResolvers<void>()
    front.hold = answered.promise
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    await createUser(tenant)
    await eventually('the request', async () => front.requests.length > 0)
    expect(await deliveriesIn(tenant, id, 'delivering')).toHaveLength(1)
    answered.resolve()
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    expect(delivery.attempts).toHaveLength(1)
    expect(delivery.attempts[0]).toMatchObject({ number: 0, statusCode: 200, error: null })
    expect(await stage.arrived()).toHaveLength(1)
  })

  test('what arrives is the stored event, byte for byte', async () => {
    const { service, open } = on()
    const stage = await open()
    await using _front = stage.front
    const tenant = await service.newTenant()
    await makeWebhook(tenant, stage.target)
    for (const email of ['ada@example.com', 'ü\u2028"\\😀@example.com'])
      await createUser(tenant, { metadata: { email } })
    const bodies = await arrivals(stage, 2)
    const stored = await service.sql<{ body: string }>(
      `select body from events where tenant_id = $1 and type = 'user.created'`,
      [tenant.tenantId],
    )
    expect(bodies.toSorted()).toEqual(stored.map(({ body }) => body).toSorted())
  })

  test('format, payload and filter are respected', async () => {
    const { service, open } = on()
    const stage = await open()
    await using _front = stage.front
    const tenant = await service.newTenant()
    await newType(tenant, PAID)
    await makeWebhook(tenant, stage.target, {
      events: [PAID],
      format: 'cloudevents_structured',
      payload: 'thin',
      filter: { path: 'data.n', eq: 2 },
    })
    for (const n of [1, 2]) ok(await tenant.post('/events', { type: PAID, data: { n } }), 201)
    const [body] = await arrivals(stage, 1)
    expect(JSON.parse(body as string)).toMatchObject({ specversion: '1.0', type: PAID, data: {} })
  })

  test('events with an ordering key arrive one after the other', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    await newType(tenant, PAID)
    await makeWebhook(tenant, stage.target, { events: [PAID] })
    front.script.push({ status: 500, body: '' })
    for (const n of [1, 2, 3]) ok(await tenant.post('/events', { type: PAID, data: { n }, orderingKey: 'k' }), 201)
    await arrivals(stage, 3)
    const places = front.passed.map(({ body }) => /\\?"n\\?":(\d)/.exec(body)?.[1])
    expect(places).toEqual(['1', '2', '3'])
  })

  test('a test event is sent at once, and answers how it went', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    expect(ok(await tenant.post(`/webhooks/${id}/test`)).status).toBe('succeeded')
    expect(await stage.arrived()).toHaveLength(1)
    front.script.push({ status: 503, body: 'later' })
    const failed = ok(await tenant.post(`/webhooks/${id}/test`))
    expect(failed).toMatchObject({ status: 'failed', attempts: [{ statusCode: 503, responseSnippet: 'later' }] })
  })
}

function failing(on: () => On): void {
  test('a failure is retried by the table, with the same body', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    front.script.push({ status: 500, body: 'broken' }, { status: 429, body: 'slow down' })
    await createUser(tenant)
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    expect(delivery.attempts).toMatchObject([
      { number: 0, statusCode: 500, error: 'status 500', responseSnippet: 'broken' },
      { number: 1, statusCode: 429, error: 'status 429', responseSnippet: 'slow down' },
      { number: 2, statusCode: 200, error: null },
    ])
    expect(delivery.retryCount).toBe(RETRIES)
    const waited = (n: number) => Date.parse(delivery.attempts[n].at) - Date.parse(delivery.attempts[n - 1].at)
    expect(waited(1)).toBeGreaterThanOrEqual(50)
    expect(waited(2)).toBeGreaterThanOrEqual(100)
    expect(await stage.arrived()).toHaveLength(1)
  })

  test('after the last retry it is a dead letter, which a recovery delivers', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    for (let n = 0; n <= RETRIES; n += 1) front.script.push({ status: 500, body: '' })
    await createUser(tenant)
    const [dead] = await deliveriesIn(tenant, id, 'dead_letter')
    expect(dead.attempts).toHaveLength(RETRIES + 1)
    expect(await stage.arrived()).toEqual([])
    ok(await tenant.post(`/webhooks/${id}/recover`, { since: new Date(Date.now() - 3_600_000).toISOString() }), 201)
    await deliveriesIn(tenant, id, 'succeeded')
    expect(await stage.arrived()).toHaveLength(1)
  })

  test('an endpoint that does not answer is a failed attempt', async () => {
    const { service, open } = on()
    const stage = await open()
    await stage.front[Symbol.asyncDispose]()
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    const tested = ok(await tenant.post(`/webhooks/${id}/test`))
    expect(tested.attempts).toMatchObject([{ statusCode: null, error: 'connection refused', responseSnippet: null }])
  })

  test('its secret is in no response, no record and no log, even if the other side repeats it', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    const made = await tenant.post('/webhooks', { ...stage.target, events: ['user.created'] })
    const { id } = ok(made, 201)
    front.script.push({ status: 403, body: `the key is ${stage.secret}.` })
    await createUser(tenant)
    const [delivery] = await deliveriesIn(tenant, id, 'succeeded')
    if (stage.secret === null) return
    expect(delivery.attempts[0].responseSnippet).toBe('the key is [redacted].')
    const answers = [
      made,
      await tenant.get('/webhooks'),
      await tenant.get(`/webhooks/${id}`),
      await tenant.patch(`/webhooks/${id}`, { description: 'changed' }),
      await tenant.post(`/webhooks/${id}/rotate`, {}),
      await tenant.get(`/webhooks/${id}/deliveries`),
      await tenant.get('/audit-log'),
    ]
    for (const answer of answers) expect(answer.text).not.toContain(stage.secret)
    expect(JSON.stringify(await deliveryOf(tenant, id, delivery.id))).not.toContain(stage.secret)
    const [row] = await service.sql<{ text: string }>('select w::text as text from webhooks w where id = $1', [id])
    expect(row?.text).not.toContain(stage.secret)
    expect(row?.text).not.toContain(Buffer.from(stage.secret).toString('hex'))
    expect(service.logs()).not.toContain(stage.secret)
  })
}

function guarding(on: () => On): void {
  test('private addresses are refused when it is created and when it is changed', async () => {
    const { service, open } = on()
    const stage = await open()
    await using _front = stage.front
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    for (const origin of [
      'https://10.0.0.1',
      'https://169.254.169.254',
      'http://192.0.2.1',
      'https://[fd00:ec2::254]',
    ]) {
      const target = stage.targetOn(origin)
      expectError(await tenant.post('/webhooks', { ...target, events: ['*'] }), 400, 'webhook_url_blocked')
      expectError(await tenant.patch(`/webhooks/${id}`, target), 400, 'webhook_url_blocked')
    }
  })

  test('every address that a name resolves to is checked at every send', async () => {
    const { service, dns, open } = on()
    const stage = await open()
    await using front = stage.front
    const name = `${newId('job').replace('_', '-')}.example.com`
    const tenant = await service.newTenant()
    // Without an address, the name is accepted.
    const { id } = await makeWebhook(tenant, stage.targetOn(`https://${name}:${new URL(front.url).port}`))
    dns.set(name, [
      { type: 'A', address: '127.0.0.1' },
      { type: 'A', address: '10.0.0.1' },
    ])
    const tested = ok(await tenant.post(`/webhooks/${id}/test`))
    expect(tested.attempts[0].error).toBe('blocked: the host is not on the public internet')
    expect(front.requests).toEqual([])
  })

  test("a subscriber's portal neither makes, sees nor changes it", async () => {
    const { service, open } = on()
    const stage = await open()
    await using _front = stage.front
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    const portal = await openPortal(service, tenant, await newSubscriber(tenant))
    const missing = await portal.call('GET', `/webhooks/${newId('wh')}`)
    expectError(missing, 404, 'not_found')
    expect((await portal.call('GET', '/webhooks')).body.data).toEqual([])
    for (const [method, path, body] of [
      ['GET', `/webhooks/${id}`],
      ['PATCH', `/webhooks/${id}`, { description: 'mine' }],
      ['DELETE', `/webhooks/${id}`],
      ['POST', `/webhooks/${id}/test`, {}],
      ['GET', `/webhooks/${id}/deliveries`],
    ] as const)
      expect((await portal.call(method, path, body === undefined ? {} : { body })).text).toBe(missing.text)
    if (stage.secret === null) return
    const body = { ...stage.target, events: ['*'] }
    expectError(await portal.call('POST', '/webhooks', { body }), 400, 'validation_failed')
  })

  test('for another tenant it is the same 404 as one that does not exist', async () => {
    const { service, open } = on()
    const stage = await open()
    await using front = stage.front
    const tenant = await service.newTenant()
    const other = await service.newTenant()
    const { id } = await makeWebhook(tenant, stage.target)
    const missing = newId('wh')
    for (const [method, path, body] of [
      ['GET', ''],
      ['PATCH', '', stage.target],
      ['DELETE', ''],
      ['POST', '/test', {}],
      ['POST', '/rotate', {}],
      ['GET', '/deliveries'],
    ] as const) {
      const options = body === undefined ? {} : { body }
      const foreign = await other.call(method, `/webhooks/${id}${path}`, options)
      expectError(foreign, 404, 'not_found')
      expect(foreign.text).toBe((await other.call(method, `/webhooks/${missing}${path}`, options)).text)
    }
    expect(front.requests).toEqual([])
  })
}
