// What faulty receivers do to deliveries, through the whole engine: `platform/egress/send.test.ts` has the guard alone.
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { type Receiver, startRawReceiver, startScriptedReceiver } from '../../platform/egress/receivers.fixture.ts'
import { createUser, deliveriesIn, deliveriesOf, subscribe } from './delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

const receivers: { close(): Promise<void> }[] = []
let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_TIMEOUT: '4s', HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
})
afterAll(async () => {
  for (const receiver of receivers) await receiver.close()
  await service.stop()
})

/** Writes these bytes at each request, and keeps the connection open. */
const bytes =
  (...parts: (string | Buffer)[]) =>
  (socket: Socket) => {
    for (const part of parts) socket.write(part)
  }

/** Writes this, and then a byte ten times a second. */
const dripping = (head: string) => (socket: Socket) => {
  socket.write(head)
  const drip = setInterval(() => socket.write('a'), 100)
  socket.on('close', () => clearInterval(drip))
}

const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024))
const head = (status: string, length: number, more = '') =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${length}\r\n${more}\r\n`

interface Expected {
  statusCode: number | null
  error: string | null
  responseSnippet?: unknown
}

const cases: [string, () => Promise<Receiver>, Expected][] = [
  [
    'accepts and says nothing',
    () => startRawReceiver((socket) => socket.resume()),
    { statusCode: null, error: 'timeout', responseSnippet: null },
  ],
  ['says nothing after the request', () => startScriptedReceiver(() => {}), { statusCode: null, error: 'timeout' }],
  [
    'stops in its status line',
    () => startScriptedReceiver(bytes('HTTP/1.1 2')),
    { statusCode: null, error: 'timeout' },
  ],
  [
    'drips its headers',
    () => startScriptedReceiver(dripping('HTTP/1.1 200 OK\r\nx: ')),
    { statusCode: null, error: 'timeout' },
  ],
  [
    'drips its body after 200',
    () => startScriptedReceiver(dripping(head('200 OK', 10_000))),
    { statusCode: 200, error: null, responseSnippet: expect.stringMatching(/^a+$/) },
  ],
  [
    'drips its body after 500',
    () => startScriptedReceiver(dripping(head('500 No', 10_000))),
    { statusCode: 500, error: 'status 500', responseSnippet: expect.stringMatching(/^a+$/) },
  ],
  [
    'resets on connect',
    () => startRawReceiver((socket) => void socket.resetAndDestroy()),
    { statusCode: null, error: 'reset' },
  ],
  [
    'resets after the request',
    () => startScriptedReceiver((socket) => void socket.resetAndDestroy()),
    { statusCode: null, error: 'reset' },
  ],
  [
    'resets in the middle of its body',
    () =>
      startScriptedReceiver((socket) => void socket.write(`${head('200 OK', 9)}part`, () => socket.resetAndDestroy())),
    { statusCode: 200, error: null },
  ],
  [
    'sends 1 MB of headers',
    () => startScriptedReceiver(bytes(`HTTP/1.1 200 OK\r\n${`x-pad: ${'a'.repeat(1_000)}\r\n`.repeat(1_000)}\r\n`)),
    { statusCode: null, error: 'headers too large' },
  ],
  [
    'answers in invalid UTF-8 with NUL',
    () => startScriptedReceiver(bytes(head('200 OK', 6), Buffer.from([0x61, 0, 0xff, 0xc3, 0x28, 0x62]))),
    { statusCode: 200, error: null, responseSnippet: expect.stringMatching(/^a\ufffd+\(b$/) },
  ],
  [
    'answers with a gzip bomb',
    () => startScriptedReceiver(bytes(head('200 OK', bomb.length, 'content-encoding: gzip\r\n'), bomb)),
    { statusCode: 200, error: null },
  ],
  [
    'answers with a body without end',
    () =>
      startScriptedReceiver((socket) => {
        const pump = () => {
          while (!socket.destroyed && socket.write(Buffer.alloc(65_536, 'x')));
        }
        socket.on('drain', pump)
        socket.write(head('200 OK', 10 * 1024 ** 3))
        pump()
      }),
    { statusCode: 200, error: null, responseSnippet: 'x'.repeat(4_096) },
  ],
  [
    'switches protocols',
    () =>
      startScriptedReceiver(
        bytes('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
      ),
    { statusCode: 101, error: 'status 101' },
  ],
  [
    'hints early, then succeeds',
    () => startScriptedReceiver(bytes(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${head('200 OK', 2)}ok`)),
    { statusCode: 200, error: null, responseSnippet: 'ok' },
  ],
  [
    'hints early, then nothing',
    () => startScriptedReceiver(bytes('HTTP/1.1 103 Early Hints\r\n\r\n')),
    { statusCode: null, error: 'timeout' },
  ],
  [
    'answers 204 with a body',
    () => startScriptedReceiver(bytes(`${head('204 No Content', 2)}ok`)),
    { statusCode: 204, error: null, responseSnippet: '' },
  ],
  [
    'answers 304',
    () => startScriptedReceiver(bytes('HTTP/1.1 304 Not Modified\r\n\r\n')),
    { statusCode: 304, error: 'status 304' },
  ],
  [
    'speaks another protocol',
    () => startScriptedReceiver(bytes('SSH-2.0-OpenSSH_9.9\r\n')),
    { statusCode: null, error: 'not an HTTP/1.1 answer' },
  ],
]

describe.concurrent('a receiver that', () => {
  test.each(cases)('%s gets its verdict, and the engine goes on', async (_name, start, expected) => {
    const tenant = await service.newTenant()
    const faulty = await start()
    const healthy = await startReceiver()
    receivers.push(faulty, healthy)
    const { id } = await subscribe(tenant, `http://127.0.0.1:${faulty.port}/`)
    await subscribe(tenant, healthy.url)
    for (let n = 0; n < 3; n += 1) await createUser(tenant)
    await healthy.count('beside it', 3)
    const succeeds = expected.error === null
    const deliveries = await deliveriesIn(tenant, id, succeeds ? 'succeeded' : 'retrying', 3)
    for (const each of deliveries) {
      expect(each.attempts).toHaveLength(1)
      expect(each.attempts[0]).toMatchObject({ number: 0, ...expected })
      const snippet: string | null = each.attempts[0].responseSnippet
      expect(Buffer.byteLength(snippet ?? '')).toBeLessThanOrEqual(4_096)
      expect((snippet ?? '').isWellFormed() && !(snippet ?? '').includes('\0')).toBe(true)
      expect(each.attempts[0].durationMs).toBeLessThan(8_000)
    }
    // Time-outs take places in turn; a refused answer closes its connection.
    await eventually('no connection is left to it but an idle one', async () => faulty.sockets.size <= 3)
    expect(await deliveriesOf(tenant, id)).toHaveLength(3)
  })

  test('needs a token of an endpoint that says nothing has timed out, as if it said nothing itself', async () => {
    const tenant = await service.newTenant()
    const [silent, healthy] = [await startScriptedReceiver(() => {}), await startReceiver()]
    receivers.push(silent, healthy)
    const oauth = { tokenUrl: `http://127.0.0.1:${silent.port}/`, clientId: 'a', clientSecret: 'b' }
    const made = await tenant.post('/webhooks', { url: healthy.url, events: ['user.created'], oauth })
    const { id } = made.body.data
    await createUser(tenant)
    const [{ attempts }] = await deliveriesIn(tenant, id, 'retrying')
    expect(attempts[0]).toMatchObject({ statusCode: null, error: 'oauth token: timeout' })
    expect(attempts[0].durationMs).toBeGreaterThanOrEqual(4_000)
    expect(await service.sql('select timeouts from lanes where id = $1', [id])).toEqual([{ timeouts: 1 }])
    expect(healthy.received).toEqual([])
  })
})

test('after all of them the worker is alive, and nothing unforeseen was logged', async () => {
  const tenant = await service.newTenant()
  expect((await tenant.get('/readyz')).status).toBe(200)
  expect(service.logs()).not.toMatch(/"level":(50|60)/)
  expect(service.logs()).not.toContain('delivery engine failed and will retry')
})
