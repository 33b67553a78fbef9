import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get, type IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { routes } from '../../src/app.ts'
import { expectError } from '../harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../harness/harness.ts'
import { NOWHERE } from '../matrix/bodies.ts'

const PUBLIC_URL = 'https://id.example.com'
const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))
const kekFile = join(folder, 'kek.key')

let service: Service
let production: Service
beforeAll(async () => {
  writeFileSync(kekFile, randomBytes(32).toString('base64'), { mode: 0o600 })
  service = await startService({ HALFKEY_PUBLIC_URL: `${PUBLIC_URL}/` })
  production = await startService({
    HALFKEY_ENV: 'production',
    HALFKEY_KEK_FILE: kekFile,
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_PUBLIC_URL: PUBLIC_URL,
  })
})
afterAll(async () => {
  await service.stop()
  await production.stop()
  rmSync(folder, { recursive: true })
})

const words = (answer: Answer, header: string) =>
  answer.headers
    .get(header)
    ?.toLowerCase()
    .split(/\s*,\s*/) ?? []

describe('a preflight request', () => {
  const preflight = (path: string, origin = 'https://shop.example') =>
    call(service.url, 'OPTIONS', path, {
      headers: {
        origin,
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'x-api-key, content-type',
      },
    })

  test('needs no key and is answered for any origin and path below /v1', async () => {
    const paths = [
      ...new Set(routes.map((route) => `/v1${route.path.replace(/:\w+/g, 'none')}`)),
      '/v1/nothing',
      '/v1/users/%zz',
      '/v1',
    ]
    for (const path of paths) {
      const answer = await preflight(path)
      expect([answer.status, answer.text], path).toEqual([200, ''])
      expect(answer.headers.get('access-control-allow-origin')).toBe('https://shop.example')
      expect(words(answer, 'vary')).toContain('origin')
      expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
      expect(words(answer, 'access-control-allow-methods')).toEqual(
        expect.arrayContaining(['get', 'post', 'patch', 'delete']),
      )
      expect(words(answer, 'access-control-allow-headers')).toEqual(
        expect.arrayContaining([
          'x-api-key',
          'authorization',
          'content-type',
          'dpop',
          'idempotency-key',
          'x-request-id',
          'x-user-id',
        ]),
      )
      expect(answer.headers.get('x-request-id')).toMatch(/\S/)
    }
  })

  test('outside /v1 is an unknown route', async () => {
    for (const path of ['/healthz', '/openapi.json', '/nothing']) {
      const answer = await preflight(path)
      expect([answer.status, answer.headers.get('access-control-allow-origin')], path).toEqual([404, null])
    }
  })
})

test('every answer under /v1, failures too, is readable for the origin that asked, and exposes our headers', async () => {
  const tenant = await service.newTenant()
  const headers = { origin: 'https://shop.example' }
  const answers = [
    await tenant.get('/tenant', { headers }),
    await tenant.get('/nothing', { headers }),
    await tenant.get('/tenant', { key: null, headers }),
    await tenant.get('/users?page=0', { headers }),
    await tenant.get('/users/%zz', { headers }),
    await tenant.post('/users', undefined, { raw: '{', headers }),
    await tenant.get('/healthz', { key: await tenant.newKey({ publishable: true }), headers }),
  ]
  expect(answers.map((answer) => answer.status)).toEqual([200, 404, 401, 400, 400, 400, 403])
  for (const answer of answers) {
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://shop.example')
    expect(words(answer, 'vary')).toContain('origin')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    expect(words(answer, 'access-control-expose-headers').sort()).toEqual([
      'idempotency-replayed',
      'ratelimit',
      'ratelimit-policy',
      'retry-after',
      'www-authenticate',
      'x-request-id',
    ])
  }
  const without = await tenant.get('/tenant')
  expect([without.headers.get('access-control-allow-origin'), words(without, 'vary')]).toEqual([null, ['origin']])
})

describe('the origin of a call with a publishable key', () => {
  const health = (tenant: Tenant, key: string, origin: string) => tenant.get('/healthz', { key, headers: { origin } })
  const loopback = ['http://localhost:3000', 'https://localhost', 'http://127.0.0.1:5173', 'http://[::1]:8080']
  const foreign = [
    'https://evil.example',
    'http://localhost.evil.example',
    'http://evil.example:3000',
    'https://127.0.0.1.evil.example',
    'http://127.0.0.1@evil.example',
    'null',
    'file://',
    'chrome-extension://abc',
    '',
    `${PUBLIC_URL}:8443`,
    'http://id.example.com',
    `${PUBLIC_URL}.evil.example`,
  ]

  test('may be loopback in development while the app allows none, and the public URL always', async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    for (const origin of [...loopback, PUBLIC_URL]) expect((await health(tenant, key, origin)).status, origin).toBe(200)
    for (const origin of foreign) expectError(await health(tenant, key, origin), 403, 'origin_not_allowed', origin)
    expect((await tenant.get('/healthz', { key })).status).toBe(200)
  })

  test('must be in the list of the app once there is one, from the next call on', async () => {
    const tenant = await service.newTenant()
    const key = await tenant.newKey({ publishable: true })
    const allowedOrigins = ['https://shop.example', 'http://localhost:3000']
    expect((await health(tenant, key, 'http://127.0.0.1:5173')).status).toBe(200)
    await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins })
    for (const origin of [...allowedOrigins, PUBLIC_URL])
      expect((await health(tenant, key, origin)).status, origin).toBe(200)
    for (const origin of [
      'http://127.0.0.1:5173',
      'https://localhost',
      'https://SHOP.example',
      'https://shop.example:443',
      'https://a.shop.example',
      'https://shop.example/',
      ...foreign,
    ])
      expectError(await health(tenant, key, origin), 403, 'origin_not_allowed', origin)
    await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: ['https://other.example'] })
    expectError(await health(tenant, key, 'https://shop.example'), 403, 'origin_not_allowed')
  })

  test("is checked against the key's own app, not another one of the tenant", async () => {
    const tenant = await service.newTenant()
    const app = await tenant.post('/apps', { name: 'Other', allowedOrigins: ['https://other.example'] })
    await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: ['https://shop.example'] })
    const own = await tenant.newKey({ publishable: true })
    const other = await tenant.newKey({ publishable: true, appId: app.body.data.id })
    expect((await health(tenant, own, 'https://shop.example')).status).toBe(200)
    expect((await health(tenant, other, 'https://other.example')).status).toBe(200)
    expectError(await health(tenant, own, 'https://other.example'), 403, 'origin_not_allowed')
    expectError(await health(tenant, other, 'https://shop.example'), 403, 'origin_not_allowed')
  })

  test('is no concern of a secret key', async () => {
    const tenant = await service.newTenant()
    for (const origin of foreign) expect((await health(tenant, tenant.key, origin)).status, origin).toBe(200)
  })

  test('may not be loopback in production unless the list has it', async () => {
    const tenant = await production.newTenant()
    const key = await tenant.newKey({ publishable: true })
    for (const origin of [...loopback, ...foreign])
      expectError(await health(tenant, key, origin), 403, 'origin_not_allowed', origin)
    expect((await health(tenant, key, PUBLIC_URL)).status).toBe(200)
    await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: ['https://shop.example'] })
    expect((await health(tenant, key, 'https://shop.example')).status).toBe(200)
  })
})

test('an answer with a secret is not to be cached, one without carries no secret', async () => {
  const tenant = await service.newTenant()
  const key = await tenant.post('/api-keys', { name: 'Backend', type: 'secret', scopes: ['users:read'] })
  const webhook = await tenant.post('/webhooks', { url: NOWHERE, events: ['*'] })
  const secret = [
    key,
    webhook,
    await tenant.post(`/api-keys/${key.body.data.id}/rotate`, {}),
    await tenant.post(`/webhooks/${webhook.body.data.id}/rotate`, {}),
  ]
  for (const answer of secret) {
    expect(answer.text).toMatch(/"(key|secret)":"(hk_sk_|whsec_)/)
    expect(answer.headers.get('cache-control')).toBe('no-store')
  }
  for (const path of [
    '/api-keys',
    `/api-keys/${key.body.data.id}`,
    '/webhooks',
    `/webhooks/${webhook.body.data.id}`,
    '/apps',
    '/tenant',
  ])
    expect((await tenant.get(path)).text, path).not.toMatch(/hk_[sp]k_\w{20}|whsec_|"secret":|"key":/)
})

test('the API reference is a page of our own that loads nothing from others and may be framed by nobody', async () => {
  const page = await fetch(`${service.url}/docs/api`)
  expect(page.status).toBe(200)
  expect(page.headers.get('content-type')).toContain('text/html')
  expect(page.headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
  const html = await page.text()
  expect(html).toContain('/openapi.json')
  for (const [, url] of html.matchAll(/<(?:script|link|img)[^>]*\s(?:src|href)="([^"]+)"/g)) {
    expect(url).not.toMatch(/^(https?:)?\/\//)
    expect((await fetch(new URL(url as string, page.url))).status, url).toBe(200)
  }
})

/** A response as it is on the wire: `fetch` would decompress it. */
function raw(url: URL | string, headers: Record<string, string>) {
  return new Promise<{ status: number; headers: IncomingHttpHeaders; bytes: number }>((resolve, reject) => {
    get(url, { headers }, (response) => {
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes }))
    }).on('error', reject)
  })
}

test('the script of the API reference is under 1 MB on the wire, and a browser asks for it once', async () => {
  const page = await fetch(`${service.url}/docs/api`)
  const [, src] = /<script src="([^"]*scalar\.js[^"]*)"/.exec(await page.text()) ?? []
  const url = new URL(src as string, page.url)
  expect(url.search).toMatch(/^\?v=/)
  const small = await raw(url, { 'accept-encoding': 'gzip, deflate, br' })
  expect(small.headers).toMatchObject({
    'content-encoding': 'br',
    'cache-control': 'public, max-age=31536000, immutable',
  })
  expect(small.bytes).toBeLessThan(1_000_000)
  const { etag = '' } = small.headers
  expect((await raw(url, { 'if-none-match': etag })).status).toBe(304)
  expect((await raw(url, { 'accept-encoding': 'gzip' })).headers['content-encoding']).toBe('gzip')
  const plain = await raw(url, { 'accept-encoding': 'br;q=0' })
  expect([plain.headers['content-encoding'], plain.bytes > small.bytes]).toEqual([undefined, true])
  const description = await raw(`${service.url}/openapi.json`, { 'accept-encoding': 'br' })
  expect(description.bytes).toBeLessThan(200_000)
  expect((await raw(`${service.url}/openapi.json`, { 'if-none-match': String(description.headers.etag) })).status).toBe(
    304,
  )
})
