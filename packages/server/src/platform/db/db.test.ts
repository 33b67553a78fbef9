import { type AddressInfo, connect, createServer } from 'node:net'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { newDatabase } from '../../../test/harness/harness.ts'
import { openLog } from '../observability/log.ts'
import { type Database, type Db, sql } from './db.ts'
import { openDatabase, openFirstConnection } from './pool.ts'

let database: Awaited<ReturnType<typeof newDatabase>>
let db: Database
beforeAll(async () => {
  database = await newDatabase()
  db = openDatabase({
    connection: { connectionString: database.url },
    connectionsMax: 4,
    applicationName: 'test',
    log: openLog('silent').log,
  })
  await db.run(sql`create table numbers (n integer primary key, times integer not null default 0)`)
  await db.run(sql`insert into numbers (n) values (1), (2)`)
})
afterAll(async () => {
  await db.close()
  await database.drop()
})

const lose = (tx: Db) => tx.run(sql`do $$ begin raise exception using errcode = '40001'; end $$`)

test('two transactions that lock each other out both commit, and each has its effects once', async () => {
  let effects = 0
  let tries = 0
  let arrived = 0
  let goOn = () => {}
  const both = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const add = (tx: Db, n: number) => tx.run(sql`update numbers set times = times + 1 where n = ${n}`)
  const turn = (first: number, second: number) =>
    db.tx(async (tx) => {
      tries += 1
      tx.afterCommit(() => {
        effects += 1
      })
      await add(tx, first)
      arrived += 1
      if (arrived === 2) goOn()
      await both
      await add(tx, second)
    })
  await Promise.all([turn(1, 2), turn(2, 1)])
  expect(tries).toBe(3)
  expect(effects).toBe(2)
  expect(await db.query(sql`select n, times from numbers order by n`)).toEqual([
    { n: 1, times: 2 },
    { n: 2, times: 2 },
  ])
})

test('a transaction is begun anew once and from its outside; a second loss, and any other failure, is thrown', async () => {
  const tries = { inner: 0, outer: 0, other: 0 }
  const lost = db.tx(async (tx) => {
    tries.outer += 1
    await tx.tx(async (inner) => {
      tries.inner += 1
      await lose(inner)
    })
  })
  await expect(lost).rejects.toMatchObject({ code: '40001' })
  const failed = db.tx(async (tx) => {
    tries.other += 1
    await tx.run(sql`select 1 / 0`)
  })
  await expect(failed).rejects.toMatchObject({ code: '22012' })
  expect(tries).toEqual({ inner: 2, outer: 2, other: 1 })
})

test('a start waits for its first connection longer than a request does', async () => {
  const { host, port, user, password, database: name } = inject('postgres')
  // Two callers wait until they give up; the next caller is connected to the database.
  let callers = 0
  const slow = createServer((socket) => {
    socket.on('error', () => {})
    callers += 1
    // Read, so that it is seen to leave.
    if (callers <= 2) return void socket.resume()
    const there = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    there.on('error', () => socket.destroy())
    socket.pipe(there).pipe(socket)
  })
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
  const starting = openDatabase({
    connection: { host: '127.0.0.1', port: (slow.address() as AddressInfo).port, user, password, database: name },
    connectionsMax: 1,
    applicationName: 'test',
    log: openLog('silent').log,
    acquireTimeoutMs: 1_000,
  })
  await expect(starting.run(sql`select 1`)).rejects.toThrow(/timeout/)
  await openFirstConnection(starting)
  expect(callers).toBeGreaterThanOrEqual(3)
  expect(await starting.query(sql`select 1 as one`)).toEqual([{ one: 1 }])
  await starting.close()
  await new Promise((resolve) => slow.close(resolve))
})

test('a start does not wait when waiting cannot help', async () => {
  const wrong = openDatabase({
    connection: { connectionString: database.url.replace(/\/\w+$/, '/no_such_database') },
    connectionsMax: 1,
    applicationName: 'test',
    log: openLog('silent').log,
  })
  await expect(openFirstConnection(wrong)).rejects.toMatchObject({ code: '3D000' })
  await wrong.close()
})

test('rows have the columns that a table has now, on a connection that has read it before', async () => {
  const one = openDatabase({
    connection: { connectionString: database.url },
    connectionsMax: 1,
    applicationName: 'test',
    log: openLog('silent').log,
  })
  const read = () => one.query(sql`select * from shapes where n < 3 order by n`)
  try {
    await one.run(sql`create table shapes (n int8, word text, at timestamptz)`)
    expect([await read(), await read()]).toEqual([[], []])
    await one.run(sql`insert into shapes values (1, null, null), (2, 'two', '2026-01-02T03:04:05Z')`)
    const rows = [
      { n: 1, word: null, at: null },
      { n: 2, word: 'two', at: new Date('2026-01-02T03:04:05Z') },
    ]
    expect([await read(), await read(), await read()]).toEqual([rows, rows, rows])
    await one.run(sql`alter table shapes drop column word, add column size integer default 7`)
    const changed = rows.map(({ n, at }) => ({ n, at, size: 7 }))
    expect([await read(), await read()]).toEqual([changed, changed])
    const divide = (by: number) => one.query(sql`select 6 / ${by}::integer as times, 'x' as letter`)
    expect(await divide(2)).toEqual([{ times: 3, letter: 'x' }])
    await expect(divide(0)).rejects.toThrow('division by zero')
    expect(await divide(3)).toEqual([{ times: 2, letter: 'x' }])
    await one.run(sql`alter table shapes alter column size type text`)
    expect((await read())[0]).toEqual({ ...changed[0], size: '7' })
  } finally {
    await one.close()
  }
})
