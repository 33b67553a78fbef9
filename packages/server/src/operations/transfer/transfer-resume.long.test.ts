import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  call,
  eventually,
  newDatabase,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { DataFolder, killAll, ServiceProcess, startProcess } from '../../../test/harness/service-process.ts'
import { newHolder, newSession, transfers } from '../../delegation/delegated.fixture.ts'
import { rotateKek } from '../cli/commands/keys/kek-rotation.ts'
import { createProgress } from '../cli/progress.ts'
import { comparable, exportTo, halfkey, importFrom, newWorkbench, tenantAt } from './transfer.fixture.ts'

const bench = newWorkbench()
/** In several portions, so that there is a half-way; and so many that a process can be killed three times on it. */
const [USERS, MANY_USERS] = [6_000, 30_000]

let before: Service
let tenant: Tenant
let file: string
let keyFile: string

const started = async (...args: Parameters<typeof startService>): Promise<Service> => {
  const service = await startService(...args)
  onTestFinished(() => service.stop())
  return service
}

/** Users straight into the database, with what counts them. */
async function addUsers(service: Service, of: Tenant, count: number): Promise<void> {
  await service.sql(
    `insert into users (tenant_id, id, app_id, email, email_key, party_id, search_text, created_at, updated_at)
    select $1, 'usr_' || lpad(n::text, 26, '0'), $2, 'u' || n || '@example.com', 'u' || n || '@example.com', 'u' || n || '::1220', 'u' || n || '@example.com', now(), now()
    from generate_series(1, $3::int) n`,
    [of.tenantId, of.appId, count],
  )
  await service.sql(
    `insert into user_counts (tenant_id, app_id, trust_level, shard, n) values ($1, $2, 'embedded', 999, $3)`,
    [of.tenantId, of.appId, count],
  )
  expect((await halfkey(service, 'records', 'enforce', '--accept-missing')).exitCode).toBe(0)
}

/** A tenant with a wallet, a session and so many users, and its export. */
async function exported(users: number, name: string): Promise<{ tenant: Tenant; file: string }> {
  const made = await before.newTenant()
  const holder = await newHolder(made)
  await holder.receive('10')
  await newSession(before, made, holder, { policy: transfers(holder, '5') })
  await addUsers(before, made, users)
  await exportTo(before, made.tenantId, bench.path(name), keyFile)
  return { tenant: made, file: bench.path(name) }
}

beforeAll(async () => {
  before = await startService({ HALFKEY_ROLE: 'api' })
  keyFile = bench.newKey()
  ;({ tenant, file } = await exported(USERS, 'tenant.halfkey'))
}, 180_000)

afterAll(async () => {
  await killAll()
  await before?.stop()
  bench.remove()
})

/** The tables in which something of the tenant is. */
async function tablesWithTenant(service: Service, { tenantId }: Tenant): Promise<string[]> {
  const tables = await service.sql<{ name: string }>(
    `select c.relname::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' union select 'tenants' order by 1`,
  )
  const found: string[] = []
  for (const { name } of tables) {
    const column = name === 'tenants' ? 'id' : 'tenant_id'
    const rows = await service.sql(`select 1 from ${name} where ${column} = $1 limit 1`, [tenantId])
    if (rows.length > 0) found.push(name)
  }
  return found
}

const stagedSchemas = (service: Service) =>
  service.sql<{ nspname: string }>(`select nspname from pg_namespace where nspname like 'halfkey_import_%'`)

test('an import that is killed half-way goes on where it stopped, and nothing is missing or there twice', async () => {
  const { tenant: large, file: largeFile } = await exported(MANY_USERS, 'large.halfkey')
  const database = await newDatabase()
  onTestFinished(() => database.drop())
  const settings = { DATABASE_URL: database.url, HALFKEY_KEK_FILE: bench.newKey() }
  const after = await started({ ...settings, HALFKEY_ROLE: 'api' })
  const folder = new DataFolder()
  onTestFinished(() => folder.remove())
  const run = (...more: string[]) =>
    new ServiceProcess({
      cwd: folder.path,
      env: folder.env(settings),
      args: ['import', '--file', largeFile, '--key-file', keyFile, '--json', ...more],
    })
  const positionOf = async () =>
    (await after.sql<{ position: number }>('select position::int from imports'))[0]?.position ?? 0
  let kills = 0
  for (let until = 1; kills < 3; kills += 1) {
    const importing = run()
    await eventually(
      'some rows are staged',
      async () => (await positionOf()) >= until || importing.exit !== null,
      40_000,
    )
    await importing.kill()
    expect(importing.exit?.signal).toBe('SIGKILL')
    // The database may still commit what the process had asked for.
    await eventually('its connections are gone', async () => {
      const open = `select from pg_stat_activity where application_name = 'halfkey import' and datname = current_database()`
      return (await after.sql(open)).length === 0
    })
    const position = await positionOf()
    expect(position).toBeLessThan(MANY_USERS)
    until = position + 1
    expect(await tablesWithTenant(after, large)).toEqual(['imports'])
  }
  const position = await positionOf()
  const last = run()
  const exit = await last.exited
  expect(exit.code, last.stderr).toBe(0)
  expect(JSON.parse(last.stdout)).toMatchObject({ tenantId: large.tenantId, resumedAt: position })
  const second = bench.path('second.halfkey')
  await exportTo(after, large.tenantId, second, keyFile)
  expect(await comparable(second, keyFile)).toEqual(await comparable(largeFile, keyFile))
  expect((await tenantAt(after, large).get('/users')).body.total).toBe(MANY_USERS + 1)
  expect(await stagedSchemas(after)).toEqual([])
}, 180_000)

test('half-way nobody can sign in or execute, nothing is delivered, and no maintenance task finds anything', async () => {
  let seen: { key: number; page: number; tables: string[] } | undefined
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  let after: Service | undefined
  const look = async (service: Service) => {
    const page = await call(service.url, 'POST', '/signin/api/guests', {
      body: {},
      headers: { 'x-halfkey-app': tenant.appId },
    })
    const { status } = await tenantAt(service, tenant).get('/users')
    return { key: status, page: page.status, tables: await tablesWithTenant(service, tenant) }
  }
  after = await started(
    {},
    {
      failpoint: async (step) => {
        if (step !== 'import portion staged' || after === undefined || seen !== undefined) return
        seen = await look(after)
        throw new Error('stopped half-way')
      },
    },
  )
  const stopped = await importFrom(after, file, keyFile)
  expect(stopped).toMatchObject({ exitCode: 1, err: expect.stringContaining('stopped half-way') })
  expect(seen).toEqual({ key: 401, page: 404, tables: ['imports'] })
  expect(await stagedSchemas(after)).toHaveLength(1)
  // Another file of the same tenant has to wait for it, and the same one goes on.
  const other = bench.path('other.halfkey')
  await exportTo(before, tenant.tenantId, other, keyFile)
  const refused = await importFrom(after, other, keyFile)
  expect(refused).toMatchObject({ exitCode: 1, err: expect.stringContaining('is not finished') })
  expect((await importFrom(after, file, keyFile, '--dry-run')).exitCode).toBe(0)
  const done = await importFrom(after, file, keyFile, '--json')
  expect(JSON.parse(done.out).resumedAt).toBeGreaterThan(0)
  expect(await look(after)).toMatchObject({ key: 200, page: 201 })
}, 180_000)

test('an import that is given up leaves nothing, and can be begun anew', async () => {
  let tries = 0
  const after = await started(
    {},
    {
      failpoint: async (step) => {
        if (step !== 'import portion staged') return
        tries += 1
        if (tries === 2) throw new Error('stopped half-way')
      },
    },
  )
  await importFrom(after, file, keyFile)
  const [row] = await after.sql<{ id: string }>('select id from imports')
  const id = row?.id as string
  expect(await halfkey(after, 'import', '--discard', 'f'.repeat(32))).toMatchObject({
    exitCode: 1,
    err: expect.stringContaining('There is no import'),
  })
  expect((await halfkey(after, 'import', '--discard', id, '--file', file)).exitCode).toBe(2)
  expect((await halfkey(after, 'import', '--discard', id)).exitCode).toBe(0)
  expect(await stagedSchemas(after)).toEqual([])
  expect(await tablesWithTenant(after, tenant)).toEqual([])
  const again = await importFrom(after, file, keyFile, '--json')
  expect(JSON.parse(again.out).resumedAt).toBe(0)
  expect(await halfkey(after, 'import', '--discard', id)).toMatchObject({
    exitCode: 1,
    err: expect.stringContaining('is live'),
  })
  // Nor is a finished one repeated, or the tenant's next export brought in over it.
  const second = await importFrom(after, file, keyFile)
  expect(second).toMatchObject({ exitCode: 1, err: expect.stringContaining('already imported') })
  const later = bench.path('later.halfkey')
  await exportTo(before, tenant.tenantId, later, keyFile)
  for (const service of [after, before])
    expect(await importFrom(service, later, keyFile)).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('already exists in this installation'),
    })
}, 180_000)

test('an import whose database connection is cut ends with words, and goes on when it is run again', async () => {
  let after: Service | undefined
  let cut = false
  after = await started(
    {},
    {
      failpoint: async (step) => {
        if (step !== 'import portion staged' || after === undefined || cut) return
        cut = true
        await after.sql(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'halfkey import' and datname = current_database()`,
        )
      },
    },
  )
  const { exitCode, err } = await importFrom(after, file, keyFile)
  // The pool may have opened another connection in time.
  if (exitCode !== 0) expect(err).toMatch(/connection|terminat/i)
  const again = await importFrom(after, file, keyFile)
  expect(again.exitCode === 0 || /already imported/.test(again.err)).toBe(true)
  expect((await tenantAt(after, tenant).get('/users')).body.total).toBe(USERS + 1)
})

test('an import that another process has overtaken ends with words, and stages nothing twice', async () => {
  let overtaken = false
  const countStaged = async () => {
    const [{ name }] = (await target.sql<{ name: string }>(
      `select quote_ident(nspname) || '.users' as name from pg_namespace where nspname like 'halfkey_import_%'`,
    )) as [{ name: string }]
    return (await target.sql<{ n: string }>(`select count(*) as n from ${name}`))[0]?.n
  }
  let before: string | undefined
  const target: Service = await started(
    { HALFKEY_ROLE: 'api' },
    {
      failpoint: async (step) => {
        if (step !== 'import portion staged' || overtaken || Number(await countStaged().catch(() => 0)) === 0) return
        overtaken = true
        before = await countStaged()
        await target.sql('update imports set position = position + 1')
      },
    },
  )
  const ended = await importFrom(target, file, keyFile)
  expect([ended.exitCode, ended.err]).toEqual([1, expect.stringContaining('Another process runs the same import')])
  expect(await countStaged()).toBe(before)
})

test('of twenty imports at once one goes ahead, and the tenant is there once', async () => {
  const after = await started()
  const runs = await Promise.all(Array.from({ length: 20 }, () => importFrom(after, file, keyFile)))
  expect(runs.filter(({ exitCode }) => exitCode === 0).length).toBeLessThanOrEqual(1)
  const last = await importFrom(after, file, keyFile)
  const [row] = await after.sql<{ n: number }>('select count(*)::int as n from users where tenant_id = $1', [
    tenant.tenantId,
  ])
  expect([row?.n, last.err]).toEqual([
    USERS + 1,
    last.exitCode === 0 ? '' : expect.stringContaining('already imported'),
  ])
  expect(await stagedSchemas(after)).toEqual([])
}, 180_000)

test('a key-encryption key that is rotated while an import is half-way costs it nothing', async () => {
  let after: Service | undefined
  let rotated = false
  const path = bench.newKey()
  after = await started(
    { HALFKEY_KEK_FILE: path },
    {
      failpoint: async (step) => {
        if (step !== 'import portion staged' || after === undefined || rotated) return
        const [found] = await stagedSchemas(after)
        const staged = await after.sql(`select 1 from ${found?.nspname}.tenants`)
        if (staged.length === 0) return
        rotated = true
        throw new Error('stopped half-way')
      },
    },
  )
  await importFrom(after, file, keyFile)
  const old = readFileSync(path, 'utf8')
  const quiet = { progress: createProgress({ err: () => {} }), noticeMs: 1_500, settleMs: 100 }
  const { dropped } = await rotateKek(after.deps, { ...quiet, dropOld: true })
  expect(dropped).toBe(true)
  // Nothing in the service's tables needs the old key; what is staged does.
  const refused = await importFrom(after, file, keyFile)
  expect(refused).toMatchObject({ exitCode: 1, err: expect.stringContaining('Restore the key') })
  expect(await tablesWithTenant(after, tenant)).toEqual(['imports'])
  writeFileSync(path, readFileSync(path, 'utf8') + old)
  const { exitCode, err } = await importFrom(after, file, keyFile)
  expect(exitCode, err).toBe(0)
  const made = await newHolder(tenantAt(after, tenant))
  expect(made.party).toMatch(/::1220/)
  const sealed = await after.sql<{ id: string }>(
    `select distinct convert_from(substring(node_key_sealed from 3 for 16), 'UTF8') as id from tenants`,
  )
  expect(sealed).toHaveLength(1)
}, 180_000)

test('what another tenant has already stops the import before anything is live, and is named', async () => {
  const after = await started({ HALFKEY_ROLE: 'api' })
  const domain = (service: Service, of: Tenant) =>
    service.sql(
      `insert into custom_domains (tenant_id, id, app_id, domain, status, token, created_at, updated_at)
      values ($1, $3, $2, 'id.example.org', 'verified', 'x', now(), now())`,
      [of.tenantId, of.appId, `dom_${of.tenantId.slice(4)}`],
    )
  const mine = await before.newTenant()
  await domain(before, mine)
  await before.sql(`insert into relying_parties (rp_id, tenant_id) values ('example.org', $1)`, [mine.tenantId])
  const [key] = await before.sql<{ id: string; hash: Buffer }>('select id, hash from api_keys where tenant_id = $1', [
    mine.tenantId,
  ])
  const out = bench.path('clashing.halfkey')
  await exportTo(before, mine.tenantId, out, keyFile)

  await domain(after, after.admin)
  await after.sql(`insert into relying_parties (rp_id, tenant_id) values ('example.org', $1)`, [after.admin.tenantId])
  await after.sql(
    `insert into api_keys (tenant_id, id, name, type, scopes, hash, prefix, last4, created_at, updated_at)
    values ($1, 'key_1', 'Same', 'secret', '{*}', $2, 'hk', 'abcd', now(), now())`,
    [after.admin.tenantId, key?.hash],
  )
  await after.sql(
    `insert into apps select ($1), id, name, allowed_origins, allowed_redirect_urls, passkey, messenger, bot_token_sealed, mfa, sessions, mpc, recovery, metadata, created_at, updated_at
    from json_populate_record(null::apps, $2)`,
    [
      after.admin.tenantId,
      JSON.stringify(
        (await before.sql<{ row: object }>('select to_json(a) as row from apps a where id = $1', [mine.appId]))[0]?.row,
      ),
    ],
  )
  for (const more of [['--dry-run'], []]) {
    const { exitCode, err } = await importFrom(after, out, keyFile, ...more)
    expect(exitCode).toBe(1)
    expect(err).toContain(`custom_domains (domain): dom_${mine.tenantId.slice(4)}`)
    expect(err).toContain('relying_parties (rp_id): example.org')
    expect(err).toContain(`api_keys (hash): ${key?.id}`)
    expect(err).toContain(`apps: ${mine.appId}`)
  }
  expect(await after.sql('select 1 from tenants where id = $1', [mine.tenantId])).toEqual([])
  await after.sql(`delete from custom_domains; delete from relying_parties; delete from api_keys where id = 'key_1'`)
  await after.sql('delete from apps where id = $1', [mine.appId])
  expect((await importFrom(after, out, keyFile)).exitCode).toBe(0)
  expect((await tenantAt(after, mine).get('/tenant')).status).toBe(200)
}, 180_000)

test('the commands of docs/moving.md move a tenant between two running services with databases of their own', async () => {
  const [from, to, shared] = [new DataFolder('from'), new DataFolder('to'), new DataFolder()]
  onTestFinished(async () => {
    await from.remove()
    await to.remove()
    await shared.remove()
  })
  const [one, two] = await Promise.all(
    [from, to].map((folder) => startProcess({ cwd: folder.path, env: folder.env() })),
  )
  const mine = (await one?.call(one.key, 'GET', '/tenant'))?.body.data.id as string
  const shell = async (folder: DataFolder, code: string) => {
    const halfkey = `halfkey() { "${process.execPath}" "${fileURLToPath(new URL('../../main.ts', import.meta.url))}" "$@"; }`
    const run = new ServiceProcess({
      cwd: shared.path,
      env: folder.env(),
      program: ['bash', '-c', `set -euo pipefail\n${halfkey}\n${code}`],
      args: [],
    })
    const { code: status } = await run.exited
    expect(status, run.stderr).toBe(0)
    return run
  }
  // The page's own samples: the first beside the old database, the second beside the new one.
  const page = readFileSync(new URL('../../../../../docs/moving.md', import.meta.url), 'utf8')
  const [there = '', here = ''] = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code]) => code as string)
  const exported = await shell(from, `TENANT_ID=${mine}\n${there}`)
  expect(exported.stderr).toMatch(/Exporting rows: 100 %/)
  const imported = await shell(to, here)
  expect(imported.stderr).toMatch(/Staging rows: 100 %/)
  expect(imported.stdout).toMatch(/Nothing was written[\s\S]*is live here/)
  expect(imported.stdout).toContain(`Tenant ${mine} is live here`)
  const answered = await two?.call(one?.key as string, 'GET', '/tenant')
  expect(answered?.body.data.id).toBe(mine)
}, 120_000)
