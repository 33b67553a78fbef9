import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { directUrl } from '../../../test/harness/environment.ts'
import { newDatabase, startService } from '../../../test/harness/harness.ts'
import { NO_PGBOUNCER, pgbouncerProgram, startPgBouncer } from '../../../test/harness/pgbouncer-process.ts'

const CLIENTS = 2_000
const CLIENTS_AT_ONCE = 50

const program = pgbouncerProgram()
const clients: pg.Client[] = []
afterAll(() => {
  for (const client of clients) client.connection.stream.destroy()
})

test.skipIf(program === null)(
  `with 2 000 clients at one PgBouncer, a service works beside them (${program ?? NO_PGBOUNCER})`,
  async () => {
    const database = await newDatabase('migrated')
    const server = directUrl(database.url)
    const pooler = await startPgBouncer(program as string, server)
    const url = pooler.through(server)
    const service = await startService({ DATABASE_URL: url, DATABASE_DIRECT_URL: server })
    for (let made = 0; made < CLIENTS; made += CLIENTS_AT_ONCE) {
      const some = Array.from({ length: CLIENTS_AT_ONCE }, () => new pg.Client({ connectionString: url }))
      clients.push(...some)
      await Promise.all(some.map((client) => client.on('error', () => {}).connect()))
    }
    // Each prepares the same statement under a name, and uses it twice, in whichever session it is given.
    const ask = async (client: pg.Client, n: number) => {
      const { rows } = await client.query<{ n: number }>({
        name: 'twice',
        text: 'select 2 * $1::int as n',
        values: [n],
      })
      return rows[0]?.n
    }
    for (let turn = 0; turn < 2; turn++) {
      const answers = clients.map((client, n) => ask(client, n))
      const users = Array.from({ length: 100 }, (_, n) => service.admin.post('/users', { externalId: `u${turn}-${n}` }))
      expect(await Promise.all(answers)).toEqual(clients.map((_, n) => 2 * n))
      expect((await Promise.all(users)).map(({ status }) => status)).toEqual(users.map(() => 201))
    }
    const [sessions] = await service.sql<{ n: number }>(
      'select count(*)::int as n from pg_stat_activity where datname = current_database()',
    )
    expect(sessions?.n).toBeLessThan(60)
    await service.stop()
    await pooler.stop()
    await database.drop()
  },
)
