import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../test/harness/receiver.ts'
import { subscribe } from '../engine/delivery.fixture.ts'

// These tests wait far more than they work.
vi.setConfig({ maxConcurrency: 12 })

let service: Service
let receiver: Receiver
beforeAll(async () => {
  service = await startService({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1h' })
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await service.stop()
})

describe('in production', () => {
  let production: Service
  let dns: DnsServer
  let tenant: Tenant
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))
  beforeAll(async () => {
    dns = await startDnsServer()
    const kekFile = join(folder, 'kek.key')
    writeFileSync(kekFile, randomBytes(32).toString('base64'), { mode: 0o600 })
    production = await startService({
      HALFKEY_ENV: 'production',
      HALFKEY_KEK_FILE: kekFile,
      HALFKEY_RATE_LIMITS: 'on',
      HALFKEY_DNS_SERVERS: dns.address,
    })
    tenant = await production.newTenant()
    dns.set('public.test', [{ type: 'A', address: '93.184.216.34' }])
    dns.set('inner.test', [{ type: 'A', address: '10.1.2.3' }])
    dns.set('both.test', [
      { type: 'A', address: '93.184.216.34' },
      { type: 'A', address: '192.168.7.7' },
    ])
    dns.set('alias.test', [{ type: 'CNAME', target: 'inner.test' }])
    dns.set('six.test', [{ type: 'AAAA', address: 'fd00:0:0:0:0:0:0:7' }])
  })
  afterAll(async () => {
    await production.stop()
    await dns.close()
    rmSync(folder, { recursive: true })
  })

  test.each([
    'http://public.test/',
    'ftp://public.test/',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'public.test',
    'https://',
    'https://user:password@public.test/',
    'https://public.test:25/',
    'https://localhost/',
    'https://LOCALHOST./',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.0.0.1/',
    'https://①②⑦.⓪.⓪.①/',
    'https://%31%32%37.0.0.1/',
    'https://0.0.0.0/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://192.168.0.1/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://168.63.129.16/',
    'https://100.100.100.200/',
    'https://224.0.0.1/',
    'https://255.255.255.255/',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:a00:1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:0:7f00:1::]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://[ff02::1]/',
    'https://metadata.google.internal/',
    'https://inner.test/',
    'https://both.test/',
    'https://alias.test/',
    'https://six.test/',
  ])('%s is 400 webhook_url_blocked at creation and at update, and says nothing of what lies inside', async (url) => {
    const made = await tenant.post('/webhooks', { url, events: ['*'] })
    expect([made.status, made.body.code], made.text).toEqual([400, 'webhook_url_blocked'])
    expect(made.body.details[0]).toMatchObject({ field: 'url', code: 'webhook_url_blocked' })
    expect(made.text).not.toMatch(/10\.1\.2\.3|192\.168\.7\.7|93\.184/)
    const allowed = await subscribe(tenant, 'https://public.test/hook')
    const changed = await tenant.patch(`/webhooks/${allowed.id}`, { url })
    expect([changed.status, changed.body.code]).toEqual([400, 'webhook_url_blocked'])
    expect((await tenant.get(`/webhooks/${allowed.id}`)).body.data.url).toBe('https://public.test/hook')
  })

  test('a public address and a name that does not resolve yet are accepted', async () => {
    for (const url of [
      'https://public.test/',
      'https://93.184.216.34/',
      'https://not-yet.test/',
      'https://public.test:8443/',
    ]) {
      expect((await tenant.post('/webhooks', { url, events: ['*'] })).status).toBe(201)
    }
  })
})

test('in development a loopback receiver over http is allowed, and nothing else that is private', async () => {
  const tenant = await service.newTenant()
  for (const [url, status] of [
    [receiver.url, 201],
    [receiver.url.replace('127.0.0.1', 'localhost'), 201],
    ['http://10.0.0.1/', 400],
    ['http://169.254.169.254/', 400],
    ['http://93.184.216.34/', 400],
  ] as const) {
    const made = await tenant.post('/webhooks', { url, events: ['*'] })
    expect([url, made.status]).toEqual([url, status])
  }
})
