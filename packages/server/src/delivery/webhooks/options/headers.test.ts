import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { createUser, deliveriesIn } from '../../engine/delivery.fixture.ts'

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

const SECRET = 'k3y-of-the-gateway-9f31'

async function makeWebhook(tenant: Tenant, headers: object, path = '') {
  const made = await tenant.post('/webhooks', { url: receiver.url + path, events: ['user.created'], headers })
  expect(made.status).toBe(201)
  return made.body.data
}

/** What the receiver got when a new user was announced. */
async function nextDelivery(tenant: Tenant) {
  const user = await createUser(tenant)
  return receiver.until('the delivery', (got) => got.event.data.userId === user)
}

describe.concurrent('own headers', () => {
  test('are on every delivery, beside the signature, with their values as given', async () => {
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { 'X-Api-Key': SECRET, Cookie: 'a=b; c="d"', 'user-agent': 'Shop/1' })
    const got = await nextDelivery(tenant)
    expect(got.headers).toMatchObject({
      'x-api-key': SECRET,
      cookie: 'a=b; c="d"',
      'user-agent': 'Shop/1',
      'content-type': 'application/json',
      'webhook-id': got.event.id,
    })
    await deliveriesIn(tenant, id, 'succeeded')
    const tested = await tenant.post(`/webhooks/${id}/test`)
    expect(tested.body.data.status).toBe('succeeded')
    const test = await receiver.until('the test', (each) => each.event.id === tested.body.data.eventId)
    expect(test.headers['x-api-key']).toBe(SECRET)
  })

  test('are shown by name and the last four characters of long values, and stored and logged nowhere', async () => {
    const tenant = await service.newTenant()
    const made = await makeWebhook(tenant, { 'X-Api-Key': SECRET, Authorization: 'short' })
    expect(made.headers).toEqual([
      { name: 'X-Api-Key', valueLast4: '9f31' },
      { name: 'Authorization', valueLast4: null },
    ])
    for (const each of [
      await tenant.get(`/webhooks/${made.id}`),
      await tenant.get('/webhooks'),
      await tenant.patch(`/webhooks/${made.id}`, { description: 'x' }),
      await tenant.get('/audit-log?page_size=100'),
    ]) {
      expect(each.status).toBe(200)
      expect(each.text).not.toContain(SECRET.slice(0, 18))
    }
    const [row] = await service.sql<{ row: string; sealed: Buffer }>(
      'select w::text as row, options_sealed as sealed from webhooks w where id = $1',
      [made.id],
    )
    expect(row?.row).not.toContain(SECRET.slice(0, 18))
    expect(row?.row).not.toContain(Buffer.from(SECRET).toString('hex'))
    expect(row?.sealed.length).toBeGreaterThan(50)
    expect(service.logs()).not.toContain(SECRET)
  })

  const MIXED = 'a+b/c<"d"\\e>&'
  const escaped = (text: string) => text.replace(/[+<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16).toUpperCase()}`)
  test.each<[string, string, string]>([
    [
      'as they are',
      `key ${SECRET}, again ${SECRET}${SECRET}; ${MIXED}!`,
      'key [redacted], again [redacted]; [redacted]!',
    ],
    ['as JSON', JSON.stringify({ key: SECRET, mixed: MIXED }), '{"key":"[redacted]","mixed":"[redacted]"}'],
    ['as JSON of PHP', JSON.stringify([MIXED, 'a/b']).replaceAll('/', '\\/'), '["[redacted]","a\\/b"]'],
    [
      'as JSON without HTML',
      escaped(JSON.stringify([MIXED, '<']).replaceAll('\\"', '\\u0022')),
      '["[redacted]","\\u003C"]',
    ],
    ['where the snippet is cut', 'x'.repeat(4_080) + SECRET, 'x'.repeat(4_080)],
    ['cut after an escape', `${'x'.repeat(4_081)}a+b/c<\\"d\\"\\\\e>&`, 'x'.repeat(4_081)],
    ['cut in an escape', `${'x'.repeat(4_088)}a+b/c\\u003cd`, 'x'.repeat(4_088)],
    ['in part, shorter than four', `${'x'.repeat(4_093)}${SECRET}`, `${'x'.repeat(4_093)}k3y`],
    ['in another case', SECRET.toUpperCase(), SECRET.toUpperCase()],
    ['many times', 'same'.repeat(1_024), '[redacted]'],
    ['apart, so that the snippet grows', 'same '.repeat(800), '[redacted] '.repeat(373).slice(0, 4_096)],
  ])('that a receiver repeats %s are not in the attempt', async (_, body, shown) => {
    const echo = await startReceiver(answer(500, body))
    try {
      const tenant = await service.newTenant()
      const headers = { 'X-Api-Key': SECRET, 'X-Mixed': MIXED, 'X-Same': 'same', 'X-Short': 'xxx' }
      const { id } = (await tenant.post('/webhooks', { url: echo.url, events: ['user.created'], headers })).body.data
      const [attempt] = (await tenant.post(`/webhooks/${id}/test`)).body.data.attempts
      expect(attempt).toMatchObject({ statusCode: 500, responseSnippet: shown })
    } finally {
      await echo.close()
    }
  })

  test('are merged by name whatever its case; null removes one, or all', async () => {
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { 'X-A': 'one', 'X-B': 'two', 'X-C': 'three' })
    const change = async (headers: unknown) =>
      (await tenant.patch(`/webhooks/${id}`, { headers })).body.data.headers.map((each: { name: string }) => each.name)
    expect(await change({ 'x-b': 'changed', 'X-A': null, 'X-Gone': null })).toEqual(['x-b', 'X-C'])
    expect((await nextDelivery(tenant)).headers).toMatchObject({ 'x-b': 'changed', 'x-c': 'three' })
    expect((await nextDelivery(tenant)).headers).not.toHaveProperty('x-a')
    expect(await change(null)).toEqual([])
    expect((await nextDelivery(tenant)).headers).not.toHaveProperty('x-b')
    expect(
      await service.sql('select 1 from webhooks where id = $1 and options_sealed is null and options is null', [id]),
    ).toHaveLength(1)
  })

  const many = (n: number, value = 'v') => Object.fromEntries(Array.from({ length: n }, (_, at) => [`X-${at}`, value]))
  test.each([
    ['the signature', { 'X-Service-Signature': 'sha256=00' }, 'headers.X-Service-Signature'],
    ['any X-Service header, in any case', { 'x-SERVICE-new': 'a' }, 'headers.x-SERVICE-new'],
    ['a header of Standard Webhooks', { 'Webhook-Id': 'a' }, 'headers.Webhook-Id'],
    ['Host', { host: 'inside' }, 'headers.host'],
    ['Content-Length', { 'content-length': '3' }, 'headers.content-length'],
    ['Content-Type', { 'Content-Type': 'text/plain' }, 'headers.Content-Type'],
    ['Transfer-Encoding', { 'Transfer-Encoding': 'chunked' }, 'headers.Transfer-Encoding'],
    ['Connection', { Connection: 'close' }, 'headers.Connection'],
    ['Expect', { Expect: '100-continue' }, 'headers.Expect'],
    ['a header for proxies', { 'Proxy-Authorization': 'Basic eA==' }, 'headers.Proxy-Authorization'],
    ['Upgrade', { Upgrade: 'h2c' }, 'headers.Upgrade'],
    ['Accept-Encoding', { 'Accept-Encoding': 'gzip' }, 'headers.Accept-Encoding'],
    ['traceparent', { traceparent: '00-1-2-3' }, 'headers.traceparent'],
    ['a CloudEvents attribute', { 'ce-id': '1' }, 'headers.ce-id'],
    ['a name with a space', { 'X A': 'a' }, 'headers.X A'],
    ['a name with a line break', { 'X-A\r\nX-B': 'a' }, 'headers.X-A\r\nX-B'],
    ['an empty name', { '': 'a' }, 'headers.'],
    ['a name beyond ASCII', { 'X-Ä': 'a' }, 'headers.X-Ä'],
    ['a value with a line break', { 'X-A': 'a\r\nHost: inside' }, 'headers.X-A'],
    ['a value beyond ASCII', { 'X-A': 'ä' }, 'headers.X-A'],
    ['a value with a space at its end', { 'X-A': 'a ' }, 'headers.X-A'],
    ['an empty value', { 'X-A': '' }, 'headers.X-A'],
    ['a value that is no string', { 'X-A': 1 }, 'headers.X-A'],
    ['a value of 4097 characters', { 'X-A': 'a'.repeat(4_097) }, 'headers.X-A'],
    ['one name in two cases', { 'X-A': 'a', 'x-a': 'b' }, 'headers.x-a'],
    ['21 headers', many(21), 'headers'],
    ['more than 16 KiB', many(5, 'v'.repeat(4_000)), 'headers'],
    ['a list', [{ name: 'X-A', valueLast4: null }], 'headers'],
  ])('with %s are 400, when created and when changed', async (_, headers, field) => {
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { 'X-Kept': 'kept' })
    for (const refused of [
      await tenant.post('/webhooks', { url: receiver.url, events: ['*'], headers }),
      await tenant.patch(`/webhooks/${id}`, { headers }),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
      expect(refused.body.details.map((detail: { field: string }) => detail.field)).toContain(field)
    }
    expect((await tenant.get(`/webhooks/${id}`)).body.data.headers).toEqual([{ name: 'X-Kept', valueLast4: null }])
  })

  test('up to twenty, added by several changes, and no more', async () => {
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, many(19))
    expect((await tenant.patch(`/webhooks/${id}`, { headers: { 'X-19': 'v' } })).status).toBe(200)
    const refused = await tenant.patch(`/webhooks/${id}`, { headers: { 'X-20': 'v' } })
    expect([refused.status, refused.body.details[0].code]).toEqual([400, 'too_many'])
    const got = await nextDelivery(tenant)
    expect(Object.keys(got.headers).filter((name) => /^x-\d+$/.test(name))).toHaveLength(20)
  })

  test('are not sent to another host or path that the webhook is pointed at, unless they are given again', async () => {
    const tenant = await service.newTenant()
    const thief = await startReceiver()
    try {
      const { id } = await makeWebhook(tenant, { 'X-Api-Key': SECRET, 'X-B': 'b' })
      const moved = { url: `${thief.url}/hook` }
      // Hosts are shared.
      const neighbours = ['/tenant-of-the-thief', '//'].map((path) => ({ url: receiver.url + path }))
      for (const body of [moved, { ...moved, headers: { 'X-B': 'b' } }, ...neighbours]) {
        const refused = await tenant.patch(`/webhooks/${id}`, body)
        expect([refused.status, refused.body.details[0]]).toMatchObject([
          400,
          { field: 'url', code: 'secrets_not_carried_over', headers: expect.arrayContaining(['X-Api-Key']) },
        ])
      }
      expect((await tenant.patch(`/webhooks/${id}`, { url: `${receiver.url}/?other=query` })).status).toBe(200)
      const given = { ...moved, headers: { 'x-api-key': 'given-again', 'X-B': null } }
      expect((await tenant.patch(`/webhooks/${id}`, given)).status).toBe(200)
      const user = await createUser(tenant)
      const got = await thief.until('the delivery', (each) => each.event.data.userId === user)
      expect(got.headers['x-api-key']).toBe('given-again')
    } finally {
      await thief.close()
    }
  })

  test('sealed for one webhook do not open for another: nothing is sent', async () => {
    const tenant = await service.newTenant()
    const one = await makeWebhook(tenant, { 'X-Api-Key': SECRET }, '/one')
    await nextDelivery(tenant)
    await tenant.delete(`/webhooks/${one.id}`)
    const other = await makeWebhook(tenant, { 'X-Api-Key': 'other' }, '/other')
    await service.sql(
      'update webhooks set options_sealed = (select options_sealed from webhooks where id = $1) where id = $2',
      [one.id, other.id],
    )
    const tested = await tenant.post(`/webhooks/${other.id}/test`)
    expect(tested.body.data).toMatchObject({ status: 'failed', attempts: [{ error: 'internal error' }] })
    expect(receiver.received.some((got) => got.path === '/other')).toBe(false)
  })
})
