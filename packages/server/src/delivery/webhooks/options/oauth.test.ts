import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../../test/harness/dns-server.ts'
import { eventually, type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { createUser, deliveriesIn, deliveriesOf, insertDue } from '../../engine/delivery.fixture.ts'

let service: Service
let receiver: Receiver
let dns: DnsServer
beforeAll(async () => {
  dns = await startDnsServer()
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h', HALFKEY_DNS_SERVERS: dns.address })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
  await dns.close()
})

interface TokenRequest {
  headers: IncomingHttpHeaders
  form: Record<string, string>
}

interface Answered {
  status?: number
  body?: unknown
}

/** A token endpoint. `give` answers the n-th request, from 1. */
async function startTokenServer(give: (n: number) => Answered | Promise<Answered>) {
  const requests: TokenRequest[] = []
  let atOnce = 0
  let mostAtOnce = 0
  const server = createServer(async (request, response) => {
    mostAtOnce = Math.max(mostAtOnce, ++atOnce)
    let text = ''
    for await (const chunk of request) text += chunk
    requests.push({ headers: request.headers, form: Object.fromEntries(new URLSearchParams(text)) })
    const { status = 200, body } = await give(requests.length)
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body))
    atOnce -= 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`,
    requests,
    mostAtOnce: () => mostAtOnce,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const token = (access_token: string, expires_in?: number) => ({
  body: { access_token, token_type: 'Bearer', expires_in },
})
const CLIENT = { clientId: 'shop', clientSecret: 'cl1ent-s3cret-of-the-shop' }

async function makeWebhook(tenant: Tenant, oauth: object, more: object = {}) {
  const body = { url: receiver.url, events: ['user.created'], oauth: { ...CLIENT, ...oauth }, ...more }
  const made = await tenant.post('/webhooks', body)
  expect(made.status).toBe(201)
  return made.body.data
}

async function nextDelivery(tenant: Tenant) {
  const user = await createUser(tenant)
  return receiver.until('the delivery', (got) => got.event.data?.userId === user)
}

/** The error of a test delivery. */
async function errorOfTest(tenant: Tenant, id: string): Promise<string> {
  const tested = await tenant.post(`/webhooks/${id}/test`)
  expect(tested.body.data.status).toBe('failed')
  expect(tested.body.data.attempts[0]).toMatchObject({ statusCode: null, responseSnippet: null })
  return tested.body.data.attempts[0].error
}

describe.concurrent('a webhook with OAuth', () => {
  test('gets its token by client_secret_basic, form-encoded, and sends it as a bearer token', async () => {
    await using tokens = await startTokenServer(() => token('t0ken-1', 3_600))
    const tenant = await service.newTenant()
    const client = {
      clientId: 'shop:ü',
      clientSecret: 'a b+c%&é/0123456789',
      scope: 'hooks write',
      audience: 'https://a/',
    }
    await makeWebhook(tenant, { tokenUrl: tokens.url, ...client })
    expect((await nextDelivery(tenant)).headers.authorization).toBe('Bearer t0ken-1')
    const [asked] = tokens.requests as [TokenRequest]
    // RFC 6749, section 2.3.1 and appendix B.
    const basic = Buffer.from('shop%3A%C3%BC:a+b%2Bc%25%26%C3%A9%2F0123456789').toString('base64')
    expect(asked.headers).toMatchObject({
      authorization: `Basic ${basic}`,
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(asked.form).toEqual({ grant_type: 'client_credentials', scope: 'hooks write', audience: 'https://a/' })
  })

  test('uses a token until shortly before it expires, and fetches one at a time for many deliveries', async () => {
    const go = Promise.withResolvers<void>()
    await using tokens = await startTokenServer(async (n) => {
      await go.promise
      return token(`many-${n}`, 3_600)
    })
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { tokenUrl: tokens.url }, { url: `${receiver.url}/many` })
    await insertDue(service, tenant, id, 30)
    await eventually('the token is asked for', async () => tokens.requests.length > 0)
    go.resolve()
    const sent = await receiver.count('all', 30, (got) => got.path === '/many')
    expect(new Set(sent.map((got) => got.headers.authorization))).toEqual(new Set(['Bearer many-1']))
    expect([tokens.requests.length, tokens.mostAtOnce()]).toEqual([1, 1])
  })

  test('fetches a new token where the last one is not valid any more, or its client changed', async () => {
    await using tokens = await startTokenServer((n) => token(`n-${n}`, n === 1 ? 0 : 3_600))
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { tokenUrl: tokens.url })
    expect((await nextDelivery(tenant)).headers.authorization).toBe('Bearer n-1')
    expect((await nextDelivery(tenant)).headers.authorization).toBe('Bearer n-2')
    expect((await nextDelivery(tenant)).headers.authorization).toBe('Bearer n-2')
    const oauth = { ...CLIENT, tokenUrl: tokens.url, scope: 'more' }
    expect((await tenant.patch(`/webhooks/${id}`, { oauth })).status).toBe(200)
    expect((await nextDelivery(tenant)).headers.authorization).toBe('Bearer n-3')
    expect((await tenant.patch(`/webhooks/${id}`, { oauth: null })).body.data.oauth).toBeNull()
    expect((await nextDelivery(tenant)).headers).not.toHaveProperty('authorization')
  })

  test('whose token the receiver refuses fails that attempt as any other, and the next attempt has a new token', async () => {
    await using tokens = await startTokenServer((n) => token(`refused-${n}`, 3_600))
    const picky = await startReceiver((got, response, request) =>
      answer(got.headers.authorization === 'Bearer refused-1' ? 401 : 200)(got, response, request),
    )
    try {
      const tenant = await service.newTenant()
      const { id } = await makeWebhook(tenant, { tokenUrl: tokens.url }, { url: picky.url })
      await createUser(tenant)
      const [waiting] = await deliveriesIn(tenant, id, 'retrying')
      expect(waiting).toMatchObject({ retryCount: 1, attempts: [{ statusCode: 401, error: 'status 401' }] })
      // By the schedule, not at once.
      expect(Date.parse(waiting.nextAttemptAt) - Date.parse(waiting.attempts[0].at)).toBeGreaterThanOrEqual(3_600_000)
      expect(picky.received).toHaveLength(1)
      await tenant.post(`/webhooks/${id}/deliveries/${waiting.id}/retry`)
      await deliveriesIn(tenant, id, 'succeeded')
      expect(picky.received.map((got) => got.headers.authorization)).toEqual(['Bearer refused-1', 'Bearer refused-2'])
    } finally {
      await picky.close()
    }
  })

  test('whose receiver repeats the token does not show it in the attempt', async () => {
    await using tokens = await startTokenServer(() => token('echoed-t0ken/1', 3_600))
    const echo = await startReceiver((got, response, request) =>
      answer(401, JSON.stringify(got.headers))(got, response, request),
    )
    try {
      const tenant = await service.newTenant()
      const headers = { 'X-Api-Key': 'k3y-of-the-gateway' }
      const { id } = await makeWebhook(tenant, { tokenUrl: tokens.url }, { url: echo.url, headers })
      const [attempt] = (await tenant.post(`/webhooks/${id}/test`)).body.data.attempts
      expect(JSON.parse(attempt.responseSnippet)).toMatchObject({
        authorization: 'Bearer [redacted]',
        'x-api-key': '[redacted]',
      })
    } finally {
      await echo.close()
    }
  })

  const secretive = 'hidden-inside-answer'
  test.each<[string, Answered, string]>([
    ['refuses', { status: 401, body: { error: secretive } }, 'oauth token: status 401'],
    ['redirects', { status: 302, body: secretive }, 'oauth token: status 302: redirects are not followed'],
    ['answers no JSON', { body: secretive }, 'oauth token: the response has no access token'],
    ['answers a list', { body: [secretive] }, 'oauth token: the response has no access token'],
    ['answers null', { body: null }, 'oauth token: the response has no access token'],
    [
      'gives a token with a line break',
      token('a\r\nX-Service-Event-Id: 1'),
      'oauth token: the response has no access token',
    ],
    [
      'gives a token of another type',
      { body: { access_token: 'a', token_type: 'mac' } },
      'oauth token: only bearer tokens are supported',
    ],
    [
      'gives a token type that is no text',
      { body: { access_token: 'a', token_type: { toString: 1, valueOf: 1, a: secretive } } },
      'oauth token: only bearer tokens are supported',
    ],
    ...[{ toString: 1, valueOf: 1 }, [3_600], true, '', secretive].map((expires_in): [string, Answered, string] => [
      `gives the lifetime ${JSON.stringify(expires_in)}`,
      { body: { access_token: 'a', token_type: 'Bearer', expires_in } },
      'oauth token: `expires_in` of the response is not a number',
    ]),
    ['answers more than 64 KiB', token('a'.repeat(70_000)), 'oauth token: the response has no access token'],
  ])('whose token endpoint %s fails the attempt, says so, and sends nothing', async (_, given, error) => {
    await using tokens = await startTokenServer(() => given)
    const tenant = await service.newTenant()
    const { id } = await makeWebhook(tenant, { tokenUrl: tokens.url }, { url: `${receiver.url}/never` })
    expect(await errorOfTest(tenant, id)).toBe(error)
    const text = (await tenant.get(`/webhooks/${id}/deliveries`)).text
    expect(text).not.toContain(secretive)
    expect(receiver.received.some((got) => got.path === '/never')).toBe(false)
  })

  test('takes tokens longer than what attempts show of a body', async () => {
    await using tokens = await startTokenServer(() => token('j'.repeat(9_000)))
    const tenant = await service.newTenant()
    await makeWebhook(tenant, { tokenUrl: tokens.url })
    expect((await nextDelivery(tenant)).headers.authorization).toBe(`Bearer ${'j'.repeat(9_000)}`)
  })

  test.each<[unknown, string]>([
    ['3600', 'kept-1'],
    [null, 'kept-1'],
    [1e15, 'kept-1'],
    [-1, 'kept-2'],
    ['0', 'kept-2'],
  ])('with the lifetime %j of its token sends the second delivery with %s', async (expires_in, second) => {
    await using tokens = await startTokenServer((n) => ({ body: { access_token: `kept-${n}`, expires_in } }))
    const tenant = await service.newTenant()
    await makeWebhook(tenant, { tokenUrl: tokens.url })
    await nextDelivery(tenant)
    expect((await nextDelivery(tenant)).headers.authorization).toBe(`Bearer ${second}`)
  })

  test('whose token endpoint leads inside is 400, and a failed attempt if it does so later', async () => {
    const tenant = await service.newTenant()
    const tokenUrl = 'https://10.0.0.1/token'
    const body = { url: receiver.url, events: ['user.created'] }
    const { id } = await makeWebhook(tenant, { tokenUrl: 'https://flips.test/token' })
    dns.set('flips.test', [{ type: 'A', address: '10.7.7.7' }])
    expect(await errorOfTest(tenant, id)).toBe('oauth token: blocked: the host is not on the public internet')
    for (const refused of [
      await tenant.post('/webhooks', { ...body, oauth: { ...CLIENT, tokenUrl } }),
      await tenant.post('/webhooks', { ...body, oauth: { ...CLIENT, tokenUrl: 'https://a:b@example.com/' } }),
      await tenant.patch(`/webhooks/${id}`, { oauth: { ...CLIENT, tokenUrl } }),
    ]) {
      expect([refused.status, refused.body.code]).toEqual([400, 'webhook_url_blocked'])
      expect(refused.body.details[0].field).toBe('oauth.tokenUrl')
    }
  })

  test('shows what is no secret, keeps the rest sealed, and needs the secret again for another host or path', async () => {
    const tenant = await service.newTenant()
    const made = await makeWebhook(tenant, { tokenUrl: 'https://example.com/token', scope: 'a' })
    const shown = {
      tokenUrl: 'https://example.com/token',
      clientId: 'shop',
      clientSecretLast4: 'shop',
      scope: 'a',
      audience: null,
    }
    expect(made.oauth).toEqual(shown)
    expect((await tenant.get('/webhooks')).text).not.toContain(CLIENT.clientSecret)
    expect((await tenant.patch(`/webhooks/${made.id}`, { oauth: shown })).status).toBe(400)
    for (const url of ['https://other.example.com/', `${receiver.url}/other-path`]) {
      const moved = await tenant.patch(`/webhooks/${made.id}`, { url })
      expect([moved.status, moved.body.details[0]]).toMatchObject([
        400,
        { field: 'url', code: 'secrets_not_carried_over' },
      ])
    }
    for (const headers of [{ authorization: 'Basic a' }, { Authorization: 'b' }]) {
      const both = await tenant.patch(`/webhooks/${made.id}`, { headers })
      expect([both.status, both.body.details[0].code]).toEqual([400, 'reserved_header'])
    }
    expect(await deliveriesOf(tenant, made.id)).toEqual([])
    const rows = await service.sql<{ text: string }>('select w::text as text from webhooks w where id = $1', [made.id])
    expect(rows[0]?.text).not.toContain('cl1ent')
  })
})
