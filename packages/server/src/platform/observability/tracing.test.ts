// Traces as a real collector gets them: what belongs to what, and what must never be in them.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type CollectedSpan, type Collector, startCollector } from '../../../test/harness/collector.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  call,
  eventually,
  newDatabase,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { answer, startReceiver } from '../../../test/harness/receiver.ts'
import { DataFolder, killAll, startProcess } from '../../../test/harness/service-process.ts'
import { deliveriesIn } from '../../delivery/engine/delivery.fixture.ts'

const [SERVER, CLIENT, INTERNAL, ERROR] = [2, 3, 1, 2]
let collector: Collector
let service: Service
const cleanups: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  collector = await startCollector()
  service = await startService({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
afterAll(async () => {
  await service.stop()
  await collector.close()
  await killAll()
})

async function newCollector(): Promise<Collector> {
  const made = await startCollector()
  cleanups.push(() => made.close())
  return made
}

/** A service that is stopped with the test, if it has not been before. */
async function newService(settings: Record<string, string>): Promise<Service & { stopNow(): Promise<void> }> {
  const made = await startService({ HALFKEY_ROLE: 'api', ...settings })
  let stopping: Promise<void> | undefined
  const stopNow = () => {
    stopping ??= made.stop()
    return stopping
  }
  cleanups.push(stopNow)
  return { ...made, stopNow }
}

const hex = (digits: number) =>
  Array.from({ length: digits }, () => Math.floor(Math.random() * 16).toString(16)).join('')
const newParent = (flags = '01') => {
  const [traceId, spanId] = [`a${hex(31)}`, `b${hex(15)}`]
  return { traceId, spanId, header: `00-${traceId}-${spanId}-${flags}` }
}
const rootOf = (traceId: string) => (span: CollectedSpan) => span.kind === SERVER && span.traceId === traceId

/** One traced call: its answer, and its spans. */
async function traced(tenant: Tenant, method: string, path: string, body?: unknown, more: Record<string, string> = {}) {
  const parent = newParent()
  const headers = { traceparent: parent.header, ...more }
  const reply = await tenant.call(method, path, { headers, ...(body === undefined ? {} : { body }) })
  const spans = await collector.trace(`${method} ${path}`, rootOf(parent.traceId))
  const root = spans.find(rootOf(parent.traceId)) as CollectedSpan
  return { reply, parent, spans, root }
}

const dropped = async (of: Service) =>
  Number(
    /^\w+ (\S+)$/m.exec(
      await of.deps.metrics.registry.getSingleMetricAsString('halfkey_trace_spans_dropped_total'),
    )?.[1],
  )

describe('the trace of a request', () => {
  test('is a tree: the request, its transaction, the statements in it, each within its parent', async () => {
    const tenant = await service.newTenant()
    const { reply, parent, spans, root } = await traced(
      tenant,
      'POST',
      '/users',
      { name: 'Ada' },
      { 'idempotency-key': 'once' },
    )
    expect(reply.status).toBe(201)
    expect(root).toMatchObject({ name: 'POST /v1/users', kind: SERVER, parentSpanId: parent.spanId })
    expect(root.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/v1/users',
      'http.response.status_code': 201,
      'halfkey.tenant.id': tenant.tenantId,
    })
    const byId = new Map(spans.map((span) => [span.spanId, span]))
    expect(byId.size).toBe(spans.length)
    for (const span of spans) {
      if (span === root) continue
      const above = byId.get(span.parentSpanId ?? '') as CollectedSpan
      expect(above, span.name).toBeDefined()
      expect(span.startNanos).toBeGreaterThanOrEqual(above.startNanos)
      // The answer may go out before the last of it is over: what follows a commit belongs to nobody who waits.
      if (above !== root) expect(span.endNanos).toBeLessThanOrEqual(above.endNanos)
    }
    const transaction = spans.find(({ name }) => name === 'transaction') as CollectedSpan
    expect(transaction).toMatchObject({ kind: INTERNAL, parentSpanId: root.spanId })
    const insert = spans.find(({ name }) => name === 'insert users') as CollectedSpan
    expect(insert).toMatchObject({ kind: CLIENT, parentSpanId: transaction.spanId })
    expect(insert.attributes).toEqual({
      'db.system.name': 'postgresql',
      'db.query.text': expect.stringMatching(/insert into users \(.*\$\d+/),
    })
  })

  test('goes to /v1/traces as JSON, says who made it, and is in the line of the log', async () => {
    const tenant = await service.newTenant()
    const { parent } = await traced(tenant, 'GET', '/tenant')
    expect(new Set(collector.requests.map(({ path, contentType }) => `${path} ${contentType}`))).toEqual(
      new Set(['/v1/traces application/json']),
    )
    expect(collector.text()).toContain('{"key":"service.name","value":{"stringValue":"halfkey"}}')
    const line = await eventually('the line', async () =>
      service
        .logs()
        .split('\n')
        .find((each) => each.includes(parent.traceId)),
    )
    expect(JSON.parse(line)).toMatchObject({ msg: 'request', traceId: parent.traceId, route: '/v1/tenant' })
  })

  test('20 at once keep to themselves', async () => {
    const tenant = await service.newTenant()
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, n) => traced(tenant, 'POST', '/users', { name: `${n}` })),
    )
    const shapes = all.map(({ spans, root }) => {
      expect(spans.filter(({ kind }) => kind === SERVER)).toEqual([root])
      return spans.filter(({ name }) => name === 'insert users').length
    })
    expect(shapes).toEqual(all.map(() => 1))
  })

  test('marks what failed, without a word of what the caller sent; a refusal is no failure', async () => {
    const own = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
    await own.sql('alter table users rename to users_gone')
    const broken = newParent()
    const failed = await own.admin.get('/users?search=hidden-text', { headers: { traceparent: broken.header } })
    expectError(failed, 500, 'internal_error')
    const spans = await collector.trace('the failure', rootOf(broken.traceId))
    const root = spans.find(rootOf(broken.traceId)) as CollectedSpan
    expect(root).toMatchObject({ status: ERROR, attributes: { 'error.type': '500', 'http.response.status_code': 500 } })
    expect(spans.find(({ attributes }) => attributes['error.type'] === '42P01')).toMatchObject({ status: ERROR })
    expect(collector.text()).not.toContain('hidden-text')
    const refused = await traced(await service.newTenant(), 'GET', '/users/none')
    expectError(refused.reply, 404, 'not_found')
    expect(refused.root.status).not.toBe(ERROR)
    expect(refused.root.attributes['http.response.status_code']).toBe(404)
  })

  test('holds no key, token, code, email, body, path or query of anybody', async () => {
    const tenant = await service.newTenant()
    const publishable = await tenant.newKey({ publishable: true })
    const seen: string[] = [tenant.key, publishable]
    const headers = { 'user-agent': 'agent-with-ada@example.org', 'x-request-id': 'request-of-ada@example.org' }
    const created = await traced(
      tenant,
      'POST',
      '/users',
      { email: 'ada@example.org', name: 'Ada Lovelace', metadata: { note: 'very private' } },
      { ...headers, 'idempotency-key': 'idempotent-ada' },
    )
    const userId = created.reply.body.data.id
    const guest = await traced(tenant, 'POST', '/guests', {})
    const { accessToken, refreshToken } = guest.reply.body.data
    seen.push(accessToken, refreshToken, userId, created.reply.body.data.partyId)
    await tenant.get(`/users/${userId}?`)
    await tenant.get('/users?search=ada%40example.org')
    await tenant.get('/users?nonsense=private-parameter')
    await tenant.get('/private-path/ada@example.org')
    await tenant.post('/users', { email: 'ADA@example.org' })
    await tenant.post('/auth/refresh', { refreshToken })
    await tenant.post('/mfa/setup', {}, { headers: { 'x-user-id': userId } })
    await tenant.post('/webhooks', {
      url: 'https://user-token.example.com/hook?secret=s3cr3t',
      events: ['*'],
    })
    const wrongKey = newParent()
    await call(service.url, 'GET', '/v1/users', { key: `${tenant.key}x`, headers: { traceparent: wrongKey.header } })
    const strange = await collector.trace('an unknown key', rootOf(wrongKey.traceId))
    expect(strange.at(0)?.attributes['http.response.status_code']).toBe(401)
    seen.push(
      'ada@example.org',
      'ADA@',
      'Lovelace',
      'very private',
      'idempotent-ada',
      'private-p',
      'agent-with',
      'nonsense',
    )
    seen.push('user-token', 's3cr3t', '127.0.0.1')
    const text = collector.text()
    for (const each of seen) expect(text.includes(each), each).toBe(false)
    expect(text).not.toMatch(/hk_(sk|pk|rt)_|whsec_|eyJ|otpauth/)
  })
})

describe('whether there is a trace', () => {
  test('is the caller’s to say, if it says it properly; else the ratio’s', async () => {
    const never = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_TRACES_SAMPLER_ARG: '0' })
    const [yes, later, no] = [newParent(), newParent(), newParent('00')]
    const ask = (traceparent: string) => never.admin.get('/tenant', { headers: { traceparent } })
    const malformed = [
      '',
      'x',
      yes.header.toUpperCase(),
      `${yes.header}-more`,
      yes.header.replace(/^00/, 'ff'),
      `00-${'0'.repeat(32)}-${yes.spanId}-01`,
      `00-${hex(32)}-${'0'.repeat(16)}-01`,
      `00-${hex(31)}-${yes.spanId}-01`,
      `${yes.header}, ${later.header}`,
    ]
    for (const header of [no.header, ...malformed]) expect((await ask(header)).status).toBe(200)
    await never.admin.get('/tenant')
    await ask(`01-${later.traceId}-${later.spanId}-03-what-comes-later`)
    await ask(yes.header)
    await collector.trace('the one of a later version', rootOf(later.traceId))
    await collector.trace('the one that was asked for', rootOf(yes.traceId))
    const { tenantId } = never.admin
    await never.stopNow()
    const roots = collector.spans.filter(
      ({ kind, attributes }) => kind === SERVER && attributes['halfkey.tenant.id'] === tenantId,
    )
    expect(roots.map(({ traceId }) => traceId).sort()).toEqual([later.traceId, yes.traceId].sort())
    // With the whole ratio, a caller that wants none has none, and a malformed one is as if there were none.
    const tenant = await service.newTenant()
    await tenant.get('/tenant', { headers: { traceparent: newParent('00').header } })
    for (const traceparent of malformed) await tenant.get('/tenant', { headers: { traceparent } })
    const own = () =>
      collector.spans.filter(
        ({ kind, attributes }) => kind === SERVER && attributes['halfkey.tenant.id'] === tenant.tenantId,
      )
    await eventually('one for each malformed', async () => own().length === malformed.length)
    expect(own().every(({ parentSpanId }) => parentSpanId === undefined)).toBe(true)
  })

  test('strangers who ask for traces get a few, not all', async () => {
    const own = await newCollector()
    const never = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: own.url, OTEL_TRACES_SAMPLER_ARG: '0' })
    const startedAt = performance.now()
    for (let n = 0; n < 20; n += 1)
      await Promise.all(
        Array.from({ length: 20 }, () =>
          call(never.url, 'GET', '/v1/tenant', { headers: { traceparent: newParent().header } }),
        ),
      )
    const seconds = (performance.now() - startedAt) / 1000
    await never.stopNow()
    expect(own.spans.length).toBeGreaterThanOrEqual(100)
    expect(own.spans.length).toBeLessThanOrEqual(101 + Math.ceil(seconds * 50))
  })

  test('probes have none', async () => {
    const own = await newCollector()
    const always = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: own.url })
    for (const path of ['/healthz', '/readyz', '/metrics']) await call(always.url, 'GET', path)
    await always.admin.get('/healthz')
    await always.stopNow()
    expect(own.spans.filter(({ kind }) => kind === SERVER).map(({ name }) => name)).toEqual(['GET /v1/healthz'])
  })
})

describe('an attempt of a delivery', () => {
  const attemptsOf = (webhookId: string) =>
    collector.spans.filter(
      ({ name, attributes }) => name === 'webhook delivery' && attributes['halfkey.webhook.id'] === webhookId,
    )

  test('is part of the trace that caused the event, by ids alone, and tells the receiver its place in it', async () => {
    const receiver = await startReceiver(answer(500))
    cleanups.push(() => receiver.close())
    const tenant = await service.newTenant()
    const url = `${receiver.url}/hook?secret=in-the-url`
    const webhook = (await tenant.post('/webhooks', { url, events: ['user.created'] })).body.data
    const { parent, root } = await traced(tenant, 'POST', '/users', { email: 'grace@example.org' })
    const [delivery] = await receiver.count('the delivery', 1)
    // A retry that is asked for while the first attempt is still under way asks for nothing.
    const [waiting] = await deliveriesIn(tenant, webhook.id, 'retrying')
    await tenant.post(`/webhooks/${webhook.id}/deliveries/${waiting.id}/retry`)
    const [, retry] = await receiver.count('the retry', 2)
    await eventually('both attempts', async () => attemptsOf(webhook.id).length === 2)
    const [first, second] = attemptsOf(webhook.id) as [CollectedSpan, CollectedSpan]
    for (const span of [first, second])
      expect(span).toMatchObject({ kind: CLIENT, status: ERROR, traceId: parent.traceId, parentSpanId: root.spanId })
    const shown = [delivery, retry].map((got) => got?.headers.traceparent).sort()
    expect(shown).toEqual([first, second].map(({ spanId }) => `00-${parent.traceId}-${spanId}-01`).sort())
    expect(first.attributes).toMatchObject({
      'halfkey.tenant.id': tenant.tenantId,
      'halfkey.event.type': 'user.created',
      'halfkey.delivery.attempt': 1,
      'http.response.status_code': 500,
    })
    for (const secret of [webhook.secret, 'in-the-url', receiver.url, 'grace@example.org'])
      expect(collector.text()).not.toContain(secret)
  })

  test('is not recorded if the caller’s trace is not, and the receiver is told so', async () => {
    const receiver = await startReceiver()
    cleanups.push(() => receiver.close())
    const tenant = await service.newTenant()
    const webhook = (await tenant.post('/webhooks', { url: receiver.url, events: ['user.created'] })).body.data
    const parent = newParent('00')
    await tenant.post('/users', {}, { headers: { traceparent: parent.header } })
    const [got] = await receiver.count('the delivery', 1)
    expect(got?.headers.traceparent).toMatch(new RegExp(`^00-${parent.traceId}-(?!${parent.spanId})[0-9a-f]{16}-00$`))
    await traced(tenant, 'GET', '/tenant')
    expect(attemptsOf(webhook.id)).toEqual([])
  })

  test('goes on with a caller’s trace where nothing is traced, and has none where none is known', async () => {
    const plain = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
    cleanups.push(() => plain.stop())
    const receiver = await startReceiver()
    cleanups.push(() => receiver.close())
    const tenant = await plain.newTenant()
    await tenant.post('/webhooks', { url: receiver.url, events: ['user.created'] })
    const parent = newParent()
    const spans = new Set([parent.spanId])
    for (let n = 1; n <= 2; n += 1) {
      await tenant.post('/users', {}, { headers: { traceparent: parent.header } })
      const got = (await receiver.count('a delivery', n)).at(-1)
      const [version, traceId, spanId = '', flags] = got?.headers.traceparent?.split('-') ?? []
      expect([version, traceId, flags]).toEqual(['00', parent.traceId, '01'])
      expect(spans.has(spanId)).toBe(false)
      spans.add(spanId)
    }
    const malformed = [{ traceparent: '00-nonsense-01' }, { traceparent: `${parent.header}-more` }]
    for (const headers of [{}, ...malformed] as Record<string, string>[]) {
      const before = receiver.received.length
      await tenant.post('/users', {}, { headers })
      const got = (await receiver.count('a delivery', before + 1)).at(-1)
      expect(got?.headers).not.toHaveProperty('traceparent')
    }
  })
})

describe('a collector that is away', () => {
  test.each([
    ['refuses', 'http://127.0.0.1:9', undefined],
    ['says nothing', undefined, 0],
    ['fails', undefined, 503],
    ['refuses what it gets', undefined, 400],
  ] as const)(
    'harms nobody when it %s: spans are counted and dropped, and the service stops',
    async (_, url, status) => {
      const own = await newCollector()
      if (status !== undefined) own.answer(status)
      const lonely = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: url ?? own.url })
      for (let n = 0; n < 10; n += 1) {
        const answers = await Promise.all(Array.from({ length: 20 }, () => lonely.admin.post('/users', {})))
        expect(new Set(answers.map((each) => each.status))).toEqual(new Set([201]))
      }
      await eventually('spans are given up', async () => (await dropped(lonely)) > 0)
      await lonely.stopNow()
    },
  )

  test('what waits at the end is sent before the service stops', async () => {
    const own = await newCollector()
    const brief = await newService({ OTEL_EXPORTER_OTLP_ENDPOINT: `${own.url}/`, OTEL_TRACES_SAMPLER_ARG: '1' })
    await brief.admin.get('/tenant')
    await brief.stopNow()
    expect(own.spans.filter(({ kind }) => kind === SERVER).length).toBe(1)
    expect(await dropped(brief)).toBe(0)
  })
})

describe('as a process', () => {
  /** Writes every module that is resolved to standard error. */
  const TELL_MODULES = `data:text/javascript,import { registerHooks } from 'node:module'; registerHooks({ resolve(name, context, next) { process.stderr.write('loads ' + name + '\\n'); return next(name, context) } })`

  test('without an endpoint and without a Redis nothing of either is even loaded', async () => {
    const [database, folder] = [await newDatabase(), new DataFolder()]
    cleanups.push(
      () => database.drop(),
      () => folder.remove(),
    )
    const loaded = async (settings: Record<string, string>) => {
      const env = folder.env({ DATABASE_URL: database.url, HALFKEY_RATE_LIMITS: 'on', ...settings })
      const run = await startProcess({ cwd: folder.path, env, nodeArgs: ['--import', TELL_MODULES] })
      expect((await call(run.url, 'GET', '/v1/tenant')).status).toBe(401)
      expect((await run.stop()).code).toBe(0)
      // The metrics' library takes in OpenTelemetry's interfaces by itself; they do nothing.
      return run.stderr
        .split('\n')
        .filter((line) => /opentelemetry|redis\b|rate-limiter/.test(line) && !line.endsWith('/api'))
    }
    expect(await loaded({})).toEqual([])
    const both = await loaded({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', REDIS_URL: 'redis://127.0.0.1:9' })
    for (const name of ['@opentelemetry/sdk-trace', '@redis/client']) expect(both).toContain(`loads ${name}`)
  })

  test('no proxy of the environment gets to see a span, and the collector gets the headers that it needs', async () => {
    const proxied: string[] = []
    const proxy = createServer((request, response) => {
      proxied.push(request.url ?? '')
      response.writeHead(502).end()
    })
    proxy.on('connect', (request, socket) => {
      proxied.push(request.url ?? '')
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const through = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const [own, database, folder] = [await newCollector(), await newDatabase(), new DataFolder()]
    cleanups.push(
      () => new Promise((resolve) => proxy.close(resolve)),
      () => database.drop(),
      () => folder.remove(),
    )
    const env = folder.env({
      DATABASE_URL: database.url,
      OTEL_EXPORTER_OTLP_ENDPOINT: own.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20of-the-collector',
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: through,
      http_proxy: through,
      HTTPS_PROXY: through,
      ALL_PROXY: through,
    })
    const run = await startProcess({ cwd: folder.path, env })
    await call(run.url, 'GET', '/v1/tenant')
    await run.stop()
    expect(own.spans.some(({ name }) => name === 'GET /v1/tenant')).toBe(true)
    expect(own.requests[0]?.headers.authorization).toBe('Bearer of-the-collector')
    expect(proxied).toEqual([])
  })
})
