import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { newId } from '../../../platform/ids.ts'
import { ok } from '../../events/own-events.fixture.ts'
import { newSubscriber, openPortal } from '../../subscribers/subscribers.fixture.ts'

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver((_, response) => response.writeHead(200).end('{"MessageId":"1"}'))
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

const ACCESS = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }
const QUEUE_URL = 'https://sqs.eu-central-1.amazonaws.com/123456789012/events'
const QUEUE = { type: 'sqs', queueUrl: QUEUE_URL, region: 'eu-central-1', ...ACCESS }
const BUCKET = { type: 's3', bucket: 'acme-events', region: 'eu-central-1', ...ACCESS }

const create = (tenant: Tenant, destination: object, more: object = {}) =>
  tenant.post('/webhooks', { destination, events: ['user.created'], ...more })

/** The fields that a refusal names, with the code of each. */
const refused = (answer: Answer): string[] =>
  expectRefusal(answer, 'validation_failed').map(({ field, code }) => `${field} ${code}`)

describe.concurrent('a destination', () => {
  test('of SQS is shown with its URL and without its secret', async () => {
    const tenant = await service.newTenant()
    const made = ok(await create(tenant, QUEUE), 201)
    const { secretAccessKey: _, ...shown } = QUEUE
    expect(made).toMatchObject({ url: QUEUE_URL, destination: shown, headers: [], oauth: null })
    expect(made.destination).toEqual(shown)
    expect(ok(await tenant.get(`/webhooks/${made.id}`)).destination).toEqual(shown)
    expect(ok(await tenant.get('/webhooks'))[0].destination).toEqual(shown)
  })

  test.each([
    [{}, 'https://acme-events.s3.eu-central-1.amazonaws.com', { prefix: null, endpoint: null, forcePathStyle: false }],
    [
      { prefix: 'a/b/', forcePathStyle: true },
      'https://s3.eu-central-1.amazonaws.com/acme-events/a/b',
      { prefix: 'a/b/', forcePathStyle: true },
    ],
    [
      { endpoint: 'https://minio.example.com:9000' },
      'https://minio.example.com:9000/acme-events',
      { endpoint: 'https://minio.example.com:9000', forcePathStyle: true },
    ],
    [
      { endpoint: 'https://r2.example.com/', forcePathStyle: false, prefix: 'x' },
      'https://acme-events.r2.example.com/x',
      { forcePathStyle: false },
    ],
  ])('of S3 with %j has the URL %s', async (more, url, shown) => {
    const tenant = await service.newTenant()
    const made = ok(await create(tenant, { ...BUCKET, ...more }), 201)
    expect(made).toMatchObject({ url, destination: { type: 's3', bucket: 'acme-events', ...shown } })
    expect(made.destination).not.toHaveProperty('secretAccessKey')
  })

  test('a webhook with a URL has none', async () => {
    const tenant = await service.newTenant()
    const made = ok(await tenant.post('/webhooks', { url: receiver.url, events: ['*'] }), 201)
    expect(made.destination).toBeNull()
    expect(refused(await tenant.patch(`/webhooks/${made.id}`, { destination: QUEUE }))).toEqual([
      'destination not_allowed',
    ])
  })

  test('needs the scope destinations:write, to be made and to be changed', async () => {
    const tenant = await service.newTenant()
    const { id } = ok(await create(tenant, QUEUE), 201)
    const key = await tenant.newKey({ scopes: ['webhooks:write', 'subscribers:write', 'events:publish'] })
    for (const answer of [
      await tenant.post('/webhooks', { destination: QUEUE, events: ['*'] }, { key }),
      await tenant.patch(`/webhooks/${id}`, { destination: QUEUE }, { key }),
      await tenant.patch(`/webhooks/${newId('wh')}`, { destination: QUEUE }, { key }),
    ]) {
      expectError(answer, 403, 'insufficient_scope')
      expect(answer.body.details[0]).toMatchObject({ code: 'missing_scope', scope: 'destinations:write' })
    }
    // Where its events go stays the same.
    ok(await tenant.patch(`/webhooks/${id}`, { description: 'ours' }, { key }))
    expect(refused(await tenant.patch(`/webhooks/${id}`, { url: receiver.url }, { key }))).toEqual(['url not_allowed'])
    const both = await tenant.newKey({ scopes: ['webhooks:write', 'destinations:write'] })
    ok(await tenant.post('/webhooks', { destination: QUEUE, events: ['*'] }, { key: both }), 201)
    const alone = await tenant.newKey({ scopes: ['destinations:write'] })
    expectError(
      await tenant.post('/webhooks', { destination: QUEUE, events: ['*'] }, { key: alone }),
      403,
      'insufficient_scope',
    )
  })

  test('of a subscriber is refused, by the API and by the portal', async () => {
    const tenant = await service.newTenant()
    const subscriberId = await newSubscriber(tenant)
    expect(refused(await create(tenant, QUEUE, { subscriberId }))).toEqual(['destination not_allowed'])
    const { id } = ok(await tenant.post('/webhooks', { url: receiver.url, events: ['*'], subscriberId }), 201)
    expect(refused(await tenant.patch(`/webhooks/${id}`, { destination: QUEUE }))).toEqual(['destination not_allowed'])
    const portal = await openPortal(service, tenant, subscriberId)
    const body = { destination: QUEUE, events: ['*'] }
    expect(refused(await portal.call('POST', '/webhooks', { body }))).toEqual([
      'url required',
      'destination unknown_field',
    ])
    const changed = await portal.call('PATCH', `/webhooks/${id}`, { body: { destination: QUEUE } })
    expect(refused(changed)).toEqual(['destination unknown_field'])
    expect((await portal.call('GET', `/webhooks/${id}`)).body.data).not.toHaveProperty('destination')
  })

  test.each<[string, object, string[]]>([
    ['nor a URL', { events: ['*'] }, ['url required']],
    ['and a URL', { url: QUEUE_URL, destination: QUEUE, events: ['*'] }, ['url not_allowed']],
    ['and headers', { destination: QUEUE, events: ['*'], headers: { 'X-A': 'b' } }, ['headers not_allowed']],
    [
      'and a format in headers',
      { destination: BUCKET, events: ['*'], format: 'cloudevents_binary' },
      ['format not_allowed'],
    ],
    [
      'of an unknown kind',
      { destination: { ...QUEUE, type: 'kafka' }, events: ['*'] },
      ['destination.type not_allowed'],
    ],
    ['without a kind', { destination: ACCESS, events: ['*'] }, ['destination.type not_allowed']],
    [
      'without a secret',
      { destination: { ...QUEUE, secretAccessKey: undefined }, events: ['*'] },
      ['destination.secretAccessKey required'],
    ],
    [
      'with fields of another kind',
      { destination: { ...QUEUE, bucket: 'acme-events' }, events: ['*'] },
      ['destination.bucket unknown_field'],
    ],
  ])('no destination %s', async (_, body, fields) => {
    expect(refused(await (await service.newTenant()).post('/webhooks', body))).toEqual(fields)
  })

  test.each([
    ['bucket', 'Acme'],
    ['bucket', 'a/../b'],
    ['bucket', 'a.example.com:80#'],
    ['region', 'eu.attacker.example/'],
    ['prefix', '../other-bucket'],
    ['prefix', 'a/./b'],
    ['prefix', '/a'],
    ['prefix', 'a?b'],
    ['accessKeyId', 'AKIA/x'],
    ['secretAccessKey', 'line\nbreak'],
    ['endpoint', 'https://minio.example.com/path'],
    ['endpoint', 'https://minio.example.com?x=1'],
    ['endpoint', 'minio'],
  ])('an S3 destination with %s %j is refused', async (field, value) => {
    const answer = await create(await service.newTenant(), { ...BUCKET, [field]: value })
    expect(refused(answer)).toEqual([`destination.${field} invalid`])
    expect(answer.text).not.toContain(ACCESS.secretAccessKey)
  })

  test('a bucket cannot be part of a host that is an address', async () => {
    const input = { ...BUCKET, endpoint: 'https://192.0.2.1', forcePathStyle: false }
    expect(refused(await create(await service.newTenant(), input))).toEqual(['destination.forcePathStyle invalid'])
  })

  test.each([
    ['destination.queueUrl', { ...QUEUE, queueUrl: 'no URL' }],
    ['destination.queueUrl', { ...QUEUE, queueUrl: 'http://8.8.8.8/1/q' }],
    ['destination.queueUrl', { ...QUEUE, queueUrl: 'https://user:pass@sqs.example.com/1/q' }],
    ['destination.endpoint', { ...BUCKET, endpoint: 'https://user:pass@minio.example.com' }],
    ['destination.endpoint', { ...BUCKET, endpoint: 'ftp://minio.example.com' }],
    ['destination.endpoint', { ...BUCKET, endpoint: 'https://10.0.0.1' }],
  ])('%s of %j is blocked', async (field, input) => {
    const answer = await create(await service.newTenant(), input)
    expectError(answer, 400, 'webhook_url_blocked')
    expect(answer.body.details[0].field).toBe(field)
  })
})

describe.concurrent('changing a destination', () => {
  test('replaces it as a whole, for deliveries that wait too', async () => {
    const tenant = await service.newTenant()
    const { id } = ok(await create(tenant, QUEUE, {}), 201)
    const queueUrl = `${receiver.url}/123456789012/${newId('job')}`
    const changed = ok(
      await tenant.patch(`/webhooks/${id}`, { destination: { ...QUEUE, queueUrl, accessKeyId: 'AKIANEW' } }),
    )
    expect(changed).toMatchObject({ url: queueUrl, destination: { queueUrl, accessKeyId: 'AKIANEW' } })
    expect(ok(await tenant.post(`/webhooks/${id}/test`)).status).toBe('succeeded')
    const sent = await receiver.until('the message', ({ event }) => event.QueueUrl === queueUrl)
    expect(sent.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIANEW\/\d{8}\/eu-central-1\/sqs\//)
    // What is not given stays.
    expect(ok(await tenant.patch(`/webhooks/${id}`, { payload: 'thin' })).destination).toEqual(changed.destination)
  })

  test('needs its secret each time, and keeps its kind', async () => {
    const tenant = await service.newTenant()
    const { id } = ok(await create(tenant, QUEUE), 201)
    const change = async (body: object) => refused(await tenant.patch(`/webhooks/${id}`, body))
    const { secretAccessKey: _, ...rest } = QUEUE
    expect(await change({ destination: rest })).toEqual(['destination.secretAccessKey required'])
    expect(await change({ destination: BUCKET })).toEqual(['destination.type not_allowed'])
    expect(await change({ destination: null })).toEqual(['destination wrong_type'])
    expect(await change({ url: 'https://example.com/' })).toEqual(['url not_allowed'])
    expect(await change({ format: 'cloudevents_binary' })).toEqual(['format not_allowed'])
    const oauth = { tokenUrl: 'https://example.com/', clientId: 'a', clientSecret: 'b' }
    expect(await change({ oauth })).toEqual(['oauth not_allowed'])
    expect(await change({ headers: { 'X-A': 'b' } })).toEqual(['headers not_allowed'])
  })
})
