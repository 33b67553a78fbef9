import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { directUrl } from '../../../../test/harness/environment.ts'
import { newDatabase, startService } from '../../../../test/harness/harness.ts'
import { DataFolder, query, ServiceProcess } from '../../../../test/harness/service-process.ts'

/** What a start says with this address. */
const startWith = (url: string) =>
  startService({ DATABASE_URL: url }).then(
    async (service) => {
      await service.stop()
      return 'started'
    },
    (error: Error) => error.message,
  )

test('a table with the name of Citus’s list, made by anybody, is not taken for it', async () => {
  const { url, drop } = await newDatabase('migrated')
  const direct = { connectionString: directUrl(url) }
  await query(direct, "create table pg_dist_partition as select 'users'::regclass as logicalrelid")
  expect(await startWith(directUrl(url))).toBe('started')
  await drop()
})

const refusalOf = (table: string) =>
  new RegExp(`^Citus distributes tables of this database, such as ${table}\\. .*undistribute_table\\('${table}'\\)`)

/** A database with the extension, in which the role may create schemas. */
const citus = process.env.HALFKEY_TEST_CITUS
const MISSING = 'HALFKEY_TEST_CITUS names none'

describe.skipIf(citus === undefined)(`in a database with Citus (${citus === undefined ? MISSING : 'given'})`, () => {
  const schema = `halfkey_${process.pid}`
  let admin: pg.Client
  let url: string
  beforeAll(async () => {
    admin = new pg.Client({ connectionString: citus })
    await admin.connect()
    await admin.query(`create schema ${schema}`)
    const address = new URL(citus as string)
    address.searchParams.set('options', `-csearch_path=${schema},public`)
    url = address.href
  })
  afterAll(async () => {
    await admin.query(`drop schema ${schema} cascade`)
    await admin.end()
  })

  test('that distributes none of our tables, a service starts', async () => {
    expect(await startWith(url)).toBe('started')
  })

  test('that distributes one of our tables, a start is refused with what to do, and so says the doctor', async () => {
    await admin.query(`set search_path = ${schema}; select create_distributed_table('outbox', 'tenant_id')`)
    expect(await startWith(url)).toMatch(refusalOf('outbox'))
    const folder = new DataFolder()
    const env = folder.env({ DATABASE_URL: url })
    const doctor = new ServiceProcess({ cwd: folder.path, env, args: ['doctor', '--json'] })
    await doctor.exited
    const { findings } = JSON.parse(doctor.stdout) as { findings: object[] }
    const said = { check: 'database.tables', level: 'problem', seen: expect.stringMatching(refusalOf('outbox')) }
    expect(findings).toContainEqual(expect.objectContaining(said))
    await folder.remove()
  })

  test('that distributes their schema, a start is refused', async () => {
    await admin.query(`select undistribute_table('outbox')`)
    await admin.query(`drop schema ${schema} cascade; set citus.enable_schema_based_sharding = on`)
    await admin.query(`create schema ${schema}`)
    await admin.query(
      `create table ${schema}.migrations (name text primary key, checksum text, applied_at timestamptz)`,
    )
    expect(await startWith(url)).toMatch(refusalOf('migrations'))
  })
})
