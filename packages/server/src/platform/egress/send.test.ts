// What receivers do to a send, and that none of it hurts another send, the memory or the process.
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { SNIPPET_BYTES_MAX, toSnippet } from './attempt.ts'
import { makeAuthority, makeSelfSigned, type TestCertificate } from './certificates.fixture.ts'
import { createEgress, type Egress, type SendResult } from './egress.ts'
import { type Receiver, startRawReceiver, startReceiver, startScriptedReceiver } from './receivers.fixture.ts'

const cleanups: (() => Promise<void>)[] = []
let egress: Egress

beforeEach(() => {
  egress = createEgress({ allow: [], allowLoopback: true, dnsServers: [] })
  cleanups.push(() => egress.close())
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function up(starting: Promise<Receiver>): Promise<Receiver> {
  const receiver = await starting
  cleanups.push(() => receiver.close())
  return receiver
}

/** Only tells what ends from what does not. */
const WAIT_MS = 60_000

function post(
  receiver: Receiver,
  { timeoutMs = 10_000, host = '127.0.0.1', scheme = 'http' } = {},
): Promise<SendResult> {
  return egress.post({ url: `${scheme}://${host}:${receiver.port}/hook`, headers: {}, body: '{}', timeoutMs })
}

/** Answers every request with these bytes and keeps the connection open. */
function answering(...bytes: (string | Buffer)[]): Promise<Receiver> {
  return up(
    startScriptedReceiver((socket) => {
      for (const part of bytes) socket.write(part)
    }),
  )
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

describe('the verdict is the status line', () => {
  test.each([
    ['200', OK, { ok: true, statusCode: 200, error: null, responseSnippet: 'ok' }],
    [
      '204 with a body',
      'HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok',
      { ok: true, statusCode: 204, error: null, responseSnippet: '' },
    ],
    ['299', 'HTTP/1.1 299 Odd\r\ncontent-length: 0\r\n\r\n', { ok: true, statusCode: 299 }],
    [
      '103, then 200',
      `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${OK}`,
      { ok: true, statusCode: 200, responseSnippet: 'ok' },
    ],
    ['304', 'HTTP/1.1 304 Not Modified\r\n\r\n', { ok: false, statusCode: 304, error: 'status 304' }],
    [
      '410',
      'HTTP/1.1 410 Gone\r\ncontent-length: 4\r\n\r\ngone',
      { ok: false, statusCode: 410, error: 'status 410', responseSnippet: 'gone' },
    ],
    [
      '500',
      'HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n',
      { ok: false, statusCode: 500, error: 'status 500', responseSnippet: '' },
    ],
    [
      '101 unasked',
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
      { ok: false, statusCode: 101, error: 'status 101' },
    ],
    [
      '101 without upgrade headers',
      'HTTP/1.1 101 Switching Protocols\r\n\r\n',
      { ok: false, statusCode: 101, error: 'status 101' },
    ],
    ['100 unasked', `HTTP/1.1 100 Continue\r\n\r\n${OK}`, { ok: false, statusCode: 100, error: 'status 100' }],
    [
      'not HTTP',
      'SSH-2.0-OpenSSH_9.9\r\n',
      { ok: false, statusCode: null, error: 'not an HTTP/1.1 answer', responseSnippet: null },
    ],
    [
      '1 MB of headers',
      `HTTP/1.1 200 OK\r\n${`x-pad: ${'a'.repeat(1_000)}\r\n`.repeat(1_000)}\r\n`,
      { ok: false, statusCode: null, error: 'headers too large' },
    ],
    [
      'one header of 1 MB',
      `HTTP/1.1 200 OK\r\nx-pad: ${'a'.repeat(1_000_000)}\r\n\r\n`,
      { ok: false, statusCode: null, error: 'headers too large' },
    ],
    [
      'interim answers without end',
      'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100),
      { ok: false, statusCode: 103, error: 'status 103' },
    ],
  ])('%s', async (_name, bytes, expected) => {
    expect(await post(await answering(bytes))).toMatchObject(expected)
  })

  test('a redirect is a failure and is not followed', async () => {
    const inner = await up(startReceiver())
    const outer = await answering(
      `HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:${inner.port}/\r\ncontent-length: 0\r\n\r\n`,
    )
    expect(await post(outer)).toMatchObject({
      ok: false,
      statusCode: 307,
      error: 'status 307: redirects are not followed',
    })
    expect(inner.connections()).toBe(0)
  })

  test('a body that breaks off, or drips past the deadline, changes nothing', async () => {
    const broken = await up(
      startScriptedReceiver((socket) =>
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart', () => socket.resetAndDestroy()),
      ),
    )
    expect(await post(broken)).toMatchObject({ ok: true, statusCode: 200, error: null })
    const dripping = await answering('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart')
    const failing = await answering('HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\npart')
    const inTime = { timeoutMs: 5_000 }
    const [result, refused] = await Promise.all([post(dripping, inTime), post(failing, inTime)])
    expect(result).toMatchObject({ ok: true, statusCode: 200, error: null, responseSnippet: 'part' })
    expect(result.durationMs).toBeGreaterThanOrEqual(5_000)
    expect(refused).toMatchObject({
      ok: false,
      statusCode: 503,
      error: 'status 503',
      responseSnippet: 'part',
    })
  })
})

describe('the deadline', () => {
  const silent = {
    'accepts and says nothing': () => startRawReceiver((socket) => socket.resume()),
    'drips its headers': () =>
      startScriptedReceiver((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nx: ')
        const drip = setInterval(() => socket.write('a'), 20)
        socket.on('close', () => clearInterval(drip))
      }),
  }
  test.each(Object.entries(silent))(
    'a receiver that %s times out, not early, and loses its connection',
    async (_name, start) => {
      const receiver = await up(start())
      const startedAt = performance.now()
      expect(await post(receiver, { timeoutMs: 300 })).toMatchObject({
        ok: false,
        statusCode: null,
        error: 'timeout',
        responseSnippet: null,
      })
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(300)
      await vi.waitFor(() => expect(receiver.sockets.size).toBe(0), WAIT_MS)
      expect(egress.stats()).toMatchObject({ sendsInFlight: 0, connectionsOpen: 0 })
    },
  )

  test('covers a TLS handshake that never ends', async () => {
    const receiver = await up(startRawReceiver((socket) => socket.resume()))
    expect(await post(receiver, { timeoutMs: 300, scheme: 'https' })).toMatchObject({ error: 'timeout' })
    await vi.waitFor(() => expect(receiver.sockets.size).toBe(0), WAIT_MS)
  })

  test('hundreds of hanging sends do not hold up another send to the same host', async () => {
    let hanging = 0
    const receiver = await up(startScriptedReceiver((socket) => (hanging++ < 300 ? undefined : socket.write(OK))))
    let settled = 0
    // Longer than the test may wait: what is held up by them does not end before them.
    const stuck = Array.from({ length: 300 }, () =>
      post(receiver, { timeoutMs: 100_000 }).finally(() => {
        settled += 1
      }),
    )
    await vi.waitFor(() => expect(hanging).toBe(300), 60_000)
    expect(await post(receiver, { timeoutMs: 60_000 })).toMatchObject({ ok: true })
    expect(settled).toBe(0)
    await egress.close()
    expect((await Promise.all(stuck)).filter(({ ok }) => ok)).toEqual([])
  })
})

describe('connections', () => {
  test('one that nobody accepts, and one that is reset, are told apart', async () => {
    const gone = await startReceiver()
    await gone.close()
    expect(await post(gone)).toMatchObject({ ok: false, statusCode: null, error: 'connection refused' })
    const resetting = await up(startScriptedReceiver((socket) => socket.resetAndDestroy()))
    expect(await post(resetting)).toMatchObject({ ok: false, statusCode: null, error: 'reset' })
    // A fresh connection that is reset may have been reset because of the request: it is not sent twice.
    expect(resetting.connections()).toBe(1)
  })

  test('an answer on a kept-alive connection is followed by the next send on it', async () => {
    const receiver = await up(startReceiver())
    for (let n = 0; n < 20; n++) expect(await post(receiver)).toMatchObject({ ok: true })
    expect(receiver.connections()).toBe(1)
  })

  test('a send that meets a just closed kept-alive connection is repeated once on a fresh one', async () => {
    let requests = 0
    const receiver = await up(
      startScriptedReceiver((socket, count) => {
        requests += 1
        if (count === 1) socket.write(OK)
        else socket.destroy()
      }),
    )
    expect(await post(receiver)).toMatchObject({ ok: true })
    expect(await post(receiver)).toMatchObject({ ok: true })
    expect([requests, receiver.connections()]).toEqual([3, 2])
  })

  test('it is not repeated once a byte of the answer came, and not a second time', async () => {
    const partly = await up(
      startScriptedReceiver((socket, count) => {
        socket.write(count === 1 ? OK : 'HTTP/1.1 2', () => count > 1 && socket.destroy())
      }),
    )
    expect(await post(partly)).toMatchObject({ ok: true })
    expect(await post(partly)).toMatchObject({ ok: false, statusCode: null, error: 'reset' })
    expect(partly.connections()).toBe(1)

    let requests = 0
    const dying = await up(startScriptedReceiver((socket) => (requests++ === 0 ? socket.write(OK) : socket.destroy())))
    expect(await post(dying)).toMatchObject({ ok: true })
    expect(await post(dying)).toMatchObject({ ok: false, error: 'reset' })
    expect([requests, dying.connections()]).toEqual([3, 2])
  })

  test('a server that closes after each answer without saying so loses nothing', async () => {
    const receiver = await up(startScriptedReceiver((socket) => socket.end(OK)))
    for (let n = 0; n < 100; n++) expect(await post(receiver)).toMatchObject({ ok: true })
  })

  test('bytes pushed onto an idle connection are not taken for the next answer', async () => {
    const receiver = await up(
      startScriptedReceiver((socket, count) => {
        socket.write(count === 1 && receiver.connections() === 1 ? OK + OK.replace('200 OK', '299 Forged') : OK)
      }),
    )
    expect(await post(receiver)).toMatchObject({ statusCode: 200 })
    expect(await post(receiver)).toMatchObject({ statusCode: 200 })
  })

  test('two thousand hosts leave a bounded number of connections and names', async () => {
    const receiver = await up(startReceiver())
    for (let batch = 0; batch < 20; batch++) {
      const hosts = Array.from({ length: 100 }, (_, n) => `h${batch * 100 + n}.localhost`)
      const results = await Promise.all(hosts.map((host) => post(receiver, { host })))
      expect(results.filter(({ ok }) => !ok)).toEqual([])
    }
    expect(receiver.connections()).toBe(2_000)
    expect(egress.stats()).toMatchObject({
      sendsInFlight: 0,
      connectionsOpen: 512,
      connectionsIdle: 512,
      namesCached: 2_000,
    })
    await vi.waitFor(() => expect(receiver.sockets.size).toBe(512), WAIT_MS)
  })

  test('closing ends sends in flight and every connection, and refuses what comes after', async () => {
    const [silent, idle] = [await up(startRawReceiver((socket) => socket.resume())), await up(startReceiver())]
    await post(idle)
    const flying = post(silent)
    await vi.waitFor(() => expect(silent.sockets.size).toBe(1), WAIT_MS)
    await egress.close()
    expect(await flying).toMatchObject({ ok: false, error: 'shutting down' })
    expect(await post(idle)).toMatchObject({ ok: false, error: 'shutting down' })
    await vi.waitFor(() => expect([silent.sockets.size, idle.sockets.size]).toEqual([0, 0]), WAIT_MS)
  })

  test('headers that HTTP can’t carry fail the send instead of throwing', async () => {
    const receiver = await up(startReceiver())
    const url = `http://127.0.0.1:${receiver.port}/`
    const result = await egress.post({ url, headers: { 'x-a': 'a\r\nx-b: c' }, body: '', timeoutMs: 500 })
    expect(result).toMatchObject({ ok: false, error: 'invalid request' })
    expect(receiver.connections()).toBe(0)
  })
})

describe('the body', () => {
  test('without end is cut, and what was sent into it is bounded', async () => {
    let writtenBytes = 0
    const receiver = await up(
      startScriptedReceiver((socket) => {
        const chunk = Buffer.alloc(64 * 1024, 'x')
        const pump = () => {
          while (!socket.destroyed && socket.write(chunk)) writtenBytes += chunk.length
          writtenBytes += chunk.length
        }
        socket.on('drain', pump)
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${10 * 1024 ** 3}\r\n\r\n`)
        pump()
      }),
    )
    const result = await post(receiver)
    expect(result).toMatchObject({ ok: true, statusCode: 200 })
    expect(result.responseSnippet).toBe('x'.repeat(SNIPPET_BYTES_MAX))
    await vi.waitFor(() => expect(receiver.sockets.size).toBe(0), WAIT_MS)
    expect(writtenBytes).toBeLessThan(32 * 1024 * 1024)
    expect(egress.stats().connectionsOpen).toBe(0)
  })

  test('that is compressed, though nobody asked for it, is not inflated', async () => {
    const bomb = gzipSync(Buffer.alloc(10 * 1024 * 1024))
    const receiver = await answering(
      `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`,
      bomb,
    )
    const result = await post(receiver)
    expect(result.ok).toBe(true)
    expect(result.responseSnippet?.startsWith('\u001f\ufffd')).toBe(true)
    expect(Buffer.byteLength(result.responseSnippet ?? '')).toBeLessThanOrEqual(SNIPPET_BYTES_MAX)
  })

  test('is kept as text that a database takes', async () => {
    const bytes = Buffer.from([0x61, 0, 0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x62])
    const receiver = await answering(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes.length}\r\n\r\n`, bytes)
    const { responseSnippet } = await post(receiver)
    expect(responseSnippet).toMatch(/^a\ufffd+\(\ufffd+b$/)
    expect(responseSnippet?.isWellFormed()).toBe(true)
  })

  test.each([
    ['a character cut in half is dropped', [Buffer.from(`${'a'.repeat(4_095)}€`)], 'a'.repeat(4_095)],
    ['a character split over chunks is whole', [Buffer.from([0xe2, 0x82]), Buffer.from([0xac])], '€'],
    ['replacements stay within the limit', [Buffer.alloc(4_096, 0xff)], '\ufffd'.repeat(1_365)],
    ['nothing is nothing', [], ''],
  ])('%s', (_name, chunks, expected) => {
    expect(toSnippet(chunks, false)).toBe(expected)
  })
})

describe('TLS', () => {
  const authority = makeAuthority('Trusted root')
  const cases: [string, TestCertificate, string][] = [
    ['expired', authority.issue(['127.0.0.1'], -60_000), 'tls: certificate expired'],
    ['for another host', authority.issue(['other.test']), 'tls: certificate for another host'],
    ['self-signed', makeSelfSigned('127.0.0.1'), 'tls: certificate self-signed'],
    [
      'from an unknown authority',
      makeAuthority('Stranger').issue(['127.0.0.1']),
      'tls: certificate from an unknown authority',
    ],
  ]
  test.each(cases)(
    'a certificate that is %s fails the send, at the second one too',
    async (_name, certificate, error) => {
      const receiver = await up(startReceiver({ tls: certificate }))
      const trusting = createEgress({ allow: [], allowLoopback: true, dnsServers: [], ca: authority.ca })
      cleanups.push(() => trusting.close())
      const url = `https://127.0.0.1:${receiver.port}/`
      for (let n = 0; n < 2; n++) {
        const result = await trusting.post({ url, headers: {}, body: '{}', timeoutMs: 2_000 })
        expect(result).toMatchObject({ ok: false, statusCode: null, error, responseSnippet: null })
      }
      expect(receiver.received).toEqual([])
    },
  )

  test('a receiver that speaks plain HTTP on a TLS port is told so', async () => {
    const plain = await up(startRawReceiver((socket) => socket.write(OK)))
    expect(await post(plain, { scheme: 'https' })).toMatchObject({ ok: false, error: 'tls: handshake failed' })
  })
})
