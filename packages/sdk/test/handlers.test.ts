import { createHmac } from 'node:crypto'
import { createServer, request as httpRequest, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService } from '../../server/test/harness/harness.ts'
import { createClient, type HalfkeyClient } from '../src/client.ts'
import { webhookHandler as expressHandler } from '../src/express.ts'
import { webhookPlugin } from '../src/fastify.ts'
import { webhookHandler as fetchHandler } from '../src/fetch.ts'
import { type OnWebhookEvent, WebhookHandlerError, type WebhookHandlerOptions } from '../src/receiving.ts'
import type { WebhookEvent } from '../src/webhooks.ts'

const SECRET = 'whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cyBvZiBoYW5kbGVycw=='
const OTHER = 'whsec_YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3RzIHRoZXJl'
const BODY_BYTES_MAX = 4_096

/** A server that has a framework's handler at `/hook`, and what its framework was told of failures. */
interface Shop {
  url: string
  failures: unknown[]
  close(): Promise<void>
}
type Open = (onEvent: OnWebhookEvent, options?: WebhookHandlerOptions, secrets?: string | string[]) => Promise<Shop>

async function listening(server: Server, failures: unknown[]): Promise<Shop> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    failures,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** An Express app whose error handler notes what it gets, and answers as Express does. */
function expressShop(mount: (app: express.Express) => void): Promise<Shop> {
  const failures: unknown[] = []
  const app = express()
  mount(app)
  app.use((error: unknown, _request: express.Request, response: express.Response, _next: express.NextFunction) => {
    failures.push(error)
    response.status((error as { status?: number }).status ?? 500).json({ error: 'failed' })
  })
  return listening(createServer(app), failures)
}

const FRAMEWORKS: Record<string, Open> = {
  Express: (onEvent, options, secrets = [OTHER, SECRET]) =>
    expressShop((app) => app.post('/hook', expressHandler(secrets, onEvent, options)).use(express.json())),
  'Express, after express.raw': (onEvent, options, secrets = [OTHER, SECRET]) =>
    expressShop((app) => app.post('/hook', express.raw({ type: '*/*' }), expressHandler(secrets, onEvent, options))),
  Fastify: async (onEvent, options, secrets = [OTHER, SECRET]) => {
    const failures: unknown[] = []
    const app = fastify()
    app.addHook('onError', async (_request, _reply, error) => {
      if (error instanceof WebhookHandlerError) failures.push(error)
    })
    await app.register(webhookPlugin(secrets, onEvent, { ...options, path: '/hook' }))
    await app.ready()
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    return { url: `${url}/hook`, failures, close: () => app.close() }
  },
  'the Fetch standard': (onEvent, options, secrets = [OTHER, SECRET]) => {
    const failures: unknown[] = []
    const handle = fetchHandler(secrets, onEvent, { ...options, onError: (error) => failures.push(error) })
    // As the adapters of Node's server do it, with the body as a stream.
    const server = createServer(async (incoming, outgoing) => {
      const answer = await handle(
        new Request(`http://shop${incoming.url}`, {
          method: incoming.method as string,
          headers: incoming.headers as Record<string, string>,
          ...(incoming.method === 'GET' ? {} : { body: incoming as never, duplex: 'half' }),
        } as RequestInit),
      )
      outgoing.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
    })
    return listening(server, failures)
  },
}

let service: Service
let client: HalfkeyClient
let shop: Shop | undefined
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1ms' })
  client = createClient({ baseUrl: service.url, apiKey: (await service.newTenant()).key })
})
afterAll(() => service.stop())
afterEach(async () => {
  await shop?.close()
  shop = undefined
})

let made = 0
/** A delivery as the service signs it. */
function delivery({ secret = SECRET, more = '' }: { secret?: string; more?: string } = {}) {
  const id = `evt_${String(++made).padStart(26, '0')}`
  const data = { userId: `usr_${id.slice(4)}`, email: `zoë${more}@example.com`, partyId: 'p' }
  // Spaced as no serialiser would do it again.
  const body = `{ "id":"${id}",  "type": "user.created", "created_at":"2026-11-20T00:00:00.000Z", "api_version":"2026-11-01","data":${JSON.stringify(data)}}`
  const timestamp = String(Math.floor(Date.now() / 1000))
  const mac = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  const headers = {
    'content-type': 'application/json',
    'x-service-signature': `sha256=${mac}`,
    'x-service-timestamp': timestamp,
    'x-service-event-id': id,
  }
  return { id, body, headers }
}

const send = ({ body, headers }: { body: string; headers: Record<string, string> }) =>
  fetch(shop?.url as string, { method: 'POST', headers, body })

describe.each(Object.entries(FRAMEWORKS))('%s', (_, open) => {
  test('a delivery is handled before it is answered', async () => {
    const events: WebhookEvent[] = []
    let letGo: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const noted: string[] = []
    shop = await open(async (event) => {
      events.push(event)
      noted.push('handling')
      await held
      noted.push('handled')
    })
    const answered = send(delivery()).then((answer) => {
      noted.push('answered')
      return answer
    })
    await eventually('it is being handled', async () => noted.length === 1)
    letGo()
    expect((await answered).status).toBe(200)
    expect(noted).toEqual(['handling', 'handled', 'answered'])
    expect(events[0]).toMatchObject({ type: 'user.created', data: { email: 'zoë@example.com' } })
    expect(shop.failures).toEqual([])
  })

  test('an error of the handler is answered 500 without its text, so that the delivery is retried', async () => {
    // Whatever status the cause has: a 410 of its own would say that nobody wants deliveries any more.
    const cause = Object.assign(new Error('the words of the database'), { status: 410, statusCode: 410 })
    shop = await open(() => Promise.reject(cause))
    const { id, ...sent } = delivery()
    const answer = await send(sent)
    expect(answer.status).toBe(500)
    expect(await answer.text()).not.toContain('database')
    expect(shop.failures).toHaveLength(1)
    const [failure] = shop.failures as [WebhookHandlerError]
    expect(failure).toBeInstanceOf(WebhookHandlerError)
    expect(failure).toMatchObject({ eventId: id, cause })
    expect(failure.stack).toContain('the words of the database')
  })

  test('an error that the handler throws synchronously is answered 500 too', async () => {
    shop = await open(() => {
      throw new Error('at once')
    })
    expect((await send(delivery())).status).toBe(500)
  })

  test('a delivery that is not genuine is answered 400 with the same body for every reason; only onRejected gets the reason', async () => {
    const reasons: string[] = []
    const events: unknown[] = []
    shop = await open((event) => events.push(event), { onRejected: ({ reason }) => reasons.push(reason) })
    const good = delivery()
    const answers = await Promise.all([
      send(delivery({ secret: 'whsec_bm90IHRoZSBzZWNyZXQgb2YgYW55Ym9keSBoZXJl' })),
      send({ ...good, body: good.body.replace('zoë', 'eve') }),
      send({ ...good, headers: { ...good.headers, 'x-service-timestamp': '1' } }),
      send({ ...good, headers: { 'content-type': 'application/json' } }),
      send({ ...good, body: '' }),
    ])
    for (const answer of answers) {
      expect(answer.status).toBe(400)
      expect(await answer.text()).toBe('{"error":"This delivery could not be verified."}')
    }
    expect(reasons.toSorted()).toEqual([
      'signature_mismatch',
      'signature_mismatch',
      'signature_mismatch',
      'signature_missing',
      'timestamp_too_old',
    ])
    expect(events).toEqual([])
    expect(shop.failures).toEqual([])
  })

  test('a seen event is answered 200 and not handled; after a failure, the retried event is handled', async () => {
    const done = new Set<string>()
    let attempts = 0
    shop = await open(
      (event) => {
        attempts += 1
        if (attempts === 1) throw new Error('not yet')
        done.add(event.id)
      },
      { seen: async (id) => done.has(id) },
    )
    const one = delivery()
    const statuses: number[] = []
    for (let n = 0; n < 4; n++) statuses.push((await send(one)).status)
    expect(statuses).toEqual([500, 200, 200, 200])
    expect(attempts).toBe(2)
  })

  test('if `seen` fails, the answer is 500 and the event is not handled', async () => {
    const events: unknown[] = []
    shop = await open((event) => events.push(event), { seen: () => Promise.reject(new Error('away')) })
    expect((await send(delivery())).status).toBe(500)
    expect(events).toEqual([])
  })

  test('a body over the limit is answered 413, with or without content-length', async () => {
    const events: unknown[] = []
    shop = await open((event) => events.push(event), { bodyBytesMax: BODY_BYTES_MAX })
    const large = delivery({ more: 'x'.repeat(BODY_BYTES_MAX) })
    expect((await send(large)).status).toBe(413)
    expect(await sendWithoutLength(shop.url, large)).toBe(413)
    expect((await send(delivery())).status).toBe(200)
    expect(events).toHaveLength(1)
  })

  test('twenty deliveries at once are each handled once', async () => {
    const events: string[] = []
    shop = await open((event) => events.push(event.id))
    const all = Array.from({ length: 20 }, () => delivery())
    const answers = await Promise.all(all.map(send))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(events.toSorted()).toEqual(all.map(({ id }) => id))
  })

  test('a sender that disconnects does not disturb the server', async () => {
    const events: unknown[] = []
    shop = await open((event) => events.push(event))
    const { port, pathname } = new URL(shop.url)
    const socket = connect(Number(port), '127.0.0.1')
    await new Promise((resolve) => socket.once('connect', resolve))
    socket.write(
      `POST ${pathname} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{`,
    )
    socket.destroy()
    await new Promise((resolve) => socket.once('close', resolve))
    expect((await send(delivery())).status).toBe(200)
    expect(events).toHaveLength(1)
  })

  test('a missing secret or function is refused at start', async () => {
    for (const secrets of ['', [], ['']]) {
      expect(() => expressHandler(secrets, () => undefined)).toThrow(TypeError)
      expect(() => webhookPlugin(secrets, () => undefined)).toThrow(TypeError)
      expect(() => fetchHandler(secrets, () => undefined)).toThrow(TypeError)
    }
    await expect(async () => open(undefined as never)).rejects.toThrow(TypeError)
    await expect(async () => open(() => undefined, { bodyBytesMax: 0 })).rejects.toThrow(TypeError)
  })
})

/** Sends a body whose length no header tells. */
function sendWithoutLength(url: string, { body, headers }: { body: string; headers: Record<string, string> }) {
  return new Promise<number | undefined>((resolve, reject) => {
    const sending = httpRequest(url, { method: 'POST', headers: { ...headers, 'transfer-encoding': 'chunked' } })
    sending.on('response', (response) => {
      resolve(response.statusCode)
      response.resume()
    })
    sending.on('error', reject)
    for (let at = 0; at < body.length; at += 512) sending.write(body.slice(at, at + 512))
    sending.end()
  })
}

test.each(Object.entries(FRAMEWORKS))('%s accepts the deliveries of a real service', async (_, open) => {
  const events: WebhookEvent[] = []
  const { secret, id } = await client.webhooks.create({ url: 'http://127.0.0.1:3999/hook', events: ['user.created'] })
  let refusals = 1
  shop = await open(
    (event) => {
      if (refusals-- > 0) throw new Error('come again')
      events.push(event)
    },
    {},
    secret,
  )
  await client.webhooks.update(id, { url: shop.url })
  const user = await client.users.create({ email: `ada-${id}@example.com` })
  const event = await eventually('the event, at its second attempt', async () => events[0])
  expect(event.type === 'user.created' && event.data.userId).toBe(user.id)
  const succeeded = async () => (await client.webhooks.deliveries.list(id, { status: 'succeeded' })).data[0]
  const sent = await eventually('its delivery', succeeded)
  expect(sent.attempts.map(({ statusCode }) => statusCode)).toEqual([500, 200])
  await client.webhooks.delete(id)
})

describe('Express', () => {
  test('a body that express.json parsed is an error that says what to do', async () => {
    const events: unknown[] = []
    shop = await expressShop((app) =>
      app.use(express.json()).post(
        '/hook',
        expressHandler(SECRET, (event) => events.push(event)),
      ),
    )
    expect((await send(delivery())).status).toBe(500)
    expect(String(shop.failures[0])).toMatch(/before express\.json\(\).*express\.raw/)
    expect(events).toEqual([])
  })

  test('express.json on other routes, or for other content types, does not matter', async () => {
    const events: unknown[] = []
    shop = await expressShop((app) =>
      app
        .use('/api', express.json())
        .use(express.json({ type: 'application/vnd.other+json' }))
        .post(
          '/hook',
          expressHandler(SECRET, (event) => events.push(event)),
        ),
    )
    expect((await send(delivery())).status).toBe(200)
    expect(events).toHaveLength(1)
  })

  test('bytes that a middleware or platform keeps beside the parsed body are used', async () => {
    shop = await expressShop((app) =>
      app.use(express.json({ verify: (request, _, bytes) => Object.assign(request, { rawBody: bytes }) })).post(
        '/hook',
        expressHandler(SECRET, () => undefined),
      ),
    )
    expect((await send(delivery())).status).toBe(200)
  })
})

describe('Fastify', () => {
  test('other routes parse their bodies as before, with their own limits', async () => {
    const app = fastify({ bodyLimit: 100 })
    app.post('/json', async (request) => ({ got: request.body }))
    await app.register(
      webhookPlugin(SECRET, () => undefined),
      { prefix: '/hook' },
    )
    const payload = delivery({ more: 'x'.repeat(200) })
    const hook = await app.inject({ method: 'POST', url: '/hook', headers: payload.headers, payload: payload.body })
    expect(hook.statusCode).toBe(200)
    const json = await app.inject({ method: 'POST', url: '/json', payload: { a: 1 } })
    expect(json.json()).toEqual({ got: { a: 1 } })
    await app.close()
  })
})

describe('the Fetch standard', () => {
  test('methods other than POST are answered 405', async () => {
    const answer = await fetchHandler(SECRET, () => undefined)(new Request('http://shop/hook'))
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('a request whose body was already read is an error that says so', async () => {
    const { body, headers } = delivery()
    const request = new Request('http://shop/hook', { method: 'POST', body, headers })
    await request.json()
    await expect(fetchHandler(SECRET, () => undefined)(request)).rejects.toThrow(/has been read already/)
  })

  test('an error of the handler is written to the console without onError', async (context) => {
    const written: unknown[] = []
    const { error } = console
    context.onTestFinished(() => {
      console.error = error
    })
    console.error = (...all: unknown[]) => written.push(...all)
    const { body, headers } = delivery()
    const handle = fetchHandler(SECRET, () => Promise.reject(new Error('x')))
    expect((await handle(new Request('http://shop/hook', { method: 'POST', body, headers }))).status).toBe(500)
    expect(written).toEqual([expect.any(WebhookHandlerError)])
  })
})
