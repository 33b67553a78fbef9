import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { asRuntimeRole, RUNTIME_ROLE } from '../../../../test/harness/environment.ts'
import { eventually, newDatabase, type Service, startService } from '../../../../test/harness/harness.ts'
import { type Receiver, startReceiver } from '../../../../test/harness/receiver.ts'
import { expectStatus, newHolder, newSession, transfer, transfers } from '../../../delegation/delegated.fixture.ts'
import { newSharedWallet } from '../../../keys/key-shares/key-shares.fixture.ts'
import { release } from '../../../keys/recovery/recovery.fixture.ts'
import { FIXED, KEPT } from '../../../platform/db/runtime-role.ts'
import { runCli } from '../cli.ts'

let database: Awaited<ReturnType<typeof newDatabase>>
let owner: Service
let runtime: Service
let receiver: Receiver
beforeAll(async () => {
  // As the owner, whatever role other services of the run connect as.
  database = await newDatabase('migrated')
  owner = await startService({ HALFKEY_ROLE: 'api', DATABASE_URL: database.url })
  receiver = await startReceiver()
  const done = await halfkey('migrate', '--grant-to', RUNTIME_ROLE)
  expect(done, done.err).toMatchObject({ exitCode: 0, out: expect.stringContaining(`Granted to ${RUNTIME_ROLE}`) })
  const { kekFile } = owner.deps.config
  runtime = await startService({ ...asRuntimeRole(owner.databaseUrl), HALFKEY_KEK_FILE: kekFile as string })
})
afterAll(async () => {
  await runtime.stop()
  await receiver.close()
  await owner.stop()
  await database.drop()
})

async function halfkey(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: owner.deps, close: async () => {}, migrated: [] }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

test('a role that is none, or that owns the tables, gets nothing, and it is told why', async () => {
  const none = await halfkey('migrate', '--grant-to', 'no"body')
  expect([none.exitCode, none.err]).toEqual([1, expect.stringContaining('create role "no""body"')])
  const own = await halfkey('migrate', '--grant-to', inject('postgres').user)
  expect([own.exitCode, own.err]).toEqual([1, expect.stringContaining('owns the tables')])
})

test('as a role with fewer rights the service signs in, executes, delivers, releases shares and deletes', async () => {
  const tenant = await runtime.newTenant()
  expectStatus(await tenant.post('/webhooks', { url: receiver.url, events: ['*'] }), 201)
  const holder = await newHolder(tenant)
  const contractId = await holder.receive('10')
  const session = await newSession(runtime, tenant, holder, { policy: transfers(holder, '5') })
  expectStatus(await session.execute({ commands: [transfer(contractId, '1')] }), 200)
  expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
  await release(await newSharedWallet(runtime, tenant))
  expectStatus(await tenant.delete(`/users/${holder.userId}`), 200)
  await eventually('the deletion is delivered', async () =>
    receiver.received.some(({ event }) => event.type === 'user.deleted'),
  )
  await eventually('the audit log has it', async () => (await tenant.get('/audit-log')).text.includes('user.deleted'))
  expect(runtime.logs()).not.toContain('permission denied')
})

test('that role changes nothing that is immutable, deletes no updates of the ledger, and makes no tables', async () => {
  const client = new pg.Client({ connectionString: asRuntimeRole(owner.databaseUrl).DATABASE_URL })
  await client.connect()
  try {
    const refused = (text: string) => expect(client.query(text), text).rejects.toMatchObject({ code: '42501' })
    for (const [table, columns] of Object.entries(FIXED)) {
      const { rows } = await client.query<{ name: string }>(
        `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
        [table],
      )
      const there = rows.map(({ name }) => name)
      if (columns !== 'all') expect(there).toEqual(expect.arrayContaining([...columns]))
      for (const column of columns === 'all' ? there : columns)
        await refused(`update ${table} set "${column}" = "${column}"`)
    }
    for (const table of KEPT) await refused(`delete from ${table}`)
    for (const table of ['ledger_updates', 'audit_entries']) await refused(`truncate ${table}`)
    await refused('create table mine (id integer)')
    await refused('drop table users')
    await refused('alter table ledger_updates disable trigger all')
  } finally {
    await client.end()
  }
})
