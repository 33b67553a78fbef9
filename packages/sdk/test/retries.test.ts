import { execFile } from 'node:child_process'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { HalfkeyError } from '../src/errors.ts'
import type { ClientOptions } from '../src/http.ts'
import { parseRetryAfter, retryDelayMs } from '../src/retry.ts'

interface Seen {
  method: string
  idempotencyKey: string | undefined
  headers: IncomingHttpHeaders
  body: string
  atMs: number
}
type Step = (response: ServerResponse, seen: Seen) => void

const closing: (() => void)[] = []
// After all: these tests mostly wait, and do so together.
afterAll(() => {
  for (const close of closing.splice(0)) close()
})

/** A real server that takes one step a request; the last one again and again. */
async function serverOf(...steps: Step[]): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const { method = '', headers } = request
      const one = {
        method,
        headers,
        body,
        idempotencyKey: headers['idempotency-key'] as string,
        atMs: performance.now(),
      }
      seen.push(one)
      const step = steps[Math.min(seen.length, steps.length) - 1] as Step
      step(response, one)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, seen }
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Step => {
  return (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
const ok = json(200, { data: { id: 'usr_1' } })
const fails = (status: number, code: string, headers: Record<string, string> = {}) =>
  json(status, { error: 'No.', code, details: [] }, { 'x-request-id': 'req-1', ...headers })
const reset: Step = (response) => response.socket?.resetAndDestroy()
const silence: Step = () => {}
const halfAnAnswer: Step = (response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
  response.write('{"data":')
  setTimeout(() => response.socket?.destroy(), 5)
}

const clientOf = (baseUrl: string, options: Partial<ClientOptions> = {}): HalfkeyClient =>
  createClient({ baseUrl, apiKey: 'hk_sk_x', ...options })

async function failure(call: Promise<unknown>): Promise<HalfkeyError> {
  const error: unknown = await call.then(
    () => new Error('the call succeeded'),
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof HalfkeyError)) throw error
  return error
}

const TRANSIENT: [string, Step][] = [
  ['429 with Retry-After: 0', fails(429, 'rate_limited', { 'retry-after': '0' })],
  ['429 without Retry-After', fails(429, 'rate_limited')],
  ['409 idempotency_in_progress', fails(409, 'idempotency_in_progress', { 'retry-after': '0' })],
  ['500', fails(500, 'internal_error')],
  [
    '502 of a proxy',
    (response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>'),
  ],
  ['503', fails(503, 'unavailable')],
  ['504', (response) => response.writeHead(504).end()],
  ['a connection reset', reset],
  ['a response that breaks off', halfAnAnswer],
]

describe.concurrent('temporary failures are retried', () => {
  test.each(TRANSIENT)('%s: a POST and a PATCH with one idempotency key and the same bytes', async (_, step) => {
    const { url, seen } = await serverOf(step, ok, step, ok)
    const client = clientOf(url)
    expect((await client.users.create({ email: 'ada@example.com' })).id).toBe('usr_1')
    expect((await client.users.update('usr_1', { name: 'Ada' })).id).toBe('usr_1')
    expect(seen.map(({ method }) => method)).toEqual(['POST', 'POST', 'PATCH', 'PATCH'])
    expect(seen.map(({ body }) => body)).toEqual([
      '{"email":"ada@example.com"}',
      '{"email":"ada@example.com"}',
      '{"name":"Ada"}',
      '{"name":"Ada"}',
    ])
    const keys = seen.map(({ idempotencyKey }) => idempotencyKey)
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/)
    expect(keys[1]).toBe(keys[0])
    expect(keys[3]).toBe(keys[2])
    expect(keys[2]).not.toBe(keys[0])
  })

  test.each(TRANSIENT)('%s: a GET and a DELETE, without a key', async (_, step) => {
    const { url, seen } = await serverOf(step, ok, step, ok)
    await clientOf(url).users.get('usr_1')
    await clientOf(url).users.delete('usr_1')
    expect(seen.map(({ method }) => method)).toEqual(['GET', 'GET', 'DELETE', 'DELETE'])
    expect(seen.map(({ idempotencyKey }) => idempotencyKey)).toEqual([undefined, undefined, undefined, undefined])
  })

  test('a POST without a body has a key too, and the caller’s own key is used', async () => {
    const { url, seen } = await serverOf(fails(500, 'internal_error'), ok)
    await clientOf(url).webhooks.deliveries.retry('wh_1', 'dlv_1', { idempotencyKey: 'mine' })
    expect(seen.map(({ idempotencyKey, body }) => [idempotencyKey, body])).toEqual([
      ['mine', ''],
      ['mine', ''],
    ])
    expect(seen[0]?.headers['content-type']).toBeUndefined()
  })

  test('three times by default, then the error is the last one', async () => {
    const { url, seen } = await serverOf(reset, fails(500, 'internal_error'), fails(503, 'a'), fails(500, 'last'))
    expect(await failure(clientOf(url).users.create({}))).toMatchObject({
      status: 500,
      code: 'last',
      requestId: 'req-1',
    })
    expect(seen).toHaveLength(4)
    expect(new Set(seen.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
  })

  test('as often as the options of the client or of the call say', async () => {
    const { url, seen } = await serverOf(reset)
    expect((await failure(clientOf(url, { maxRetries: 0 }).users.list())).code).toBe('network_error')
    expect(seen).toHaveLength(1)
    await failure(clientOf(url, { maxRetries: 0 }).users.list({}, { maxRetries: 1 }))
    expect(seen).toHaveLength(3)
  })

  test('not before Retry-After', async () => {
    const { url, seen } = await serverOf(fails(429, 'rate_limited', { 'retry-after': '1' }), ok)
    await clientOf(url).users.create({})
    expect((seen[1]?.atMs ?? 0) - (seen[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(990)
  })

  test('but not if Retry-After asks for more than a minute', async () => {
    const { url, seen } = await serverOf(fails(429, 'mfa_locked', { 'retry-after': '900' }))
    expect(await failure(clientOf(url).users.create({}))).toMatchObject({ code: 'mfa_locked', retryAfterSeconds: 900 })
    expect(seen).toHaveLength(1)
  })
})

describe.concurrent('permanent failures, and calls that might have an effect twice, are not retried', () => {
  test.each<[string, Step, object]>([
    ['400', fails(400, 'validation_failed'), { status: 400, code: 'validation_failed' }],
    ['401', fails(401, 'api_key_invalid'), { status: 401 }],
    ['404', fails(404, 'not_found'), { status: 404 }],
    ['409 of another kind', fails(409, 'already_exists'), { code: 'already_exists' }],
    ['409 idempotency_conflict', fails(409, 'idempotency_conflict'), { code: 'idempotency_conflict' }],
    ['410', fails(410, 'guest_expired'), { status: 410 }],
    ['429 quota_exceeded', fails(429, 'quota_exceeded'), { status: 429, code: 'quota_exceeded' }],
    ['a success that is not the API’s', json(200, [1]), { status: 200, code: 'invalid_response' }],
    ['a web page', (response) => response.writeHead(200).end('<html>'), { code: 'invalid_response' }],
    [
      'a 404 of another server',
      (response) => response.writeHead(404).end('nothing here'),
      { code: 'invalid_response' },
    ],
  ])('%s', async (_, step, expected) => {
    const { url, seen } = await serverOf(step)
    expect(await failure(clientOf(url).users.create({}))).toMatchObject(expected)
    expect(seen).toHaveLength(1)
  })

  test('a redirect, which would send the key elsewhere', async () => {
    const elsewhere = await serverOf(ok)
    const { url } = await serverOf((response) => response.writeHead(307, { location: elsewhere.url }).end())
    expect(await failure(clientOf(url).users.create({}))).toMatchObject({ status: 307, code: 'unexpected_redirect' })
    expect(elsewhere.seen).toEqual([])
  })

  test('a POST with a publishable key and no user, for which the server ignores idempotency keys', async () => {
    for (const step of [reset, fails(500, 'internal_error')]) {
      const { url, seen } = await serverOf(step)
      await failure(clientOf(url, { apiKey: 'hk_pk_x' }).users.create({}))
      expect(seen).toHaveLength(1)
    }
    const limited = await serverOf(fails(429, 'rate_limited', { 'retry-after': '0' }), ok)
    await clientOf(limited.url, { apiKey: 'hk_pk_x' }).users.create({})
    expect(limited.seen).toHaveLength(2)
    const ofUser = await serverOf(reset, ok)
    await clientOf(ofUser.url, { apiKey: 'hk_pk_x', accessToken: 'token' }).users.create({})
    expect(ofUser.seen).toHaveLength(2)
  })

  test('a probe, which reports the current state', async () => {
    const { url, seen } = await serverOf(fails(500, 'not_ready'))
    expect((await failure(clientOf(url).health.ready())).code).toBe('not_ready')
    expect(seen).toHaveLength(1)
  })
})

describe.concurrent('the message of a failure', () => {
  const search = { search: 'ada@example.com' }

  test('names the address without its query, the cause, and what to check, if nothing listens there', async () => {
    const closed = createServer()
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
    const address = `127.0.0.1:${(closed.address() as AddressInfo).port}`
    await new Promise((resolve) => closed.close(resolve))
    const { message, code, cause } = await failure(clientOf(`http://${address}`, { maxRetries: 0 }).users.list(search))
    expect(message).toBe(
      `Cannot reach Halfkey at http://${address}/v1/users: connect ECONNREFUSED ${address}. ` +
        'Check baseUrl, and that Halfkey is running there.',
    )
    expect(code).toBe('network_error')
    expect(cause).toBeInstanceOf(TypeError)
  })

  test.each<[string, Error, string]>([
    ['a code without a text', new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } }), 'ECONNREFUSED'],
    [
      'a text without its code',
      new TypeError('fetch failed', { cause: Object.assign(new Error('closed'), { code: 'UND_ERR_SOCKET' }) }),
      'closed (UND_ERR_SOCKET)',
    ],
    ['only its own text', new TypeError('Failed to fetch'), 'Failed to fetch'],
  ])('has the reason of an error that has %s', async (_, thrown, reason) => {
    const refusing = clientOf('https://example.com', { maxRetries: 0, fetch: () => Promise.reject(thrown) })
    const { message } = await failure(refusing.tenant.get())
    expect(message).toContain(`at https://example.com/v1/tenant: ${reason}. Check`)
  })

  test('names the address in a browser too, and allowedOrigins, without which browsers refuse the response', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--no-warnings',
      '--input-type=module',
      '--eval',
      `globalThis.document = {}
       const { createClient } = await import(${JSON.stringify(new URL('../src/client.ts', import.meta.url).href)})
       const fetch = () => Promise.reject(new TypeError('Failed to fetch'))
       const client = createClient({ baseUrl: '/api', apiKey: 'hk_pk_x', maxRetries: 0, fetch })
       console.log((await client.tenant.get().catch((error) => error)).message)`,
    ])
    expect(stdout).toContain('Cannot reach Halfkey at /api/tenant: Failed to fetch. Check baseUrl')
    expect(stdout).toContain('allowedOrigins')
  })

  test.each<[string, Step, Partial<ClientOptions>, string]>([
    ['no response in time', silence, { timeoutMs: 50 }, 'did not answer within 50 ms'],
    ['a redirect', (response) => response.writeHead(302, { location: '/' }).end(), {}, 'answered with a redirect'],
    ['a page', (response) => response.writeHead(404).end('<h1>Not here</h1>'), {}, 'answered 404, but not as'],
  ])('names the address of %s', async (_, step, options, what) => {
    const { url } = await serverOf(step)
    const { message } = await failure(clientOf(url, { maxRetries: 0, ...options }).users.list(search))
    expect(message).toContain(`${url}/users ${what}`)
    expect(message).not.toContain('ada')
  })
})

describe.concurrent('time and abortion', () => {
  test('an attempt that takes too long is a time-out, and is retried', async () => {
    const { url, seen } = await serverOf(silence, ok)
    // Long enough for the second answer on a busy machine; other tests here wait longer at the same time.
    expect((await clientOf(url, { timeoutMs: 1_500 }).users.create({})).id).toBe('usr_1')
    expect(seen[1]?.idempotencyKey).toBe(seen[0]?.idempotencyKey)
    const silent = await serverOf(silence)
    const error = await failure(clientOf(silent.url).users.list({}, { timeoutMs: 50, maxRetries: 0 }))
    expect(error).toMatchObject({ status: 0, code: 'timeout', requestId: null })
  })

  test('the time-out covers the whole response', async () => {
    const { url } = await serverOf((response) => response.writeHead(200).write('{'))
    expect((await failure(clientOf(url, { timeoutMs: 100, maxRetries: 0 }).users.list())).code).toBe('timeout')
  })

  test('a signal ends an attempt with its reason, without a retry', async () => {
    const reason = new Error('the page was left')
    const aborting = new AbortController()
    const { url, seen } = await serverOf(() => aborting.abort(reason))
    await expect(clientOf(url).users.create({}, { signal: aborting.signal })).rejects.toBe(reason)
    expect(seen).toHaveLength(1)
  })

  test('a signal ends the wait between attempts', async () => {
    const { url, seen } = await serverOf(fails(429, 'rate_limited', { 'retry-after': '30' }))
    const startedAtMs = performance.now()
    const call = clientOf(url).users.create({}, { signal: AbortSignal.timeout(2_000) })
    await expect(call).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(performance.now() - startedAtMs).toBeLessThan(25_000)
    expect(seen).toHaveLength(1)
  })

  test('with an aborted signal nothing is sent', async () => {
    const { url, seen } = await serverOf(ok)
    await expect(clientOf(url).users.create({}, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    })
    expect(seen).toEqual([])
  })

  test('a signal ends an iteration', async () => {
    const page = { data: [{ id: 'a' }], total: 9, page: 1, pageSize: 1, hasMore: true }
    const { url } = await serverOf(json(200, page))
    const aborting = new AbortController()
    const iterate = async () => {
      for await (const _ of clientOf(url).users.list({}, { signal: aborting.signal })) aborting.abort()
    }
    await expect(iterate()).rejects.toMatchObject({ name: 'AbortError' })
  })
})

describe('the wait', () => {
  const passing = (retryAfterSeconds: number | null = null) =>
    new HalfkeyError('No.', { status: 500, code: 'internal_error', retryAfterSeconds })

  test('doubles from 250 ms to 8 s, minus a random part of up to half', () => {
    for (const [failures, ceiling] of [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000].entries()) {
      const waits = Array.from({ length: 200 }, () => retryDelayMs(passing(), failures + 1, true) as number)
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(ceiling / 2)
      expect(Math.max(...waits)).toBeLessThanOrEqual(ceiling)
      expect(new Set(waits).size).toBeGreaterThan(100)
    }
  })

  test('is never shorter than Retry-After, and only a little longer', () => {
    for (let n = 0; n < 200; n++) {
      const wait = retryDelayMs(passing(3), 1, true) as number
      expect(wait).toBeGreaterThanOrEqual(3_000)
      expect(wait).toBeLessThanOrEqual(3_250)
    }
  })

  test('follows Retry-After in seconds and as a date, and nothing else', () => {
    const nowMs = Date.parse('2026-11-21T08:30:00Z')
    expect(parseRetryAfter('0', nowMs)).toBe(0)
    expect(parseRetryAfter('120', nowMs)).toBe(120)
    expect(parseRetryAfter('Sat, 21 Nov 2026 08:30:10 GMT', nowMs)).toBe(10)
    expect(parseRetryAfter('Sat, 21 Nov 2026 08:29:00 GMT', nowMs)).toBe(0)
    for (const other of [null, '', 'soon', '-1', '1.5', '1e3']) expect(parseRetryAfter(other, nowMs)).toBeNull()
  })
})
