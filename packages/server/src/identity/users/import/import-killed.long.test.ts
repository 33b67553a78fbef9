import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, newDatabase } from '../../../../test/harness/harness.ts'
import { DataFolder, killAll, query, ServiceProcess } from '../../../../test/harness/service-process.ts'

const USERS = 14_000
const KILLS = 3

let folder: DataFolder
let database: Awaited<ReturnType<typeof newDatabase>>
beforeAll(async () => {
  folder = new DataFolder()
  database = await newDatabase()
})
afterAll(async () => {
  await killAll()
  await folder.remove()
  rmSync(folder.path, { recursive: true, force: true })
  await database.drop()
})

const halfkey = (...args: string[]) => halfkeyBy([], ...args)
const halfkeyBy = (nodeArgs: string[], ...args: string[]) =>
  new ServiceProcess({ cwd: folder.path, env: folder.env({ DATABASE_URL: database.url }), nodeArgs, args })

const rows = <Row extends object>(text: string) => query<Row & object>({ connectionString: database.url }, text)

async function done(process: ServiceProcess) {
  const { code } = await process.exited
  expect(code, process.stderr).toBe(0)
  return JSON.parse(process.stdout)
}

test('killed again and again and run once more, an import has every user once, with its event, its count and its place', async () => {
  const { tenantId } = await done(halfkey('tenants', 'create', '--name', 'Shop', '--json'))
  const file = join(folder.path, 'users.csv')
  const line = (i: number) => `person${i}@example.com,Person ${i},crm-${i}`
  writeFileSync(file, ['email,name,externalId', ...Array.from({ length: USERS }, (_, i) => line(i))].join('\n'))
  const args = ['users', 'import', '--tenant', tenantId, '--file', file, '--events', '--json']
  const position = async () => (await rows<{ position: string }>('select position from imports'))[0]?.position ?? '0'
  let killed = 0
  for (let n = 0; n < KILLS; n += 1) {
    const before = await position()
    const process = halfkey(...args)
    // In the midst of the writing, at no particular place.
    await eventually('a portion more', async () => process.exit !== null || (await position()) !== before, 60_000)
    if (process.exit === null) killed += 1
    await process.kill()
  }
  expect(killed).toBeGreaterThan(1)
  const report = await done(halfkey(...args))
  expect(report).toMatchObject({ records: USERS, imported: USERS, skipped: 0, invalid: 0 })
  expect(report.resumedAt).toBeGreaterThan(0)
  const [found] = await rows<Record<string, number>>(`select
    (select count(*) from users)::int as users,
    (select count(distinct external_id) from users)::int as distinct_users,
    (select count(*) from events where type = 'user.created')::int as events,
    (select count(*) from outbox where type = 'user.created')::int as outbox,
    (select sum(n) from user_counts)::int as counted,
    (select count(*) from users u where not exists (select from events e where e.id = u.created_event_id))::int as lost`)
  expect(found).toEqual({
    users: USERS,
    distinct_users: USERS,
    events: USERS,
    outbox: USERS,
    counted: USERS,
    lost: 0,
  })
}, 240_000)

test('a file of 100 MiB, whose users are as large as they may be, is imported with a heap that is smaller than the file', async () => {
  const { tenantId } = await done(halfkey('tenants', 'create', '--name', 'Archive', '--json'))
  const file = join(folder.path, 'large.jsonl')
  const metadata = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`key${i}`, 'x'.repeat(390)]))
  const LARGE = 6_400
  writeFileSync(
    file,
    Array.from({ length: LARGE }, (_, i) => JSON.stringify({ externalId: `${i}`, metadata })).join('\n'),
  )
  const args = ['users', 'import', '--tenant', tenantId, '--file', file, '--json']
  expect(await done(halfkeyBy(['--max-old-space-size=96'], ...args))).toMatchObject({ imported: LARGE })
}, 240_000)
