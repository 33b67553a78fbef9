import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { startService } from '../../../test/harness/harness.ts'
import { startReceiver as startHook } from '../../../test/harness/receiver.ts'
import { kinds } from '../settings.ts'
import { makeAuthority } from './certificates.fixture.ts'
import { createEgress, type Egress, type EgressOptions } from './egress.ts'
import { startRawReceiver, startReceiver } from './receivers.fixture.ts'

interface Asked {
  authority: string
  headers: IncomingHttpHeaders
}

const cleanups: (() => Promise<unknown>)[] = []
let dns: DnsServer

beforeEach(async () => {
  dns = await startDnsServer()
  cleanups.push(() => dns.close())
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const authority = makeAuthority('Test root')

/** A forward proxy that only makes tunnels. `lead` says where one ends, or which status refuses it. */
async function startProxy(lead: (asked: Asked) => { port: number } | { status: number }) {
  const asked: Asked[] = []
  const sockets = new Set<Socket>()
  const server = createServer((_, response) => response.writeHead(405).end())
  server.on('connection', (socket) => sockets.add(socket))
  server.on('connect', ({ url = '', headers }, socket: Socket) => {
    const one = { authority: url, headers }
    asked.push(one)
    socket.on('error', () => {})
    const led = lead(one)
    if ('status' in led) {
      socket.end(`HTTP/1.1 ${led.status} Inside\r\nX-Inside: 10.9.9.9\r\n\r\nsecret inside`)
      return
    }
    const target = connect(led.port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      target.pipe(socket).pipe(target)
    })
    target.on('error', () => socket.destroy())
    sockets.add(target)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { url: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

function guard(proxyUrl: string, options: Partial<EgressOptions> = {}): Egress {
  const proxy = kinds.proxy(`http://${proxyUrl}`)
  const base = { allow: [], allowLoopback: false, dnsServers: [dns.address], ca: authority.ca, proxy }
  const egress = createEgress({ ...base, ...options })
  cleanups.push(() => egress.close())
  return egress
}

async function receiver(options: Parameters<typeof startReceiver>[0] = {}) {
  const started = await startReceiver(options)
  cleanups.push(() => started.close())
  return started
}

const post = (egress: Egress, url: string, timeoutMs = 10_000) =>
  egress.post({ url, headers: { 'content-type': 'application/json' }, body: '{"a":1}', timeoutMs })

describe('through a forward proxy', () => {
  test('the tunnel leads to the checked address, while SNI, certificate and Host keep the name', async () => {
    const secure = await receiver({ tls: authority.issue(['hooks.test']) })
    const proxy = await startProxy(() => ({ port: secure.port }))
    dns.set('hooks.test', [{ type: 'A', address: '93.184.215.14' }])
    const egress = guard(`us%40er:p%3Aw@${proxy.url}`)
    for (const path of ['/first', '/second'])
      expect(await post(egress, `https://hooks.test${path}`)).toMatchObject({ ok: true, responseSnippet: 'received' })
    // One tunnel, kept alive.
    expect(proxy.asked.map((each) => each.authority)).toEqual(['93.184.215.14:443'])
    expect(proxy.asked[0]?.headers['proxy-authorization']).toBe(`Basic ${Buffer.from('us@er:p:w').toString('base64')}`)
    expect(secure.received.map((got) => [got.path, got.servername, got.headers.host])).toEqual([
      ['/first', 'hooks.test', 'hooks.test'],
      ['/second', 'hooks.test', 'hooks.test'],
    ])
    expect(secure.received[0]?.headers).not.toHaveProperty('proxy-authorization')
  })

  test('plain http goes through a tunnel as well, and an IPv6 address is written in brackets', async () => {
    const plain = await receiver()
    const proxy = await startProxy(() => ({ port: plain.port }))
    const egress = guard(proxy.url, { allow: ['10.1.0.0/16', 'fd12::/16'] })
    expect(await post(egress, 'http://10.1.2.3:8080/in')).toMatchObject({ ok: true })
    expect(await post(egress, 'http://[fd12::1]/in')).toMatchObject({ ok: true })
    expect(proxy.asked.map((each) => each.authority)).toEqual(['10.1.2.3:8080', '[fd12::1]:80'])
    expect(plain.received[0]?.headers.host).toBe('10.1.2.3:8080')
    expect(proxy.asked[0]?.headers).not.toHaveProperty('proxy-authorization')
  })

  test('the guard decides before the proxy is asked, also if that would lead inside', async () => {
    const inside = await receiver()
    const proxy = await startProxy(() => ({ port: inside.port }))
    dns.set('private.test', [{ type: 'A', address: '10.0.0.1' }])
    dns.set('mixed.test', [
      { type: 'A', address: '93.184.215.14' },
      { type: 'A', address: '127.0.0.1' },
    ])
    for (const host of ['10.0.0.1', '127.0.0.1', '169.254.169.254', '[::1]', 'private.test', 'mixed.test', 'localhost'])
      expect((await post(guard(proxy.url), `https://${host}/`)).error).toMatch(/^blocked/)
    expect([proxy.asked, inside.received]).toEqual([[], []])
  })

  test.each([403, 407, 502, 302])(
    'a proxy that answers %i is a failed attempt that tells nothing of it',
    async (status) => {
      const proxy = await startProxy(() => ({ status }))
      const result = await post(guard(proxy.url), 'https://93.184.215.14/')
      expect(result).toMatchObject({ ok: false, statusCode: null, error: 'the proxy refused', responseSnippet: null })
    },
  )

  test('an address that the proxy refuses is followed by the next checked one', async () => {
    const secure = await receiver({ tls: authority.issue(['two.test']) })
    const proxy = await startProxy((asked) =>
      asked.authority.startsWith('1.1.1.1:') ? { status: 502 } : { port: secure.port },
    )
    dns.set('two.test', [
      { type: 'A', address: '1.1.1.1' },
      { type: 'A', address: '1.1.1.2' },
    ])
    expect(await post(guard(proxy.url), 'https://two.test/')).toMatchObject({ ok: true })
  })

  test('a proxy that is away, says nothing, or speaks something else fails the attempt in time', async () => {
    const gone = await startRawReceiver(() => {})
    await gone.close()
    const silent = await startRawReceiver((socket) => socket.resume())
    const other = await startRawReceiver((socket) => socket.end('220 mail.test ESMTP\r\n'))
    cleanups.push(
      () => silent.close(),
      () => other.close(),
    )
    const errorBy = async (port: number, timeoutMs?: number) =>
      (await post(guard(`127.0.0.1:${port}`), 'https://1.1.1.1/', timeoutMs)).error
    expect(await errorBy(gone.port)).toBe('the proxy is unreachable')
    expect(await errorBy(silent.port, 500)).toBe('timeout')
    expect(await errorBy(other.port)).toBe('the proxy is unreachable')
    await expect.poll(() => silent.sockets.size).toBe(0)
  })
})

describe('through a proxy that resolves names', () => {
  const options = { proxyResolves: true, dnsServers: ['127.0.0.1:9'] }

  test('the name goes to the proxy, and nobody here asks for its addresses', async () => {
    const secure = await receiver({ tls: authority.issue(['only-the-proxy-knows.test']) })
    const proxy = await startProxy(() => ({ port: secure.port }))
    const egress = guard(proxy.url, options)
    await egress.assertAllowed('https://only-the-proxy-knows.test/')
    expect(await post(egress, 'https://only-the-proxy-knows.test:8443/')).toMatchObject({ ok: true })
    expect(proxy.asked.map((each) => each.authority)).toEqual(['only-the-proxy-knows.test:8443'])
    expect(secure.received[0]?.servername).toBe('only-the-proxy-knows.test')
  })

  test.each([
    'https://10.0.0.1/',
    'https://0x7f.1/',
    'https://[::1]/',
    'https://169.254.169.254/',
    'https://metadata.google.internal/',
    'https://metadata.google.internal./',
    'https://localhost/',
    'https://a.localhost./',
    'http://public.test/',
    'https://a:b@public.test/',
  ])('%s is still refused here', async (url) => {
    const proxy = await startProxy(() => ({ status: 200 }))
    const egress = guard(proxy.url, options)
    await expect(egress.assertAllowed(url)).rejects.toThrow()
    expect((await post(egress, url)).error).toMatch(/^blocked/)
    expect(proxy.asked).toEqual([])
  })
})

test('deliveries of a service with HALFKEY_EGRESS_PROXY go through it, and its password is in no log', async () => {
  const hook = await startHook()
  cleanups.push(() => hook.close())
  const proxy = await startProxy(() => ({ port: Number(new URL(hook.url).port) }))
  const service = await startService({ HALFKEY_EGRESS_PROXY: `http://halfkey:pr0xy-secret@${proxy.url}` })
  cleanups.push(() => service.stop())
  const made = await service.admin.post('/webhooks', { url: hook.url, events: ['user.created'] })
  const tested = await service.admin.post(`/webhooks/${made.body.data.id}/test`)
  expect(tested.body.data.status).toBe('succeeded')
  expect(proxy.asked.map((each) => each.authority)).toEqual([new URL(hook.url).host])
  expect(service.logs()).not.toContain('pr0xy-secret')
})
