// The guard's promise: what is reached is what was checked, at every send.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { makeAuthority } from './certificates.fixture.ts'
import { Connections } from './connections.ts'
import { createEgress, type Egress, type EgressOptions, EgressRefused } from './egress.ts'
import { type Receiver, startRawReceiver, startReceiver } from './receivers.fixture.ts'
import { HostResolver } from './resolver.ts'

const cleanups: (() => Promise<void>)[] = []
let dns: DnsServer

beforeEach(async () => {
  dns = await startDnsServer()
  cleanups.push(() => dns.close())
})
afterEach(async () => {
  vi.useRealTimers()
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function guard(options: Partial<EgressOptions> = {}): Egress {
  const egress = createEgress({ allow: [], allowLoopback: false, dnsServers: [dns.address], ...options })
  cleanups.push(() => egress.close())
  return egress
}

async function receiver(options: Parameters<typeof startReceiver>[0] = {}): Promise<Receiver> {
  const started = await startReceiver(options)
  cleanups.push(() => started.close())
  return started
}

/**
 * For two that end in an order, seconds apart: a machine that stands still for so long says nothing, so it is tried again.
 * @param isInOrder makes both, with names that no other round had
 */
async function unlessStill(isInOrder: (round: number) => Promise<boolean>): Promise<void> {
  for (let round = 1; !(await isInOrder(round)); round += 1) expect(round, 'rounds without the order').toBeLessThan(5)
}

function post(egress: Egress, url: string, timeoutMs = 10_000) {
  return egress.post({ url, headers: { 'content-type': 'application/json' }, body: '{"a":1}', timeoutMs })
}

const HOSTILE_URLS = [
  // schemes, forms, user-info
  '',
  'not a url',
  'https://',
  'http://example.com/',
  'ftp://example.com/',
  'file:///etc/passwd',
  'gopher://example.com/',
  'javascript:alert(1)',
  'data:text/plain,x',
  'ws://example.com/',
  'https://user@example.com/',
  'https://user:pw@example.com/',
  'https://:pw@example.com/',
  'https://example.com@10.0.0.1/',
  'https:10.0.0.1',
  'https:\\\\10.0.0.1\\',
  `https://example.com/${'a'.repeat(3_000)}`,
  // ports of other protocols
  'https://example.com:0/',
  'https://example.com:22/',
  'https://example.com:25/',
  'https://example.com:6667/',
  'https://example.com:10080/',
  // IPv4 in every notation
  'https://127.0.0.1/',
  'https://127.1/',
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0x7f.1/',
  'https://0177.0.0.1/',
  'https://017700000001/',
  'https://127.0.0.1./',
  'https://0/',
  'https://0.0.0.0/',
  'https://10.0.0.1/',
  'https://172.16.0.1/',
  'https://172.31.255.255/',
  'https://192.168.1.1/',
  'https://100.64.0.1/',
  'https://169.254.1.1/',
  'https://192.0.0.1/',
  'https://192.0.2.1/',
  'https://192.88.99.1/',
  'https://198.18.0.1/',
  'https://198.19.255.255/',
  'https://198.51.100.1/',
  'https://203.0.113.1/',
  'https://224.0.0.1/',
  'https://240.0.0.1/',
  'https://255.255.255.255/',
  'https://①②⑦.⓪.⓪.①/',
  'https://１２７.0.0.1/',
  'https://127。0。0。1/',
  'https://%31%32%37.0.0.1/',
  'https://127.0.0.\n1/',
  ' https://10.0.0.1/ ',
  'https://1.2.3.4.5/',
  'https://256.0.0.1/',
  // IPv6
  'https://[::1]/',
  'https://[::]/',
  'https://[0:0:0:0:0:0:0:1]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[::ffff:7f00:1]/',
  'https://[::ffff:8.8.8.8]/',
  'https://[::127.0.0.1]/',
  'https://[::8.8.8.8]/',
  'https://[::ffff:0:127.0.0.1]/',
  'https://[64:ff9b::7f00:1]/',
  'https://[64:ff9b::808:808]/',
  'https://[64:ff9b:1::808:808]/',
  'https://[2002:7f00:1::]/',
  'https://[2002:808:808::]/',
  'https://[2001::1]/',
  'https://[fe80::1]/',
  'https://[fe80::1%25eth0]/',
  'https://[fe80::1%eth0]/',
  'https://[fec0::1]/',
  'https://[fc00::1]/',
  'https://[fd12:3456::1]/',
  'https://[ff02::1]/',
  'https://[2001:db8::1]/',
  'https://[2001:2::1]/',
  'https://[3fff::1]/',
  'https://[100::1]/',
  'https://[5f00::1]/',
  'https://[4000::1]/',
  // loopback by name, metadata services
  'https://localhost/',
  'https://LOCALHOST./',
  'https://a.b.localhost/',
  'https://169.254.169.254/latest/',
  'https://0xa9fea9fe/',
  'https://2852039166/',
  'https://[fd00:ec2::254]/',
  'https://[::ffff:a9fe:a9fe]/',
  'https://[64:ff9b::a9fe:a9fe]/',
  'https://100.100.100.200/',
  'https://168.63.129.16/',
  'https://metadata.google.internal/',
  'https://METADATA.Google.Internal./',
  'https://metadata/',
  'https://instance-data/',
  'https://metadata.azure.internal/',
  // names that are none
  'https://a..b/',
  'https://.example.com/',
  `https://${'a'.repeat(64)}.com/`,
  'https://exa$mple.com/',
  'https://a*b.com/',
]

describe('a URL that leads inside', () => {
  test.each(HOSTILE_URLS)('is refused when stored and at a send: %s', async (url) => {
    const egress = guard()
    await expect(egress.assertAllowed(url)).rejects.toThrow(EgressRefused)
    const result = await post(egress, url)
    expect(result).toMatchObject({ ok: false, statusCode: null, responseSnippet: null })
    expect(result.error).toMatch(/^blocked: /)
    expect(egress.stats().connectionsOpen).toBe(0)
    expect(dns.questions).toEqual([])
  })

  test.each([
    'https://169.254.169.254/',
    'https://100.100.100.200/',
    'https://168.63.129.16/',
    'https://[fd00:ec2::254]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://metadata/',
    'https://0.0.0.0/',
  ])('stays refused whatever the list says: %s', async (url) => {
    const allow = [
      '0.0.0.0/0',
      '::/0',
      '169.254.0.0/16',
      '169.254.169.254',
      'fd00:ec2::254',
      'metadata',
      '100.100.100.200/32',
      '168.63.129.16/32',
    ]
    await expect(guard({ allow, allowLoopback: true }).assertAllowed(url)).rejects.toThrow(EgressRefused)
  })

  test.each([
    'https://1.1.1.1/',
    'https://[2606:4700::1111]:8443/a?b',
    'https://unknown.test/',
    'https://xn--bcher-kva.test/#part',
  ])('is not %s', async (url) => {
    await expect(guard().assertAllowed(url)).resolves.toBeUndefined()
  })

  test('is refused with words that tell nothing about the inside', async () => {
    dns.set('inside.test', [{ type: 'A', address: '10.9.8.7' }])
    const result = await post(guard(), 'https://inside.test/')
    expect(result.error).toBe('blocked: the host is not on the public internet')
  })
})

describe('the operator’s list', () => {
  test('a CIDR opens its addresses to https and http, and nothing beside them', async () => {
    const egress = guard({ allow: ['10.1.0.0/16', 'fd12::/16'] })
    for (const url of ['https://10.1.2.3/', 'http://10.1.2.3/', 'http://[fd12::1]/']) await egress.assertAllowed(url)
    for (const url of ['https://10.2.0.1/', 'http://1.1.1.1/', 'https://[fd13::1]/']) {
      await expect(egress.assertAllowed(url)).rejects.toThrow(EgressRefused)
    }
  })

  test('a host entry opens private addresses and http for that exact host, never link-local', async () => {
    dns.set('hooks.internal', [{ type: 'A', address: '10.0.0.5' }])
    dns.set('sub.hooks.internal', [{ type: 'A', address: '10.0.0.5' }])
    dns.set('linklocal.internal', [{ type: 'A', address: '169.254.7.7' }])
    dns.set('meta.internal', [{ type: 'A', address: '169.254.169.254' }])
    const egress = guard({ allow: ['Hooks.Internal', 'linklocal.internal', 'meta.internal'] })
    for (const url of ['https://hooks.internal/', 'http://HOOKS.internal.:8080/']) await egress.assertAllowed(url)
    for (const url of [
      'https://sub.hooks.internal/',
      'http://sub.hooks.internal/',
      'https://linklocal.internal/',
      'https://meta.internal/',
    ]) {
      await expect(egress.assertAllowed(url)).rejects.toThrow(EgressRefused)
    }
  })

  test('link-local opens only to a CIDR that lies inside it', async () => {
    await expect(guard({ allow: ['0.0.0.0/0'] }).assertAllowed('https://169.254.7.7/')).rejects.toThrow(EgressRefused)
    await guard({ allow: ['169.254.7.0/24'] }).assertAllowed('https://169.254.7.7/')
  })

  test.each(['10.0.0.0/33', '10.1', '300.0.0.1', 'a b', 'http://x/', ''])(
    'an entry that can’t be read is an error: %j',
    (entry) => {
      expect(() => guard({ allow: [entry] })).toThrow(/allow list/)
    },
  )

  test('loopback is open in development only, by http too', async () => {
    const local = await receiver()
    expect(await post(guard(), `http://127.0.0.1:${local.port}/`)).toMatchObject({
      ok: false,
      error: 'blocked: the URL must use https',
    })
    const egress = guard({ allowLoopback: true })
    for (const host of ['127.0.0.1', 'localhost', 'my.localhost']) {
      expect(await post(egress, `http://${host}:${local.port}/`)).toMatchObject({ ok: true })
    }
    await expect(egress.assertAllowed('https://10.0.0.1/')).rejects.toThrow(EgressRefused)
    await expect(egress.assertAllowed('http://1.1.1.1/')).rejects.toThrow(EgressRefused)
  })
})

describe('what a name resolves to', () => {
  test('one private address among public ones refuses the name, in both families and behind an alias', async () => {
    dns.set('mixed.test', [
      { type: 'A', address: '1.1.1.1' },
      { type: 'A', address: '10.0.0.1' },
    ])
    dns.set('mixed6.test', [
      { type: 'A', address: '1.1.1.1' },
      { type: 'AAAA', address: 'fd00::1' },
    ])
    dns.set('alias.test', [{ type: 'CNAME', target: 'mixed.test' }])
    for (const name of ['mixed.test', 'mixed6.test', 'alias.test']) {
      await expect(guard().assertAllowed(`https://${name}/`)).rejects.toThrow(EgressRefused)
      expect((await post(guard(), `https://${name}/`)).error).toMatch(/^blocked/)
    }
  })

  test('a name that was public when it was stored is refused when it is private at the send', async () => {
    const local = await receiver()
    const name = 'rebind.test'
    dns.set(name, ({ type, count }) =>
      type === 'A' ? [{ type: 'A', address: count === 1 ? '1.1.1.1' : '127.0.0.1', ttlSeconds: 0 }] : [],
    )
    const egress = guard()
    await egress.assertAllowed(`https://${name}:${local.port}/`)
    expect(await post(egress, `https://${name}:${local.port}/`)).toMatchObject({
      ok: false,
      error: expect.stringMatching(/^blocked/),
    })
    expect(local.connections()).toBe(0)
  })

  test('the checked address is the one connected to: nobody asks the name again in between', async () => {
    const local = await receiver()
    dns.set('flip.test', ({ type, count }) =>
      type === 'A' ? [{ type: 'A', address: count === 1 ? '127.0.0.1' : '127.0.0.66', ttlSeconds: 0 }] : [],
    )
    const egress = guard({ allow: ['127.0.0.1/32'] })
    expect(await post(egress, `http://flip.test:${local.port}/`)).toMatchObject({ ok: true })
    expect(dns.questions.filter(({ type }) => type === 'A')).toHaveLength(1)
    expect(local.received[0]?.headers.host).toBe(`flip.test:${local.port}`)
  })

  test('a kept-alive connection does not outlive the answer that allowed it', async () => {
    const local = await receiver()
    let address = '127.0.0.1'
    dns.set('moving.test', ({ type }) => (type === 'A' ? [{ type: 'A', address, ttlSeconds: 0 }] : []))
    const egress = guard({ allow: ['127.0.0.0/31'] })
    expect(await post(egress, `http://moving.test:${local.port}/`)).toMatchObject({ ok: true })
    expect(egress.stats().connectionsIdle).toBe(1)
    address = '127.0.0.2'
    expect(await post(egress, `http://moving.test:${local.port}/`)).toMatchObject({
      ok: false,
      error: expect.stringMatching(/^blocked/),
    })
    expect(local.received).toHaveLength(1)
    address = '127.0.0.1'
    expect(await post(egress, `http://moving.test:${local.port}/`)).toMatchObject({ ok: true })
    expect(local.connections()).toBe(1)
  })

  test('a new answer that one URL brought in counts for every URL of that name', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    const local = await receiver()
    let address = '127.0.0.1'
    dns.set('shared.test', ({ type }) => (type === 'A' ? [{ type: 'A', address }] : []))
    const egress = guard({ allow: ['127.0.0.1/32'] })
    expect(await post(egress, `http://shared.test:${local.port}/first`)).toMatchObject({ ok: true })
    vi.advanceTimersByTime(5_001)
    address = '127.0.0.2'
    for (const path of ['second', 'first']) {
      const result = await post(egress, `http://shared.test:${local.port}/${path}`)
      expect(result).toMatchObject({ ok: false, error: expect.stringMatching(/^blocked/) })
    }
    expect(local.received).toHaveLength(1)
  })

  test('an allowed new address gets its own connection, though the old one is still open', async () => {
    const before = await receiver()
    let address = '127.0.0.1'
    dns.set('moved.test', ({ type }) => (type === 'A' ? [{ type: 'A', address, ttlSeconds: 0 }] : []))
    const egress = guard({ allow: ['127.0.0.0/8'] })
    expect(await post(egress, `http://moved.test:${before.port}/`)).toMatchObject({ ok: true })
    address = '127.0.0.2'
    expect(await post(egress, `http://moved.test:${before.port}/`)).toMatchObject({
      ok: false,
      error: 'connection refused',
    })
    expect(before.received).toHaveLength(1)
  })

  test('an answer is kept for its time to live, and for 5 s at most', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    dns.set('long.test', ({ count }) => [{ type: 'A', address: `1.1.1.${count}`, ttlSeconds: 3_600 }])
    dns.set('short.test', ({ count }) => [{ type: 'A', address: `1.1.1.${count}`, ttlSeconds: 2 }])
    const resolver = new HostResolver([dns.address])
    await resolver.resolve('long.test')
    await resolver.resolve('short.test')
    vi.advanceTimersByTime(1_999)
    expect(resolver.cached('short.test')?.addresses).toEqual(['1.1.1.1'])
    vi.advanceTimersByTime(2)
    expect(resolver.cached('short.test')).toBeNull()
    vi.advanceTimersByTime(2_998)
    expect(resolver.cached('long.test')?.addresses).toEqual(['1.1.1.1'])
    vi.advanceTimersByTime(2)
    expect(resolver.cached('long.test')).toBeNull()
    expect((await resolver.resolve('long.test')).addresses).toEqual(['1.1.1.2'])
  })

  test('an address that does not answer is followed by the next checked one', async () => {
    const local = await receiver()
    dns.set('two.test', [
      { type: 'A', address: '127.0.0.66' },
      { type: 'A', address: '127.0.0.1' },
    ])
    const egress = guard({ allow: ['127.0.0.0/8'] })
    expect(await post(egress, `http://two.test:${local.port}/`)).toMatchObject({ ok: true })
    expect(egress.stats().connectionsOpen).toBe(1)
  })

  test('an address that accepts but never shakes hands is given up in time for the next one', async () => {
    const authority = makeAuthority('Test root')
    const good = await receiver({ tls: authority.issue(['slow.test']) })
    const stuck = await startRawReceiver((socket) => socket.resume(), { host: '127.0.0.2', port: good.port })
    cleanups.push(() => stuck.close())
    dns.set('slow.test', [
      { type: 'A', address: '127.0.0.2' },
      { type: 'A', address: '127.0.0.1' },
    ])
    const egress = guard({ allowLoopback: true, ca: authority.ca })
    expect(await post(egress, `https://slow.test:${good.port}/`)).toMatchObject({ ok: true })
    expect(stuck.connections()).toBe(1)
    await vi.waitFor(() => expect(stuck.sockets.size).toBe(0), 15_000)
    // The next send takes the connection that stands instead of waiting for the stuck address again.
    expect(await post(egress, `https://slow.test:${good.port}/`)).toMatchObject({ ok: true })
    expect(stuck.connections()).toBe(1)
  })

  test('a connection whose peer is not the checked address is cut before anything is sent', async () => {
    const local = await receiver()
    const connections = new Connections(undefined)
    cleanups.push(() => connections.close())
    // A name where an address belongs makes the system look it up: what a broken check would look like from here.
    const origin = `http://elsewhere.test:${local.port}`
    const connection = connections.create({ key: 'x', origin, address: 'localhost', servername: null })
    await expect(connection.client.request({ path: '/', method: 'POST', body: '{}' })).rejects.toThrow(EgressRefused)
    expect(local.received).toEqual([])
  })

  test('a name that does not resolve may be stored, and fails a send in plain words', async () => {
    dns.set('broken.test', 'SERVFAIL')
    dns.set('nothing.test', [])
    const egress = guard()
    for (const name of ['missing.test', 'broken.test', 'nothing.test']) await egress.assertAllowed(`https://${name}/`)
    expect(await post(egress, 'https://missing.test/')).toMatchObject({
      ok: false,
      statusCode: null,
      error: 'dns: not found',
    })
    expect(await post(egress, 'https://nothing.test/')).toMatchObject({ error: 'dns: not found' })
    expect(await post(egress, 'https://broken.test/')).toMatchObject({ error: 'dns: server failure' })
    dns.set('missing.test', [{ type: 'A', address: '10.0.0.1' }])
    await expect(egress.assertAllowed('https://missing.test/')).rejects.toThrow(EgressRefused)
  })

  test('name servers that never answer time out their own sends and hold up no other name', async () => {
    const local = await receiver()
    dns.set('good.test', [{ type: 'A', address: '127.0.0.1' }])
    const egress = guard({ allow: ['127.0.0.0/8'] })
    await unlessStill(async (round) => {
      let settled = 0
      const hanging = Array.from({ length: 200 }, (_, n) => {
        dns.set(`hang${round}-${n}.test`, 'silence')
        return post(egress, `https://hang${round}-${n}.test/`, 4_000).finally(() => {
          settled += 1
        })
      })
      expect(await post(egress, `http://good.test:${local.port}/`, 60_000)).toMatchObject({ ok: true })
      const isFirst = settled === 0
      expect(new Set((await Promise.all(hanging)).map(({ error }) => error))).toEqual(new Set(['timeout']))
      return isFirst
    })
  })

  test('a name server that drops AAAA questions is not waited for as long as one that answers nothing', async () => {
    const local = await receiver()
    const egress = guard({ allow: ['127.0.0.0/8'] })
    await unlessStill(async (round) => {
      const [half, silent] = [`v4-${round}.test`, `silent-${round}.test`]
      dns.set(half, ({ type }) => (type === 'A' ? [{ type: 'A', address: '127.0.0.1' }] : 'silence'))
      dns.set(silent, 'silence')
      let isOver = false
      const waiting = post(egress, `https://${silent}/`, 60_000).finally(() => {
        isOver = true
      })
      expect(await post(egress, `http://${half}:${local.port}/`, 60_000)).toMatchObject({ ok: true })
      const isFirst = !isOver
      expect(await waiting).toMatchObject({ error: 'dns: timeout' })
      return isFirst
    })
  })

  test('SNI, certificate and Host follow the name, the connection follows the checked address', async () => {
    const authority = makeAuthority('Test root')
    const secure = await receiver({ tls: authority.issue(['hooks.test', '127.0.0.1']) })
    dns.set('hooks.test', [{ type: 'A', address: '127.0.0.1' }])
    const egress = guard({ allowLoopback: true, ca: authority.ca })
    for (const host of ['hooks.test', 'hooks.test.', '127.0.0.1']) {
      expect(await post(egress, `https://${host}:${secure.port}/in?x=1`)).toMatchObject({
        ok: true,
        responseSnippet: 'received',
      })
    }
    expect(secure.received.map(({ servername }) => servername)).toEqual(['hooks.test', 'hooks.test', 'false'])
    expect(secure.received[0]).toMatchObject({ method: 'POST', path: '/in?x=1', body: '{"a":1}' })
    expect(secure.received[0]?.headers).toMatchObject({
      host: `hooks.test:${secure.port}`,
      'accept-encoding': 'identity',
      'content-type': 'application/json',
    })
  })

  test('a proxy in the environment is not used', async () => {
    const [proxy, local] = [await receiver(), await receiver()]
    vi.stubEnv('HTTP_PROXY', `http://127.0.0.1:${proxy.port}`)
    vi.stubEnv('http_proxy', `http://127.0.0.1:${proxy.port}`)
    vi.stubEnv('NODE_USE_ENV_PROXY', '1')
    const result = await post(guard({ allowLoopback: true }), `http://127.0.0.1:${local.port}/`)
    vi.unstubAllEnvs()
    expect(result).toMatchObject({ ok: true })
    expect([proxy.connections(), local.connections()]).toEqual([0, 1])
  })
})
