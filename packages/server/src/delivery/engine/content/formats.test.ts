import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { verifyWebhook, verifyWebhookSignature } from '../../../../../sdk/src/webhooks.ts'
import { expectRefusal } from '../../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Received, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { newType, ok } from '../../events/own-events.fixture.ts'
import { deliveriesIn, deliveryOf } from '../delivery.fixture.ts'
import { messageOf } from './message.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

const PAID = 'acme.invoice.paid'
const data = { invoiceId: 'inv_1', note: 'Zoë "50 %" \u{1f511}', '2': [], '1': null, lines: [{ n: 1.5 }] }

const receivers: Receiver[] = []
let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '100ms' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

interface Subscribed {
  tenant: Tenant
  receiver: Receiver
  id: string
  secret: string
}

async function subscribed(shape: object, behaviour = answer(200)): Promise<Subscribed> {
  const tenant = await service.newTenant()
  const receiver = await startReceiver(behaviour)
  receivers.push(receiver)
  await newType(tenant, PAID)
  const body = { url: receiver.url, events: [PAID], ...shape }
  const { id, secret } = ok(await tenant.post('/webhooks', body), 201)
  return { tenant, receiver, id, secret }
}

/** Publishes an event and waits for its first delivery. */
async function sent({ tenant, receiver }: Subscribed) {
  const event = ok(await tenant.post('/events', { type: PAID, data }), 201)
  const got = await receiver.until('the event', ({ headers }) => headers['webhook-id'] === event.id)
  return { event, got }
}

async function expectGenuine(secret: string, { body, headers }: Received): Promise<void> {
  await verifyWebhookSignature(body, headers, secret)
  new Webhook(secret).verify(body, headers)
  const { 'x-service-signature': _, ...standard } = headers
  await verifyWebhookSignature(body, standard, secret)
  await expect(verifyWebhookSignature(`${body} `, headers, secret)).rejects.toThrow('signature_mismatch')
}

const ceHeaders = ({ headers }: Received) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('ce-')))

describe.concurrent('a delivery', () => {
  test.each([
    ['as it is published', {}, false],
    ['as it is published, if that is asked for', { format: 'standard', payload: 'full' }, false],
    ['without data', { payload: 'thin' }, true],
  ])('of the standard format is the event %s', async (_name, shape, thin) => {
    const one = await subscribed(shape)
    const { event, got } = await sent(one)
    expect(got.body).toBe(JSON.stringify(thin ? { ...event, data: {} } : event))
    expect(got.headers['content-type']).toBe('application/json')
    expect(ceHeaders(got)).toEqual({})
    await expectGenuine(one.secret, got)
    expect(await verifyWebhook(got.body, got.headers, one.secret)).toEqual(thin ? { ...event, data: {} } : event)
  })

  test.each(['full', 'thin'])('of CloudEvents in structured mode has all in its body (%s)', async (payload) => {
    const one = await subscribed({ format: 'cloudevents_structured', payload })
    const { tenantId, appId } = one.tenant
    const { event, got } = await sent(one)
    expect(got.body).toBe(
      JSON.stringify({
        specversion: '1.0',
        id: event.id,
        source: `/tenants/${tenantId}/apps/${appId}`,
        type: PAID,
        time: event.created_at,
        tenantid: tenantId,
        appid: appId,
        apiversion: '2026-11-01',
        datacontenttype: 'application/json',
        data: payload === 'full' ? data : {},
      }),
    )
    expect(got.headers['content-type']).toBe('application/cloudevents+json')
    expect(ceHeaders(got)).toEqual({})
    await expectGenuine(one.secret, got)
    const verified = await verifyWebhook(got.body, got.headers, one.secret)
    expect(verified).toEqual(payload === 'full' ? event : { ...event, data: {} })
  })

  test.each(['full', 'thin'])(
    'of CloudEvents in binary mode has attributes as headers, data as body (%s)',
    async (payload) => {
      const one = await subscribed({ format: 'cloudevents_binary', payload })
      const { tenantId, appId } = one.tenant
      const { event, got } = await sent(one)
      expect(got.body).toBe(JSON.stringify(payload === 'full' ? data : {}))
      expect(got.headers['content-type']).toBe('application/json')
      expect(ceHeaders(got)).toEqual({
        'ce-specversion': '1.0',
        'ce-id': event.id,
        'ce-source': `/tenants/${tenantId}/apps/${appId}`,
        'ce-type': PAID,
        'ce-time': event.created_at,
        'ce-tenantid': tenantId,
        'ce-appid': appId,
        'ce-apiversion': '2026-11-01',
      })
      await expectGenuine(one.secret, got)
      await expect(verifyWebhook(got.body, got.headers, one.secret)).rejects.toThrow('event_in_headers')
    },
  )

  test('of an event of the tenant names no app', async () => {
    const one = await subscribed({ format: 'cloudevents_structured', events: ['app.*'] })
    ok(await one.tenant.post('/apps', { name: 'Second' }), 201)
    const got = await one.receiver.until('the app', ({ event }) => event.type === 'app.created')
    const { source, tenantid, appid } = got.event
    const ofApp = appid === undefined ? '' : `/apps/${appid}`
    expect([source, tenantid]).toEqual([`/tenants/${one.tenant.tenantId}${ofApp}`, one.tenant.tenantId])
  })

  test('and its retries have the same bytes, also those of a test', async () => {
    for (const format of ['cloudevents_structured', 'cloudevents_binary']) {
      const one = await subscribed({ format }, answer(500))
      await sent(one)
      const [first, second] = await one.receiver.count('send and retry', 2)
      expect([second?.body, ceHeaders(second as Received)]).toEqual([first?.body, ceHeaders(first as Received)])
      one.receiver.behave(answer(200))
      expect(ok(await one.tenant.post(`/webhooks/${one.id}/test`)).status).toBe('succeeded')
      expect(one.receiver.received.at(-1)?.headers['content-type']).toBe(first?.headers['content-type'])
    }
  })

  test('is shown as it was sent last, whatever the webhook’s format is now', async () => {
    const one = await subscribed({ format: 'cloudevents_binary' }, answer(500))
    const { event, got } = await sent(one)
    const [dead] = await deliveriesIn(one.tenant, one.id, 'dead_letter')
    const shown = () => deliveryOf(one.tenant, one.id, dead.id)
    const binary = {
      format: 'cloudevents_binary',
      headers: { 'content-type': 'application/json', ...ceHeaders(got) },
      payload: JSON.parse(got.body),
    }
    expect(await shown()).toMatchObject(binary)
    const url = `/webhooks/${one.id}`
    expect(ok(await one.tenant.patch(url, { format: 'standard', payload: 'thin' }))).toMatchObject({
      format: 'standard',
      payload: 'thin',
    })
    expect(await shown()).toMatchObject(binary)
    one.receiver.behave(answer(200))
    ok(await one.tenant.post(`${url}/deliveries/${dead.id}/retry`))
    await deliveriesIn(one.tenant, one.id, 'succeeded')
    expect(one.receiver.received.at(-1)?.body).toBe(JSON.stringify({ ...event, data: {} }))
    const thin = {
      format: 'standard',
      headers: { 'content-type': 'application/json' },
      payload: { ...event, data: {} },
    }
    ok(await one.tenant.patch(url, { payload: 'full' }))
    expect(await shown()).toMatchObject(thin)
  })

  test('that was not sent yet is shown as it will be', async () => {
    const one = await subscribed({ format: 'cloudevents_structured' })
    ok(await one.tenant.patch(`/webhooks/${one.id}`, { status: 'paused' }))
    const event = ok(await one.tenant.post('/events', { type: PAID, data }), 201)
    const [waiting] = await deliveriesIn(one.tenant, one.id, 'pending')
    const shown = async () => await deliveryOf(one.tenant, one.id, waiting.id)
    expect((await shown()).headers).toEqual({ 'content-type': 'application/cloudevents+json' })
    expect((await shown()).payload).toMatchObject({ specversion: '1.0', id: event.id, data })
    ok(await one.tenant.patch(`/webhooks/${one.id}`, { format: 'standard' }))
    expect(await shown()).toMatchObject({ format: 'standard', payload: event })
  })
})

test('formats and payloads that do not exist are refused', async () => {
  const tenant = await service.newTenant()
  const endpoint = { url: 'https://hook.example/a', events: ['*'] }
  for (const [field, value] of [
    ['format', 'cloudevents'],
    ['format', null],
    ['payload', 'empty'],
    ['payload', 1],
  ] as const)
    expect(
      expectRefusal(await tenant.post('/webhooks', { ...endpoint, [field]: value }), 'validation_failed')[0].field,
    ).toBe(field)
})

// CloudEvents HTTP binding 1.0.2, section 3.1.3.2: its example, and each kind of character that it names.
test('a header of CloudEvents encodes what may not stand in one', () => {
  const sentOf = (type: string) => {
    const body = JSON.stringify({ id: 'evt_1', type, created_at: 't', api_version: 'v', data: {} })
    return messageOf({ format: 'cloudevents_binary', payload: 'full' }, { tenantId: 'ten_1', appId: null, body })
  }
  const typeOf = (type: string) => sentOf(type).headers['ce-type']
  expect(typeOf('Euro € \u{1f600}')).toBe('Euro%20%E2%82%AC%20%F0%9F%98%80')
  expect(typeOf('a "b" 50%\r\nx: y\t\x7f')).toBe('a%20%22b%22%2050%25%0D%0Ax:%20y%09%7F')
  expect(typeOf('!#$&~a.b_c')).toBe('!#$&~a.b_c')
  expect(sentOf('a').headers).not.toHaveProperty('ce-appid')
  expect(sentOf('a').headers['ce-source']).toBe('/tenants/ten_1')
})
