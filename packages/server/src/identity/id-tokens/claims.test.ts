import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, newDatabase, type Service, startService } from '../../../test/harness/harness.ts'
import { query } from '../../../test/harness/service-process.ts'
import { readMigrations } from '../../platform/db/migrate.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const METADATA = { 'claim:plan': 'gold', 'a claim:': 'stays', theme: '"claim:' }
const KEPT = { 'a claim:': 'stays', theme: '"claim:' }

test('claims that guests wrote before the upgrade are deleted by it', async (context) => {
  const database = await newDatabase()
  context.onTestFinished(() => database.drop())
  const run = (statements: string) => query<{ metadata: object }>({ connectionString: database.url }, statements)
  for (const { name, text } of await readMigrations()) {
    // Rows of users alone, without the tenant and app that they belong to.
    if (name.endsWith('_id_tokens.sql'))
      await run(`
        do $$ declare one record; begin
          for one in select conname from pg_constraint where conrelid = 'users'::regclass and contype = 'f' loop
            execute format('alter table users drop constraint %I', one.conname);
          end loop;
        end $$;
        insert into users (tenant_id, id, app_id, party_id, search_text, created_at, updated_at, metadata)
        values ('ten_1', 'usr_1', 'app_1', 'p', '', now(), now(), '${JSON.stringify(METADATA)}'),
          ('ten_1', 'usr_2', 'app_1', 'q', '', now(), now(), '{"plan": "gold"}')`)
    await run(text)
  }
  expect(await run('select metadata from users order by id')).toEqual([
    { metadata: KEPT },
    { metadata: { plan: 'gold' } },
  ])
})

test('claims that a guest writes by a process of the release before are dropped by the database', async () => {
  const tenant = await service.newTenant()
  const key = await tenant.newKey({ publishable: true, appId: tenant.appId })
  const guest = (await call(service.url, 'POST', '/v1/guests', { key, body: {} })).body.data
  // What that release does in a conversion.
  await service.sql('update users set guest = false, metadata = $2 where id = $1', [guest.userId, METADATA])
  expect(await service.sql('select metadata from users where id = $1', [guest.userId])).toEqual([{ metadata: KEPT }])
})
