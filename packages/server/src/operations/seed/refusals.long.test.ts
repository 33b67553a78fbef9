import { createHmac, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { freePort } from '../../../test/harness/service-process.ts'
import { runCli } from '../cli/cli.ts'
import { startSampleReceiver, type Verified } from './receiver.ts'
import { all, beside, dataOf, listsOf, seed, start } from './seed.fixture.ts'

// A command takes seconds; on a machine that does ten things at once, a minute.
vi.setConfig({ testTimeout: 300_000 })

let service: Service
/** On another database. */
let another: Service
beforeAll(async () => {
  service = await startService()
  another = await startService()
})
afterAll(async () => {
  await service.stop()
  await another.stop()
})

/** That a command fails in this way, and changed nothing. */
async function refused(env: Record<string, string>, args: string[], code: number, told: RegExp, tenant?: Tenant) {
  const before = tenant && (await listsOf(tenant))
  const ended = await seed(env, env.DATABASE_URL === service.databaseUrl ? service.deps : null, ...args)
  expect([ended.code, ended.stdout, ended.stderr]).toEqual([code, '', expect.stringMatching(told)])
  if (tenant !== undefined) expect(await listsOf(tenant)).toEqual(before)
}

describe('in production', () => {
  let production: Service
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))
  const settings = { HALFKEY_ENV: 'production', HALFKEY_KEK_FILE: join(folder, 'kek.key'), HALFKEY_RATE_LIMITS: 'on' }
  beforeAll(async () => {
    writeFileSync(settings.HALFKEY_KEK_FILE, randomBytes(32).toString('base64'), { mode: 0o600 })
    production = await startService(settings)
  })
  afterAll(async () => {
    await production.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  test('it refuses by the name of the setting, whoever says it: the environment or the service', async () => {
    const { admin } = production
    // A shell that knows nothing of production, on a key of it.
    const naive = { HALFKEY_URL: production.url, HALFKEY_KEY: admin.key }
    await refused({ ...beside(production), ...settings }, [], 1, /HALFKEY_ENV=production/, admin)
    await refused({ ...beside(production), ...settings }, ['--remove'], 1, /HALFKEY_ENV=production/, admin)
    await refused(naive, ['--users', '10'], 1, /HALFKEY_ENV=production/, admin)
    await refused(naive, ['--listen'], 1, /HALFKEY_ENV=production/, admin)
    await refused(naive, ['--remove'], 1, /HALFKEY_ENV=production/, admin)
  })

  test('the environment alone is enough, even for a service in development', async () => {
    const tenant = await service.newTenant()
    await refused({ ...beside(service, tenant), HALFKEY_ENV: 'production' }, [], 1, /HALFKEY_ENV=production/, tenant)
  })
})

describe('by which key', () => {
  test('one that may do less than everything is refused before anything is made', async () => {
    const tenant = await service.newTenant()
    const narrow = await tenant.newKey({ scopes: ['apps:write', 'users:write', 'api_keys:write', 'tenant:read'] })
    const bound = await tenant.newKey({ scopes: ['*'], appId: tenant.appId })
    const browser = await tenant.newKey({ publishable: true })
    const env = beside(service)
    await refused({ ...env, HALFKEY_KEY: narrow }, [], 1, /scope \*/, tenant)
    await refused({ ...env, HALFKEY_KEY: bound }, [], 1, /scope \*/, tenant)
    await refused({ ...env, HALFKEY_KEY: browser }, [], 1, /key_type_not_allowed/, tenant)
    await refused({ ...env, HALFKEY_KEY: `${tenant.key.slice(0, -1)}!` }, [], 1, /refuses the key.*HALFKEY_KEY/, tenant)
  })

  test('one of another tenant than --tenant is refused', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    await refused(beside(service, tenant), ['--tenant', other.tenantId], 1, new RegExp(other.tenantId), tenant)
  })

  test('without one and without the database, it says which variable to set', async () => {
    await refused({ HALFKEY_URL: service.url }, [], 1, /HALFKEY_KEY/)
  })

  test('without one it makes a key by right of the database, which is revoked and forgotten, also after a kill', async () => {
    const tenant = await service.newTenant()
    const before = await listsOf(tenant)
    await refused(beside(service), [], 2, new RegExp(`--tenant[^]*${tenant.tenantId}`))
    const args = ['--tenant', tenant.tenantId]
    const nobody = { ...beside(service), HALFKEY_URL: `http://127.0.0.1:${await freePort()}` }
    await refused(nobody, args, 1, /No service responds/, tenant)
    const elsewhere = { ...beside(service), HALFKEY_URL: another.url }
    await refused(elsewhere, args, 1, /another database/, tenant)
    dataOf(await seed(beside(service), service.deps, ...args, '--users', '10', '--json'))
    const kept = await all(tenant, '/api-keys')
    expect(kept.filter(({ appId, name }) => appId === null && name !== 'Admin')).toEqual([])
    dataOf(await seed(beside(service), service.deps, ...args, '--remove', '--json'))
    expect(await listsOf(tenant)).toEqual(before)

    const killed = start(['seed', ...args, '--users', '10'], beside(service))
    await killed.says(/^Wallets/m)
    killed.child.kill('SIGKILL')
    await killed.ended
    dataOf(await seed(beside(service), service.deps, ...args, '--remove', '--json'))
    expect(await listsOf(tenant)).toEqual(before)
  })
})

test.each([
  [['--users', '9'], /--users must be a whole number from 10 to 1000/],
  [['--users', '1e2'], /--users/],
  [['--users', '-1'], /--users|Usage/],
  [['--users', '1001'], /--users/],
  [['--seed', '4294967296'], /--seed/],
  [['--seed', 'x'], /--seed/],
  [['--remove', '--users', '10'], /--remove/],
  [['--remove', '--listen'], /--remove/],
  [['--key', 'x'], /Usage: halfkey seed/],
])('%j is wrong usage and is told how to go on, before anything is called', async (args, told) => {
  const said: string[] = []
  const openDeps = () => Promise.reject(new Error('opened'))
  const context = { openDeps, out: (line: string) => void said.push(line), err: (line: string) => void said.push(line) }
  expect(await runCli(['seed', ...(args as string[])], context)).toBe(2)
  expect(said.join('\n')).toMatch(told as RegExp)
})

test('where no service answers, or something else does, it says so, and which variable', async () => {
  const HALFKEY_KEY = service.admin.key
  await refused(
    { HALFKEY_URL: `http://127.0.0.1:${await freePort()}`, HALFKEY_KEY },
    [],
    1,
    /No service responds.*HALFKEY_URL/,
  )
  await refused({ HALFKEY_URL: 'localhost:8080', HALFKEY_KEY }, [], 1, /HALFKEY_URL must be/)
  const receiver = await startSampleReceiver(() => {})
  // Without a secret it would wait for one.
  receiver.knows('/x/v1/tenant', 'none')
  await refused({ HALFKEY_URL: `${receiver.url}/x`, HALFKEY_KEY }, [], 1, /HALFKEY_URL/)
  await receiver.close()
})

test('the past is not written into a copy of the database, which has the same tenant', async () => {
  const tenant = await another.newTenant()
  // As after a restore: the tenant, and nothing of what its service does from then on.
  await service.sql(
    `insert into tenants select (jsonb_populate_record(t, jsonb_build_object('id', $1::text))).* from tenants t limit 1`,
    [tenant.tenantId],
  )
  const env = { ...beside(service), HALFKEY_URL: another.url, HALFKEY_KEY: tenant.key }
  const ended = await seed(env, service.deps, '--users', '10')
  expect([ended.code, ended.stderr]).toEqual([1, expect.stringMatching(/is not that of the service/)])
  expect(await service.sql('select 1 from analytics_daily where tenant_id = $1', [tenant.tenantId])).toEqual([])
})

describe('the sample receiver', () => {
  const secret = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0ZXGy3mlHz8='
  const body = JSON.stringify({ id: 'evt_1', type: 'user.created', data: { userId: 'usr_1' } })
  const sign = (text: string, seconds: number, key = secret) => ({
    'x-service-timestamp': String(seconds),
    'x-service-signature': `sha256=${createHmac('sha256', key).update(`${seconds}.${text}`).digest('hex')}`,
  })
  const now = () => Math.floor(Date.now() / 1_000)

  test('takes what is signed by its secret, lately, and nothing else', async () => {
    const told: Verified[] = []
    const receiver = await startSampleReceiver((event) => told.push(event))
    const send = async (headers: Record<string, string>, text = body) =>
      (await fetch(`${receiver.url}/hook`, { method: 'POST', headers, body: text })).status
    // What comes before the secret is known waits for it.
    const early = send(sign(body, now()))
    receiver.knows('/hook', secret)
    expect(await early).toBe(204)
    const forged = [
      {},
      sign(body, now(), `${secret}x`),
      sign(`${body} `, now()),
      sign(body, now() - 400),
      sign(body, now() + 400),
      { ...sign(body, now()), 'x-service-timestamp': 'now' },
      { ...sign(body, now()), 'x-service-signature': 'sha256=00' },
    ]
    for (const headers of forged) expect(await send(headers), JSON.stringify(headers)).toBe(401)
    expect([told.length, receiver.refused()]).toEqual([1, forged.length])
    receiver.fails('/hook', true)
    expect(await send(sign(body, now()))).toBe(503)
    receiver.fails('/hook', false)
    const other = secret.replace('C2', 'D2')
    receiver.knows('/hook', other)
    expect([await send(sign(body, now())), await send(sign(body, now(), other))]).toEqual([401, 204])
    const long = 'x'.repeat(1024 * 1024 + 1)
    expect(await send(sign(long, now(), other), long)).toBe(413)
    await receiver.close()
  })
})
