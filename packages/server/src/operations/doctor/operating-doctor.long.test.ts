import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, type TestContext, test, vi } from 'vitest'
import { startDnsServer } from '../../../test/harness/dns-server.ts'
import { eventually, newDatabase, type Service, startService } from '../../../test/harness/harness.ts'
import { PostgresProcess } from '../../../test/harness/postgres-process.ts'
import {
  DataFolder,
  freePort,
  killAll,
  query,
  ServiceProcess,
  startProcess,
} from '../../../test/harness/service-process.ts'

// Each look is a process of its own.
vi.setConfig({ testTimeout: 120_000 })

interface Finding {
  check: string
  level: 'ok' | 'note' | 'warning' | 'problem'
  seen: string
  fix: string | null
}

let service: Service
let folder: string
beforeAll(async () => {
  // No worker: what waits goes on waiting.
  service = await startService({ HALFKEY_ROLE: 'api' })
  folder = mkdtempSync(join(tmpdir(), 'halfkey-doctor-'))
})
afterAll(async () => {
  await killAll()
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

/** Runs the doctor as a process with this environment alone. */
async function examine(env: Record<string, string>, nodeArgs: readonly string[] = []) {
  const run = new ServiceProcess({ cwd: folder, env, args: ['doctor', '--json'], nodeArgs })
  const { code } = await run.exited
  expect(run.stderr).toBe('')
  const { findings, counts } = JSON.parse(run.stdout) as { findings: Finding[]; counts: Record<string, number> }
  expect(code).toBe(findings.some(({ level }) => level === 'problem') ? 1 : 0)
  expect(counts.problem).toBe(findings.filter(({ level }) => level === 'problem').length)
  for (const { level, fix, seen } of findings) {
    expect(seen).not.toBe('')
    if (level === 'problem' || level === 'warning') expect(fix, seen).toBeTruthy()
  }
  return {
    code,
    text: run.stdout,
    levels: (check: string) => findings.filter((each) => each.check === check).map(({ level }) => level),
    told: (check: string) =>
      findings
        .filter((each) => each.check === check)
        .map(({ seen, fix }) => `${seen} ${fix}`)
        .join('\n'),
  }
}

const here = () => ({ DATABASE_URL: service.databaseUrl, HALFKEY_DATA_DIR: service.dataDir, PORT: '0' })

function tempFolder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'halfkey-doctor-'))
  context.onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** What the database holds, as far as the doctor could have touched it. */
const contents = () =>
  service.sql(`select (select json_agg(m order by name) from migrations m) as m, (select json_agg(i) from installation i) as i,
    (select count(*) from tenants) as t, (select count(*) from api_keys) as k`)

test('beside a running service every check is made, none is a problem but its missing worker, and nothing is changed', async () => {
  const before = await contents()
  const { levels, text } = await examine(here())
  for (const check of [
    'configuration',
    'public_url',
    'metrics',
    'key_file',
    'dns',
    'egress',
    'database',
    'database.version',
    'database.migrations',
    'database.extensions',
    'database.connections',
    'database.durability',
    'database.transactions',
    'database.wraparound',
    'clock',
    'key_file.database',
    'queue.outbox',
    'queue.deliveries',
    'workers',
    'passkeys',
  ])
    expect(levels(check), `${check}\n${text}`).not.toEqual([])
  expect(levels('database.migrations')).toEqual(['ok'])
  expect(levels('key_file.database')).toEqual(['ok'])
  expect(await contents()).toEqual(before)
})

test('for people it prints what it saw with a fix below, and how much of each kind', async () => {
  const run = new ServiceProcess({
    cwd: folder,
    env: { ...here(), HALFKEY_DATABSE_CONNECTIONS: '5' },
    args: ['doctor'],
  })
  await run.exited
  expect(run.stdout).toMatch(
    /^warning +configuration\.unknown .*Did you mean HALFKEY_DATABASE_CONNECTIONS\?\n +fix: export /m,
  )
  expect(run.stdout).toMatch(/^\d+ problems?, \d+ warnings?, \d+ notes?; \d+ checks passed\.$/m)
})

test('on a machine without anything it makes no folder, no key and no database', async (context) => {
  const data = join(tempFolder(context), 'data')
  const { code, levels } = await examine({ HALFKEY_DATA_DIR: data })
  expect([code, levels('key_file'), levels('database')]).toEqual([0, ['note'], ['note']])
  expect(existsSync(data)).toBe(false)
})

test('an empty database is left empty', async (context) => {
  const database = await newDatabase()
  context.onTestFinished(() => database.drop())
  const { levels } = await examine({ ...here(), DATABASE_URL: database.url })
  expect(levels('database.migrations')).toEqual(['note'])
  const tables = await query({ connectionString: database.url }, `select from pg_tables where schemaname = 'public'`)
  expect(tables).toEqual([])
})

test('every mistake in the settings is told at once, with the database away, and no secret among them', async () => {
  const { code, levels, told, text } = await examine({
    DATABASE_URL: 'postgres://halfkey:a-password@127.0.0.1:1/halfkey',
    HALFKEY_ENV: 'production',
    HALFKEY_KEK_FILE: join(folder, 'missing.key'),
    HALFKEY_INSECURE_DEV: '1',
    HALFKEY_PUBLIC_URL: 'http://wallets.example.com',
    HALFKEY_TRUSTED_PROXIES: '0.0.0.0/0',
    HALFKEY_METRICS_TOKEN: 'short',
    HALFKEY_STRIPE_SECRET_KEY: 'pk_live_of-the-wrong-kind',
    HALFKEY_STRIPE_WEBHOOK_SECRET: 'not-of-the-form',
    HALFKEY_SOMETHING: 'x',
    PORT: 'eighty',
  })
  expect(code).toBe(1)
  for (const name of ['PORT', 'HALFKEY_INSECURE_DEV', 'HALFKEY_PUBLIC_URL'])
    expect(told('configuration')).toContain(name)
  expect(levels('configuration')).toEqual(['problem', 'problem', 'problem'])
  expect(told('configuration.unknown')).toContain('HALFKEY_SOMETHING')
  expect(levels('configuration.trusted_proxies')).toEqual(['problem'])
  expect(levels('public_url')).toEqual(['problem'])
  expect(levels('metrics')).toEqual(['warning'])
  expect([levels('stripe.key'), levels('stripe.webhook_secret')]).toEqual([['problem'], ['problem']])
  expect([levels('key_file'), levels('database')]).toEqual([['problem'], ['problem']])
  expect(levels('egress')).toEqual(['ok'])
  for (const secret of ['a-password', 'short"', 'of-the-wrong-kind', 'not-of-the-form'])
    expect(text).not.toContain(secret)
})

test("a key file that is open to others, damaged, or another database's is a problem each", async (context) => {
  const data = tempFolder(context)
  const file = join(data, 'kek.key')
  const good = readFileSync(join(service.dataDir, 'kek.key'), 'utf8')
  const other = `${Buffer.alloc(32, 7).toString('base64')}\n`
  const env = { ...here(), HALFKEY_KEK_FILE: file }
  const withFile = (text: string, mode = 0o600) => {
    writeFileSync(file, text)
    chmodSync(file, mode)
    return examine(env)
  }
  const open = await withFile(good, 0o644)
  expect([open.levels('key_file'), open.told('key_file')]).toEqual([
    ['problem'],
    expect.stringContaining(`chmod 600 ${file}`),
  ])
  expect(readFileSync(file, 'utf8')).toBe(good)
  expect((await withFile('damaged\n')).levels('key_file')).toEqual(['problem'])
  const foreign = await withFile(other)
  expect([foreign.levels('key_file')[0], foreign.levels('key_file.database')]).toEqual(['ok', ['problem']])
  // A new key in front that seals nothing yet: a rotation that somebody has begun.
  expect((await withFile(other + good)).levels('key_file.rotation')).toEqual(['warning'])
  expect((await withFile(good + other)).levels('key_file.rotation')).toEqual(['note'])
  chmodSync(data, 0o777)
  expect((await withFile(good)).levels('key_file.folder')).toEqual(['problem'])
})

test('a data folder that others may write, and a record that they may read, are problems', async (context) => {
  const data = join(tempFolder(context), 'data')
  mkdirSync(data)
  writeFileSync(join(data, 'database.json'), '{}', { mode: 0o644 })
  chmodSync(data, 0o777)
  const { levels } = await examine({ HALFKEY_DATA_DIR: data })
  expect([levels('data_folder'), levels('data_folder.record'), levels('database')]).toEqual([
    ['problem'],
    ['problem'],
    ['problem'],
  ])
})

test('each resolver is asked by itself, and the one that does not answer is named', async (context) => {
  const [good, bad] = [await startDnsServer(), await startDnsServer()]
  context.onTestFinished(async () => void (await Promise.all([good.close(), bad.close()])))
  bad.set('wallets.example.com', 'SERVFAIL')
  const env = { ...here(), HALFKEY_PUBLIC_URL: 'https://wallets.example.com' }
  const both = await examine({ ...env, HALFKEY_DNS_SERVERS: `${good.address},${bad.address}` })
  expect(both.levels('dns')).toEqual(['ok', 'warning'])
  expect(both.told('dns')).toContain(`The DNS server ${bad.address} did not resolve`)
  expect(both.levels('public_url.dns')).toEqual(['warning'])
  expect((await examine({ ...env, HALFKEY_DNS_SERVERS: bad.address })).levels('dns')).toEqual(['problem'])
  good.set('wallets.example.com', [{ type: 'A', address: '192.0.2.7' }])
  const found = await examine({ ...env, HALFKEY_DNS_SERVERS: good.address })
  expect([found.levels('dns'), found.levels('public_url.dns')]).toEqual([['ok'], []])
})

test('the guard is tried: what HALFKEY_EGRESS_ALLOW opens is told, an open door to everything is a problem', async () => {
  const shut = await examine(here())
  expect(shut.levels('egress')).toEqual(['ok'])
  expect(shut.told('egress')).toContain('Webhooks can reach this machine, because HALFKEY_ENV is development.')
  const production = { ...here(), HALFKEY_ENV: 'production' }
  expect((await examine(production)).told('egress')).toContain(
    'Webhooks cannot reach private networks or this machine.',
  )
  const open = await examine({ ...production, HALFKEY_EGRESS_ALLOW: '127.0.0.0/8,10.1.2.3/32' })
  expect(open.levels('egress')).toEqual(['warning'])
  expect(open.told('egress')).toContain('127.0.0.1')
  expect(open.told('egress')).not.toContain('169.254')
  expect(open.levels('egress.allow')).toEqual(['warning'])
  const all = await examine({ ...here(), HALFKEY_EGRESS_ALLOW: '0.0.0.0/0,::/0' })
  expect(all.levels('egress.allow')).toEqual(['problem', 'problem'])
})

test('a clock that is not the database’s is told', async () => {
  const ahead = ['--import', new URL('../../../test/faults/clock-ahead.mjs', import.meta.url).href]
  const { levels, told } = await examine({ ...here(), CLOCK_SHIFT_MS: '3600000' }, ahead)
  expect(levels('clock')).toEqual(['problem'])
  expect(told('clock')).toContain('ahead of')
})

test('a schema that lacks a migration, has a newer one, or was changed', async () => {
  const [last] = await service.sql<{ name: string; checksum: string }>(
    'select name, checksum from migrations order by name desc limit 1',
  )
  const { name = '', checksum } = last ?? {}
  await service.sql(`insert into migrations (name, checksum) values ('9999_future.sql', 'x')`)
  const newer = await examine(here())
  expect(newer.levels('database.migrations')).toEqual(['note'])
  await service.sql(`delete from migrations where name = '9999_future.sql'`)
  await service.sql(`update migrations set checksum = 'x' where name = $1`, [name])
  expect((await examine(here())).levels('database.migrations')).toEqual(['problem'])
  await service.sql('delete from migrations where name = $1', [name])
  const lacking = await examine(here())
  expect([lacking.levels('database.migrations'), lacking.levels('queue.outbox')]).toEqual([['problem'], []])
  await service.sql('insert into migrations (name, checksum) values ($1, $2)', [name, checksum])
  expect((await examine(here())).levels('database.migrations')).toEqual(['ok'])
})

test('what waits too long, was given up or has nobody to do it is told', async () => {
  const tenant = await service.newTenant()
  await tenant.post('/users', {})
  expect((await examine(here())).levels('workers')).toEqual(['problem'])
  await service.sql(`update events set created_at = now() - interval '10 minutes' where tenant_id = $1`, [
    tenant.tenantId,
  ])
  await service.sql(
    `insert into lanes (tenant_id, id, webhook_id, due_at) values ($1, 'wh_a', 'wh_a', now() - interval '1 minute')`,
    [tenant.tenantId],
  )
  await service.sql(
    `insert into deliveries_done (tenant_id, webhook_id, id, event_id, event_type, status, cycle, retry, attempts, created_at, done_at)
    values ($1, 'wh_a', 'dlv_a', 'evt_a', 'user.created', 'dead_letter', 0, 5, 6, now(), now())`,
    [tenant.tenantId],
  )
  const [event] = await service.sql<{ id: string }>('select id from events where tenant_id = $1 limit 1', [
    tenant.tenantId,
  ])
  await service.sql('insert into feed (tenant_id, seq, event_id) values ($1, 1, $2)', [tenant.tenantId, event?.id])
  await service.sql('insert into feed_heads (tenant_id, seq) values ($1, 7)', [tenant.tenantId])
  await service.sql(`insert into feed_cursors (tenant_id, follower, seq) values ($1, 'audit', 0)`, [tenant.tenantId])
  const found = await examine(here())
  expect(found.levels('queue.outbox')).toEqual(['problem'])
  expect(found.levels('queue.deliveries')).toEqual(['warning'])
  expect(found.told('queue.dead_letters')).toContain('1 dead letters')
  expect([found.levels('followers.audit'), found.told('followers.audit')]).toEqual([
    ['problem'],
    expect.stringContaining('7 events of 1 tenants'),
  ])
})

test('a tenant that was imported half-way is told of, with the way to give it up, and an import of users is not', async () => {
  const id = 'f'.repeat(32)
  await service.sql(
    `insert into imports (id, tenant_id, position, state, created_at) values
      ($1, 'ten_1', 4000, '{"file":"x"}', now()), ('users', 'ten_1', 1, '{"events":true}', now())`,
    [id],
  )
  const { levels, told } = await examine(here())
  expect(levels('imports')).toEqual(['warning'])
  expect(told('imports')).toMatch(/tenant ten_1 is not finished: 4000 rows.*halfkey import --discard ffff/)
  await service.sql('delete from imports')
})

test('an app whose passkeys belong to a host that none of its pages is on is named', async () => {
  const tenant = await service.newTenant()
  await service.sql(
    `update apps set passkey = jsonb_set(passkey::jsonb, '{rpId}', '"elsewhere.example"') where id = $1`,
    [tenant.appId],
  )
  await service.recode()
  const odd = await examine(here())
  expect([odd.levels('passkeys'), odd.told('passkeys')]).toEqual([['warning'], expect.stringContaining(tenant.appId)])
  await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: ['https://app.elsewhere.example'] })
  expect((await examine(here())).levels('passkeys')).toEqual(['ok'])
})

test('a server with unsafe settings or too few connections is told of; one that is gone keeps no other check back', async (context) => {
  const server = await PostgresProcess.create()
  context.onTestFinished(() => server.remove())
  for (const name of ['fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum'])
    await server.admin(`alter system set ${name} = off`)
  await server.admin('select pg_reload_conf()')
  const env = { ...here(), DATABASE_URL: server.url, HALFKEY_DATABASE_CONNECTIONS: '300' }
  const unsafe = await examine(env)
  expect(unsafe.levels('database.durability')).toEqual(['problem', 'problem', 'problem', 'problem'])
  expect(unsafe.levels('database.connections')).toEqual(['problem'])
  await server.kill()
  const away = await examine(env)
  expect([away.levels('database'), away.levels('egress'), away.levels('key_file')]).toEqual([
    ['problem'],
    ['ok'],
    ['ok'],
  ])
})

test('an embedded database is joined while it runs, and not started when it does not', async (context) => {
  const data = new DataFolder()
  context.onTestFinished(() => data.remove())
  const running = await startProcess({ cwd: data.path, env: data.env() })
  const joined = await examine(data.env())
  expect([joined.code, joined.levels('database'), joined.levels('database.disk').length]).toEqual([0, ['ok'], 1])
  expect(joined.levels('workers')).toEqual(['ok'])
  await running.stop()
  expect(data.postmaster()).toBeNull()
  const stopped = await examine(data.env())
  expect([stopped.code, stopped.levels('database')]).toEqual([0, ['note']])
  expect(stopped.told('database')).toContain('is not running')
  expect(data.postmaster()).toBeNull()
})

function redisServer(): boolean {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

test('a Redis that is set is asked, and the password in its address is not told', async (context) => {
  const port = await freePort()
  const env = { ...here(), REDIS_URL: `redis://:a-redis-password@127.0.0.1:${port}` }
  const away = await examine(env)
  expect(away.levels('redis')).toEqual(['warning'])
  context.skip(!redisServer(), 'there is no redis-server here')
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--requirepass', 'a-redis-password']
  const redis: ChildProcess = spawn('redis-server', args, { cwd: folder, stdio: 'ignore' })
  context.onTestFinished(() => void redis.kill())
  const found = await eventually('Redis', async () => {
    const each = await examine(env)
    return each.levels('redis')[0] === 'ok' ? each : undefined
  })
  expect(away.text + found.text).not.toContain('a-redis-password')
})
