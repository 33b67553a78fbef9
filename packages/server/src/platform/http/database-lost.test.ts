import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { directUrl } from '../../../test/harness/environment.ts'
import { eventually, newDatabase, startService } from '../../../test/harness/harness.ts'
import { query } from '../../../test/harness/service-process.ts'

test('a request whose connection to the database is reset is not told that it was malformed', async (context) => {
  const { host, port } = inject('postgres')
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
    sockets.add(client)
    for (const [from, to] of [[client, server] as const, [server, client] as const]) {
      from.pipe(to)
      from.on('error', () => to.destroy())
      from.on('close', () => to.destroy())
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const database = await newDatabase('migrated')
  const direct = new URL(directUrl(database.url))
  const { username, password, pathname } = direct
  const through = `postgres://${username}:${password}@127.0.0.1:${(proxy.address() as AddressInfo).port}${pathname}`
  const service = await startService({ DATABASE_URL: through })
  context.onTestFinished(async () => {
    await service.stop()
    proxy.close()
    await database.drop()
  })
  await service.admin.post('/users', {})
  const sql = (text: string) => query<{ n: number }>({ connectionString: direct.href }, text)
  const holder = new pg.Client({ connectionString: direct.href })
  await holder.connect()
  await holder.query('begin; lock table users in exclusive mode')
  // The background waits for this lock too.
  const waiting = `select count(*)::int as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query ilike '%insert into users%'`
  await eventually(
    'the lock',
    async () =>
      (
        await sql(
          "select count(*)::int as n from pg_locks where mode = 'ExclusiveLock' and relation = 'users'::regclass",
        )
      )[0]?.n,
  )
  const creating = service.admin.post('/users', { name: 'reset' })
  await eventually('the request waits', async () => (await sql(waiting))[0]?.n)
  for (const socket of sockets) socket.resetAndDestroy()
  const { status, body } = await creating
  expect([status, body.code]).toEqual([500, 'internal_error'])
  await holder.end()
  await eventually('it works again', async () => (await service.admin.post('/users', {})).status === 201)
})
