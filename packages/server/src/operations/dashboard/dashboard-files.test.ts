import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService } from '../../../test/harness/harness.ts'
import { type RawAnswer, sendBytes } from '../../../test/harness/raw-http.ts'
import { createServer, type Server } from '../../platform/http/server.ts'
import { dashboardPages } from './routes.ts'

const SCRIPT = 'console.log("dashboard")\n'.repeat(100)
const PAGE = '<!doctype html><title>Dashboard</title><script type="module" src="/dashboard/assets/index-1.js"></script>'
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

let service: Service
let root: string
/** A server of the pages alone, which were built into a folder of the test's. */
let built: { url: string; server: Server }
beforeAll(async () => {
  service = await startService()
  root = mkdtempSync(join(tmpdir(), 'halfkey-dashboard-'))
  build(join(root, 'built'))
  built = await servePages(join(root, 'built'))
})
afterAll(async () => {
  await built.server.close()
  await service.stop()
  rmSync(root, { recursive: true })
})

function build(folder: string): void {
  mkdirSync(join(folder, 'assets'), { recursive: true })
  writeFileSync(join(folder, 'index.html'), PAGE)
  writeFileSync(join(folder, 'mark.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
  writeFileSync(join(folder, 'assets', 'index-1.js'), SCRIPT)
  writeFileSync(join(folder, 'assets', 'index-1.js.gz'), gzipSync(SCRIPT))
  writeFileSync(join(folder, 'assets', 'index-1.css'), 'body{}')
  writeFileSync(join(root, 'secret.txt'), 'secret')
}

async function servePages(folder: string): Promise<{ url: string; server: Server }> {
  const config = { ...service.deps.config }
  const server = await createServer({ ...service.deps, config }, [], dashboardPages(folder))
  const { port } = await server.listen('127.0.0.1', 0)
  config.port = port
  return { url: `http://127.0.0.1:${port}`, server }
}

/** As a browser under the public URL's name asks, and as the bytes come. */
async function get(path: string, headers: Record<string, string> = {}, url = built.url, method = 'GET') {
  const host = `localhost:${new URL(url).port}`
  const lines = Object.entries({ host, connection: 'close', ...headers }).map(([name, value]) => `${name}: ${value}`)
  const [answer] = await sendBytes(url, [`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`])
  return answer as RawAnswer
}

test('every view is the page, under the strictest policy that it can do with, and kept by nobody', async () => {
  for (const path of [
    '/dashboard',
    '/dashboard/',
    '/dashboard/users/usr_1?tab=wallet',
    '/dashboard/index.html',
    '/dashboard/a/b/c',
  ]) {
    const { status, headers, body } = await get(path)
    expect([status, body], path).toEqual([200, PAGE])
    expect(headers, path).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CSP,
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    })
    expect(headers['set-cookie']).toBeUndefined()
  }
})

test('what is built under a name of its own is kept for ever, and sent compressed to whoever takes it', async () => {
  const path = '/dashboard/assets/index-1.js'
  const plain = await get(path)
  expect([plain.status, plain.body]).toEqual([200, SCRIPT])
  expect(plain.headers).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    vary: 'Accept-Encoding',
  })
  expect(plain.headers['content-encoding']).toBeUndefined()
  for (const accepted of ['gzip', 'br, gzip;q=0.5', 'GZIP', 'deflate,gzip ; q=1']) {
    const { headers } = await get(path, { 'accept-encoding': accepted })
    expect([headers['content-encoding'], Number(headers['content-length'])], accepted).toEqual([
      'gzip',
      gzipSync(SCRIPT).length,
    ])
  }
  const zipped = await fetch(built.url + path, { headers: { 'accept-encoding': 'gzip' } })
  expect(await zipped.text()).toBe(SCRIPT)
  for (const refused of ['', 'br', 'gzip;q=0', 'gzip; q=0.0', 'xgzip'])
    expect((await get(path, { 'accept-encoding': refused })).headers['content-encoding'], refused).toBeUndefined()
  const style = await get('/dashboard/assets/index-1.css', { 'accept-encoding': 'gzip' })
  expect([style.headers['content-type'], style.body]).toEqual(['text/css; charset=utf-8', 'body{}'])
  const mark = await get('/dashboard/mark.svg')
  expect([mark.headers['content-type'], mark.headers['cache-control']]).toEqual(['image/svg+xml', 'no-cache'])
  const head = await get(path, {}, built.url, 'HEAD')
  expect([head.status, head.body, Number(head.headers['content-length'])]).toEqual([200, '', SCRIPT.length])
  expect(gunzipSync(gzipSync(SCRIPT)).toString()).toBe(SCRIPT)
})

test('nothing but what was built can be asked for', async () => {
  const outside = [
    '/dashboard/assets/..%2f..%2fsecret.txt',
    '/dashboard/assets/../../secret.txt',
    '/dashboard/assets/%2e%2e/%2e%2e/secret.txt',
    '/dashboard/assets/..\\..\\secret.txt',
    '/dashboard/assets//etc/passwd',
    '/dashboard/assets/%00',
    '/dashboard/assets/',
    '/dashboard/assets/index-1.js/',
    '/dashboard/assets/index-1.js.gz',
    '/dashboard/assets/index-2.js',
    '/dashboard/assets/__proto__',
    '/dashboard/assets/constructor',
    `/dashboard/assets/${'x'.repeat(10_000)}`,
  ]
  for (const path of outside) {
    const { status, body } = await get(path)
    expect([status, JSON.parse(body).code], path).toEqual([404, 'not_found'])
  }
  for (const path of [
    '/dashboard/../secret.txt',
    '/dashboard/..%2fsecret.txt',
    '/dashboard/%2e%2e/%2e%2e/etc/passwd',
    '/dashboard/__proto__',
  ]) {
    const { status, body } = await get(path)
    expect(body, path).not.toContain('secret\n')
    expect([status, body], path).toEqual([200, PAGE])
  }
  expect((await get('/dashboardx')).status).toBe(404)
  expect((await get('/dashboard/%zz')).status).toBe(400)
})

test('a folder that leads elsewhere, or holds folders, shows its own files alone', async () => {
  const folder = join(root, 'linked')
  mkdirSync(join(folder, 'assets', 'inner'), { recursive: true })
  writeFileSync(join(folder, 'index.html'), PAGE)
  symlinkSync(join(root, 'secret.txt'), join(folder, 'assets', 'link.txt'))
  const { url, server } = await servePages(folder)
  try {
    for (const path of ['link.txt', 'inner', 'inner/'])
      expect((await get(`/dashboard/assets/${path}`, {}, url)).status, path).toBe(404)
  } finally {
    await server.close()
  }
})

test('until it is built the page says how, and afterwards no restart is needed', async () => {
  const folder = join(root, 'later')
  const { url, server } = await servePages(folder)
  try {
    const { status, headers, body } = await get('/dashboard/users', {}, url)
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    expect(headers['content-security-policy']).toBe(CSP)
    expect(body).toContain('npm run build -w @halfkey/dashboard')
    expect((await get('/dashboard/assets/index-1.js', {}, url)).status).toBe(404)
    build(folder)
    expect((await get('/dashboard/users', {}, url)).body).toBe(PAGE)
    rmSync(folder, { recursive: true })
    expect((await get('/dashboard/assets/index-1.js', {}, url)).body).toBe(SCRIPT)
  } finally {
    await server.close()
  }
})

test('in development the page goes by the name that its links and cookie belong to; its files and calls stay', async () => {
  const { port } = new URL(built.url)
  for (const host of [`127.0.0.1:${port}`, `[::1]:${port}`, `app.localhost:${port}`, 'localhost']) {
    const { status, headers } = await get('/dashboard/users?page=2', { host })
    expect([status, headers.location], host).toEqual([302, `http://localhost:${port}/dashboard/users?page=2`])
    expect((await get('/dashboard/assets/index-1.js', { host })).status, host).toBe(200)
  }
  expect(JSON.parse((await get('/dashboard', { host: 'evil.example' })).body).details[0].code).toBe('wrong_host')
  const twice = await get('//evil.example/dashboard', { host: `127.0.0.1:${port}` })
  expect(twice.status).toBe(404)
})

test('the service itself serves it, and what calls for data gets no page', async () => {
  const page = await get('/dashboard', {}, service.url)
  expect([page.status, page.headers['content-security-policy']]).toEqual([200, CSP])
  for (const path of ['/dashboard/api', '/dashboard/api/', '/dashboard/api/nothing'])
    for (const method of ['GET', 'POST', 'DELETE'])
      expectError(await call(service.url, method, path), 404, 'not_found', `${method} ${path}`)
})
