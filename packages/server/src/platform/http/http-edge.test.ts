import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type RawAnswer, requestText, sendBytes } from '../../../test/harness/raw-http.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const one = (answers: RawAnswer[]) => answers.length > 0
const send = async (...pieces: (string | Buffer)[]): Promise<RawAnswer> => {
  const [answer] = await sendBytes(service.url, pieces, one)
  if (answer === undefined) throw new Error('the connection ended without an answer')
  return answer
}

function expectEnvelope(answer: RawAnswer, status: number, code: string, what = ''): void {
  expect(`${answer.status} ${answer.body.slice(0, 300)}`, what).toMatch(new RegExp(`^${status} .*"code":"${code}"`))
  expect(Object.keys(JSON.parse(answer.body)), what).toEqual(['error', 'code', 'details'])
  expect(answer.headers['content-type'], what).toBe('application/json; charset=utf-8')
  expect(answer.headers['x-request-id'], what).toMatch(/^[\x21-\x7e]{1,128}$/)
}

async function expectAlive(): Promise<void> {
  expect((await tenant.get('/tenant')).status).toBe(200)
}

const withKey = () => ({ 'x-api-key': tenant.key })
const json = (body: string) => ({
  ...withKey(),
  'content-type': 'application/json',
  'content-length': String(Buffer.byteLength(body)),
})

/** Writes to a connection and closes it. */
function leave(text: string): Promise<void> {
  const { hostname, port } = new URL(service.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    socket.on('error', reject)
    socket.on('close', () => resolve())
    socket.write(text, () => socket.destroy())
  })
}

describe('what is no HTTP', () => {
  const cases: [what: string, bytes: string | Buffer][] = [
    ['words', 'hello there\r\n\r\n'],
    ['a TLS greeting', Buffer.from('16030100ea010000e60303', 'hex')],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/9.9', 'GET /v1/users HTTP/9.9\r\nHost: x\r\n\r\n'],
    ['an unknown method', 'FLY /v1/users HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a space in a header name', 'GET /v1/users HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n'],
    ['a NUL in a header', 'GET /v1/users HTTP/1.1\r\nHost: x\r\na: b\0c\r\n\r\n'],
    ['two lengths', 'POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    ['a negative length', 'POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n'],
    [
      'length and chunks',
      'POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'chunks that are not last',
      'POST /v1/users HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
    ],
    ['headers over 16 KiB', `GET /v1/users HTTP/1.1\r\nHost: x\r\nx-api-key: ${'k'.repeat(17_000)}\r\n\r\n`],
    ['a path over 16 KiB', `GET /v1/users/${'k'.repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ['no Host', 'GET /v1/users HTTP/1.1\r\n\r\n'],
    ['no Host, outside /v1', 'GET /healthz HTTP/1.1\r\n\r\n'],
    ['an expectation', 'GET /v1/users HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\n\r\n'],
  ]

  test.each(cases)('%s is refused with 400 in the envelope and a request id', async (what, bytes) => {
    const answer = await send(bytes)
    expectEnvelope(answer, 400, 'malformed_request', what)
    expect(JSON.parse(answer.body).details).toEqual([
      {
        code: expect.stringMatching(/^[a-z0-9_]+$/),
        message: expect.any(String),
        docs: expect.stringMatching(/^http:\/\/localhost:\d+\/docs\/errors\/malformed_request$/),
      },
    ])
    await expectAlive()
  })

  test('a broken chunk is a 400, whether the request waits for its body or not', async () => {
    const headers = { ...withKey(), 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    expectEnvelope(
      await send(requestText('POST /v1/users', headers, 'zz\r\n{}\r\n0\r\n\r\n')),
      400,
      'malformed_request',
    )
    await expectAlive()
  })

  test('a connection that is closed in the middle harms nobody', async () => {
    for (const text of ['GET /v1/us', requestText('POST /v1/users', json('{"name":"Ada"}'), '{"na')]) {
      await leave(text)
      await expectAlive()
    }
  })
})

describe('in development a Host', () => {
  const hosts = async (of: Service, path: string, host: string) => {
    const [answer] = await sendBytes(of.url, [requestText(`GET ${path}`, { host })], one)
    return answer as RawAnswer
  }

  test('of another name is 400 for every path, and says which is right: a page cannot read us by DNS rebinding', async () => {
    for (const host of [
      'evil.example',
      'evil.example:8080',
      'localhost.evil.example',
      '10.0.0.1',
      '127.0.0.1.nip.io',
      '',
    ]) {
      for (const path of ['/healthz', '/openapi.json', '/docs', '/docs/api', '/metrics', '/v1/users', '/none']) {
        const answer = await hosts(service, path, host)
        expectEnvelope(answer, 400, 'malformed_request', `${host} ${path}`)
        expect(answer.body).toContain(`localhost:${new URL(service.url).port}`)
      }
    }
  })

  test('of any loopback name or address is served', async () => {
    for (const host of ['localhost', 'LOCALHOST:1', 'app.localhost:3000', '127.0.0.1', '127.8.9.1:80', '[::1]:8080'])
      expect((await hosts(service, '/healthz', host)).status, host).toBe(200)
  })

  test('of HALFKEY_PUBLIC_URL is served, and with HALFKEY_INSECURE_DEV any', async () => {
    const api = { HALFKEY_ROLE: 'api' }
    const shown = await startService({ ...api, HALFKEY_PUBLIC_URL: 'https://dev.example:8443' })
    const insecure = await startService({ ...api, HALFKEY_INSECURE_DEV: '1' })
    try {
      const statuses = [
        (await hosts(shown, '/healthz', 'dev.example')).status,
        (await hosts(shown, '/healthz', 'evil.example')).status,
        (await hosts(insecure, '/healthz', 'evil.example')).status,
      ]
      expect(statuses).toEqual([200, 400, 200])
    } finally {
      await shown.stop()
      await insecure.stop()
    }
  })
})

describe('unusual HTTP', () => {
  test('HTTP/1.0 needs no Host', async () => {
    const answer = await send(`GET /v1/tenant HTTP/1.0\r\nx-api-key: ${tenant.key}\r\n\r\n`)
    expect(answer.status).toBe(200)
  })

  test('no spelling of a path goes round the API key', async () => {
    const spellings = [
      '/%76%31/users',
      '/v%31/users',
      '/%76%31/healthz',
      'http://localhost/v1/users',
      'http://localhost/v1/healthz',
      'HTTP://x/v1/users?page=1',
      '/v1/%75sers',
    ]
    for (const target of spellings) {
      expectEnvelope(await send(requestText(`GET ${target}`)), 401, 'api_key_missing', target)
      const answer = await send(requestText(`GET ${target}`, withKey()))
      expect(answer.status, target).toBe(200)
    }
    for (const target of [
      '/v1/../v1/users',
      '/v1/./users',
      '//v1/users',
      '/v1//users',
      '/V1/users',
      '/v1/users%2f',
      '/v1;a=b/users',
      '/v1/users;a=b',
      'http://localhost',
      '*',
      '/v1%2fusers',
      '/v1/users/',
    ]) {
      const answer = await send(requestText(`GET ${target}`))
      expect([401, 404], `${target} ${answer.body}`).toContain(answer.status)
      expect((await send(requestText(`GET ${target}`, withKey()))).status, target).toBe(404)
    }
  })

  test('methods that no client library sends are 404 or refused', async () => {
    for (const method of ['TRACE', 'LINK', 'M-SEARCH', 'PURGE']) {
      expectEnvelope(await send(requestText(`${method} /v1/users`, withKey())), 404, 'not_found', method)
      expectEnvelope(await send(requestText(`${method} /v1/users`)), 401, 'api_key_missing', method)
    }
  })

  test('100-continue is answered, then the request', async () => {
    const body = '{"name":"Ada"}'
    const answers = await sendBytes(
      service.url,
      [requestText('POST /v1/users', { ...json(body), expect: '100-continue' }), body],
      (all) => all.some((answer) => answer.status >= 200),
    )
    expect(answers.map((answer) => answer.status)).toEqual([100, 201])
  })

  test('requests sent together are answered in order', async () => {
    const first = requestText('GET /v1/tenant', { ...withKey(), connection: 'keep-alive', 'x-request-id': 'one' })
    const second = requestText('GET /v1/nothing', { ...withKey(), 'x-request-id': 'two' })
    const answers = await sendBytes(service.url, [first + second])
    expect(answers.map((answer) => [answer.status, answer.headers['x-request-id']])).toEqual([
      [200, 'one'],
      [404, 'two'],
    ])
  })

  test('two API keys are none', async () => {
    const text = requestText('GET /v1/tenant').replace(
      '\r\n\r\n',
      `\r\nx-api-key: ${tenant.key}\r\nx-api-key: ${tenant.key}\r\n\r\n`,
    )
    expectEnvelope(await send(text), 401, 'api_key_invalid')
  })

  test('a body in pieces arrives whole', async () => {
    const body = '{"name":"Zoë in pieces"}'
    const bytes = Buffer.from(body)
    const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
    const answer = await send(requestText('POST /v1/users', json(body)), ...pieces)
    expect([answer.status, Buffer.from(answer.body, 'latin1').toString()]).toEqual([
      201,
      expect.stringContaining('Zoë in pieces'),
    ])
    const chunks = pieces.map((piece) => Buffer.concat([Buffer.from('1\r\n'), piece, Buffer.from('\r\n')]))
    const { 'content-length': _, ...headers } = json(body)
    const chunked = await send(
      requestText('POST /v1/users', { ...headers, 'transfer-encoding': 'chunked' }),
      ...chunks,
      '0\r\n\r\n',
    )
    expect(chunked.status).toBe(201)
  })

  test('a body without a content type is refused, no body and no content type mean {}', async () => {
    expectEnvelope(
      await send(requestText('POST /v1/users', { ...withKey(), 'content-length': '2' }, '{}')),
      400,
      'unsupported_media_type',
    )
    expect((await send(requestText('POST /v1/users', withKey()))).status).toBe(201)
    expect((await send(requestText('POST /v1/users', { ...withKey(), 'content-length': '0' }))).status).toBe(201)
    expectEnvelope(
      await send(requestText('POST /v1/users', { ...json(''), 'content-length': '0' })),
      400,
      'malformed_json',
    )
    expectEnvelope(
      await send(requestText('POST /v1/users', { ...withKey(), 'content-type': 'application/json' })),
      400,
      'malformed_json',
    )
    expectEnvelope(
      await send(requestText('POST /v1/users', { ...withKey(), 'content-type': '', 'content-length': '2' }, '{}')),
      400,
      'unsupported_media_type',
    )
  })

  test('the media type counts whatever its case and parameters', async () => {
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
    ])
      expect(
        (await send(requestText('POST /v1/users', { ...json('{}'), 'content-type': type }, '{}'))).status,
        type,
      ).toBe(201)
  })

  test('a body over the limit is a 400 with or without a declared length, also far over', async () => {
    const MIB = 1024 * 1024
    const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB, 'x'), Buffer.from('\r\n')])
    const headers = { ...withKey(), 'content-type': 'application/json' }
    for (const mebibytes of [2, 12, 20]) {
      const chunks = Array.from({ length: mebibytes }, () => chunk)
      const chunked = await send(
        requestText('POST /v1/users', { ...headers, 'transfer-encoding': 'chunked' }),
        ...chunks,
        '0\r\n\r\n',
      )
      expectEnvelope(chunked, 400, 'payload_too_large', `${mebibytes} MiB in chunks`)
      const declared = await send(
        requestText('POST /v1/users', { ...headers, 'content-length': String(mebibytes * MIB) }),
        Buffer.alloc(mebibytes * MIB, 'x'),
      )
      expectEnvelope(declared, 400, 'payload_too_large', `${mebibytes} MiB`)
    }
    await expectAlive()
  })

  test('a length beyond all reason is refused without its body', async () => {
    const answer = await send(requestText('POST /v1/users', { ...json(''), 'content-length': String(2 ** 40) }))
    expectEnvelope(answer, 400, 'payload_too_large')
  })

  test('a body of exactly 1 MiB is read', async () => {
    const body = `{}${' '.repeat(1024 * 1024 - 2)}`
    expect((await tenant.post('/users', undefined, { raw: body })).status).toBe(201)
  })

  test('an X-Request-Id with a control character is not echoed', async () => {
    for (const id of ['a\u007fb', 'a\tb']) {
      const answer = await send(requestText('GET /v1/healthz', { ...withKey(), 'x-request-id': id }))
      expect(answer.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
    }
    const twice = requestText('GET /v1/healthz', { 'x-request-id': 'a' }).replace(
      '\r\n\r\n',
      '\r\nx-request-id: b\r\n\r\n',
    )
    expect((await send(twice)).headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })
})

test('outside /v1 nothing needs a key and unknown paths are 404 in the envelope', async () => {
  for (const path of ['/healthz', '/readyz', '/openapi.json']) {
    const answer = await call(service.url, 'GET', path)
    expect([answer.status, answer.headers.get('content-type')], path).toEqual([200, 'application/json; charset=utf-8'])
    expect((await call(service.url, 'HEAD', path)).status, path).toBe(200)
  }
  for (const path of ['/', '/v2/users', '/users', '/v1users', '/healthz/', '/.env', '/docs/../../etc/passwd']) {
    const answer = await call(service.url, 'GET', path)
    expect([answer.status, answer.body.code], path).toEqual([404, 'not_found'])
  }
  expect((await call(service.url, 'POST', '/healthz')).status).toBe(404)
})
