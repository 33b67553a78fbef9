import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { directUrl } from '../../../test/harness/environment.ts'
import { eventually, newDatabase, type Service, startService } from '../../../test/harness/harness.ts'
import {
  NO_PGBOUNCER,
  oldPgbouncerProgram,
  type PgBouncerProcess,
  pgbouncerProgram,
  startPgBouncer,
} from '../../../test/harness/pgbouncer-process.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { DataFolder, query, ServiceProcess } from '../../../test/harness/service-process.ts'
import { createSignal, type Listener, listen } from '../events/signal.ts'
import { openLog } from '../observability/log.ts'
import { type Database, type Db, sql } from './db.ts'
import { openDatabase } from './pool.ts'

const program = pgbouncerProgram()
const old = oldPgbouncerProgram()

let server: string
let drop: () => Promise<void>
beforeAll(async () => {
  const database = await newDatabase('migrated')
  server = directUrl(database.url)
  drop = database.drop
})
afterAll(() => drop())

/** What a start says with these addresses. */
const startWith = (url: string, direct = '') =>
  startService({ DATABASE_URL: url, DATABASE_DIRECT_URL: direct }).then(
    async (service) => {
      await service.stop()
      return 'started'
    },
    (error: Error) => error.message,
  )

/** What a start says behind a PgBouncer with these settings. */
async function startBehind(settings: Record<string, string | null>, by = program as string): Promise<string> {
  const pooler = await startPgBouncer(by, server, settings)
  const said = await startWith(pooler.through(server), server)
  await pooler.stop()
  return said
}

describe.skipIf(program === null)(`behind a PgBouncer in transaction mode (${program ?? NO_PGBOUNCER})`, () => {
  let pooler: PgBouncerProcess
  let url: string
  let db: Database
  beforeAll(async () => {
    pooler = await startPgBouncer(program as string, server)
    url = pooler.through(server)
    db = openDatabase({
      connection: { connectionString: url, pooled: true },
      connectionsMax: 4,
      applicationName: 'test',
      log: openLog('silent').log,
      settings: { enable_seqscan: 'off' },
      statementTimeoutMs: 700,
    })
    await db.run(sql`create table numbers (n integer primary key)`)
  })
  afterAll(async () => {
    await db.close()
    await pooler.stop()
  })

  test('a start without a direct address, or with a pooled one, is refused with what to do', async () => {
    expect(await startWith(url)).toMatch(/^DATABASE_URL leads to a pooler.*set DATABASE_DIRECT_URL/)
    expect(await startWith(url, url.replace('127.0.0.1', 'localhost'))).toMatch(
      /^DATABASE_DIRECT_URL leads to a pooler/,
    )
  })

  test('a start with addresses of different databases is refused', async () => {
    const other = await newDatabase()
    expect(await startWith(url, directUrl(other.url))).toMatch(/lead to different databases/)
    await other.drop()
  })

  test('a pooler that loses statements, has too few sessions or refuses transactions is refused with what to do', async () => {
    expect(await startBehind({ max_prepared_statements: '0' })).toMatch(
      /loses prepared statements.*max_prepared_statements = 1000/,
    )
    expect(await startBehind({ default_pool_size: '1' })).toMatch(/the same session.*default_pool_size/)
    expect(await startBehind({ pool_mode: 'statement' })).toMatch(
      /could not run a transaction.*pool_mode = transaction/,
    )
  })

  test('a pooler in session mode needs no direct address', async () => {
    const session = await startPgBouncer(program as string, server, { pool_mode: 'session', default_pool_size: '60' })
    expect(await startWith(session.through(server))).toBe('started')
    await session.stop()
  })

  test('every statement has its settings, in a transaction and alone, and leaves none behind', async () => {
    const look = async (on: Db) =>
      (await on.query(sql`select current_setting('statement_timeout') as t, current_setting('enable_seqscan') as s`))[0]
    expect(await look(db)).toEqual({ t: '700ms', s: 'off' })
    expect(await db.tx(look)).toEqual({ t: '700ms', s: 'off' })
    for (let look = 0; look < 4; look++)
      expect(await query({ connectionString: url }, 'show statement_timeout')).toEqual([{ statement_timeout: '0' }])
    await expect(db.run(sql`select pg_sleep(60)`)).rejects.toMatchObject({ code: '57014' })
  })

  test('a statement that fails alone leaves nothing, and its connection is used again', async () => {
    await db.run(sql`insert into numbers values (1)`)
    const { total } = db.stats()
    await expect(db.run(sql`insert into numbers select generate_series(2, 0, -1)`)).rejects.toMatchObject({
      code: '23505',
    })
    expect(await db.query(sql`select n from numbers`)).toEqual([{ n: 1 }])
    expect(db.stats().total).toBe(total)
  })

  test('a table that changes under prepared statements fails none of them', async () => {
    const read = (on: Db) => on.query(sql`select * from numbers`)
    const readAll = () => Promise.all([read(db), db.tx(read), read(db), db.tx(read)])
    await readAll()
    await query({ connectionString: server }, 'alter table numbers add column note text')
    const row = [{ n: 1, note: null }]
    expect(await readAll()).toEqual([row, row, row, row])
  })

  test('a listener behind the pooler hears nothing, does not believe that it listens, and says so once', async () => {
    const lines: string[] = []
    const sink = new Writable({
      write(chunk, _, done) {
        lines.push(String(chunk))
        done()
      },
    })
    const { log } = openLog('warn', sink as never)
    const signals = { outbox: createSignal(), due: createSignal(), tasks: createSignal() }
    const deaf = listen({ connectionString: url }, signals, { probeDb: db, log })
    const direct: Listener = listen({ connectionString: server }, signals, { probeDb: db, log })
    await eventually('the other one listens', async () => direct.listening())
    await eventually('a warning', async () => lines.length > 0)
    expect(deaf.listening()).toBe(false)
    expect(lines.join('')).toMatch(/notifications are not heard.*DATABASE_DIRECT_URL/)
    await Promise.all([deaf.close(), direct.close()])
  })

  test('the doctor names what is wrong with the addresses, and what is right', async () => {
    const folder = new DataFolder()
    const examine = async (settings: Record<string, string>) => {
      const run = new ServiceProcess({ cwd: folder.path, env: folder.env(settings), args: ['doctor', '--json'] })
      await run.exited
      const { findings } = JSON.parse(run.stdout) as { findings: { check: string; level: string }[] }
      return findings.flatMap(({ check, level }) => (check.startsWith('database.') ? [`${level} ${check}`] : []))
    }
    expect(await examine({ DATABASE_URL: url })).toContain('problem database.pooler')
    const right = await examine({ DATABASE_URL: url, DATABASE_DIRECT_URL: server })
    expect(right).toEqual(
      expect.arrayContaining(['ok database.pooler', 'ok database.notifications', 'note database.connections']),
    )
    await folder.remove()
  })

  test('a service behind the pooler answers, delivers and hears its notifications', async () => {
    const receiver = await startReceiver()
    const own = await newDatabase('migrated')
    const direct = directUrl(own.url)
    const service: Service = await startService({
      DATABASE_URL: pooler.through(direct),
      DATABASE_DIRECT_URL: direct,
    })
    await eventually('the bell', async () => service.deps.lifecycle.listener?.listening())
    const hook = await service.admin.post('/webhooks', { url: receiver.url, events: ['user.created'] })
    expect(hook.status).toBe(201)
    const users = await Promise.all(
      Array.from({ length: 40 }, (_, n) => service.admin.post('/users', { externalId: `u${n}` })),
    )
    expect(users.map(({ status }) => status)).toEqual(users.map(() => 201))
    await receiver.count('deliveries', users.length)
    await service.stop()
    await own.drop()
    await receiver.close()
  })
})

test.skipIf(old === null)('a PgBouncer before 1.21 is refused with the reason', async () => {
  expect(await startBehind({ max_prepared_statements: null }, old as string)).toMatch(
    /loses prepared statements \(prepared statement .*\)\. .*from version 1\.21 on.*Update PgBouncer/,
  )
})
