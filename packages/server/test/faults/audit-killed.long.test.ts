import { afterAll, expect, it, type TestContext } from 'vitest'
import { eventually } from '../harness/harness.ts'
import { killAll, ServiceProcess } from '../harness/service-process.ts'
import { startApart } from './apart.ts'
import { UserLoad } from './load.ts'
import { report, scale } from './report.ts'

const TEST_MS = 240_000 + 30_000 * scale

afterAll(killAll)

it(
  'kill -9 of workers that write the audit log never forks it, and no event is in it twice or missing',
  async (context: TestContext) => {
    const apart = await startApart(context)
    const { api, key, sql } = apart
    const workers = [await apart.start('worker'), await apart.start('worker')]
    const load = new UserLoad({ url: api.url, key }).start()
    const headSeq = async () => Number((await sql<{ seq: string }>('select seq from audit_heads'))[0]?.seq ?? 0)
    const rounds = 3 * scale
    for (let round = 0; round < rounds; round += 1) {
      const before = await headSeq()
      await load.more(40 + Math.floor(Math.random() * 80))
      // Acts that are no events go another way into the same chain.
      await Promise.all(
        Array.from({ length: 5 }, () =>
          api.call(key, 'POST', '/webhooks', { body: { url: 'http://127.0.0.2:49150/', events: ['app.deleted'] } }),
        ),
      )
      // While entries are being written, by either of them.
      await eventually('more entries', async () => (await headSeq()) > before)
      const victim = workers.shift() as ServiceProcess
      await victim.kill()
      workers.push(await apart.start('worker'))
    }
    await load.stop()
    const counts = async () => {
      const [row] = await sql<{ events: number; waiting: number; entries: number; head: number }>(
        `select (select count(*)::int from events) as events,
           (select count(*)::int from audit_only_entries) + (select count(*)::int from outbox) as waiting,
           (select count(*)::int from audit_entries) as entries, (select seq::int from audit_heads) as head`,
      )
      return row as NonNullable<typeof row>
    }
    const notes = 5 * rounds + 1
    const done = await eventually(
      'an entry for each event and note',
      async () => {
        const now = await counts()
        return now.waiting === 0 && now.entries >= now.events + notes && now
      },
      60_000,
    )
    expect(done).toEqual({ events: done.events, waiting: 0, entries: done.events + notes, head: done.events + notes })
    const [lost] = await sql<{ n: number }>(
      'select count(*)::int as n from events e where not exists (select from audit_entries a where a.event_id = e.id)',
    )
    expect(lost?.n).toBe(0)
    const [twice] = await sql<{ n: number }>(
      'select count(event_id)::int - count(distinct event_id)::int as n from audit_entries',
    )
    expect(twice?.n).toBe(0)
    const counted = await sql<{ n: number }>('select sum(n)::int as n from audit_counts group by hours')
    expect(counted.map(({ n }) => n)).toEqual([done.entries, done.entries])
    const verify = new ServiceProcess({
      cwd: apart.folder.path,
      env: apart.folder.env({ DATABASE_URL: apart.databaseUrl }),
      args: ['audit', 'verify'],
    })
    expect(await verify.exited, verify.stderr).toEqual({ code: 0, signal: null })
    expect(verify.stdout).toContain(`${done.entries} entries, head ${done.entries}:`)
    report(context, {
      fault: `kill -9 among audit entries, two workers, × ${rounds}`,
      acknowledged: load.acknowledged.size,
      delivered: null,
      lost: 0,
      duplicates: 0,
      inFlight: null,
      recoveredMs: null,
    })
  },
  TEST_MS,
)
