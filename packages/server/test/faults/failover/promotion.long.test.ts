import { afterAll, expect, type TestContext, test } from 'vitest'
import { eventually, startService } from '../../harness/harness.ts'
import { PostgresProcess } from '../../harness/postgres-process.ts'
import { startReceiver } from '../../harness/receiver.ts'
import { killAll } from '../../harness/service-process.ts'
import { expectNothingLost, settle, subscribe, UserLoad } from '../load.ts'
import { report } from '../report.ts'

afterAll(killAll)

/** What docs/operating.md says. */
const RECOVERY_MS = 2_000
const READERS = 3
/** So many events with ordering keys before the fault, and after it. */
const ORDERED = 50

/** A primary, its standby, and a service that knows both. */
async function start(context: TestContext, settings: Record<string, string> = {}) {
  const primary = await PostgresProcess.create()
  const standby = await primary.makeStandby('standby')
  const { username, password } = new URL(primary.url)
  // The standby comes first, so that the service must pass over it.
  const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
  const service = await startService({
    DATABASE_URL: `postgres://${username}:${password}@${hosts}/halfkey?target_session_attrs=read-write`,
    ...settings,
  })
  context.onTestFinished(async () => {
    // One that was frozen can end only once it runs again.
    await primary.freeze('SIGCONT').catch(() => {})
    await service.stop()
    await Promise.all([primary.remove(), standby.remove()])
  })
  const replicated = () =>
    eventually('the standby has it all', async () => {
      const [row] = await primary.admin<{ all: boolean }>(
        'select coalesce(bool_and(replay_lsn >= pg_current_wal_insert_lsn()), false) as all from pg_stat_replication',
      )
      return row?.all
    })
  // Under a key of its own each, as any client does that will ask again: what was committed without an answer is not made twice.
  const create = (externalId: string) =>
    service.admin.post('/users', { externalId }, { headers: { 'idempotency-key': externalId } })
  /** @returns the user that is created once the standby takes writes, and how long after that */
  async function promote(externalId: string): Promise<{ userId: string; recoveredMs: number }> {
    await standby.admin('select pg_promote()')
    const promotedAt = performance.now()
    const userId = await eventually('a user', async () => {
      const { status, body } = await create(externalId)
      return status === 201 && (body.data.id as string)
    })
    return { userId, recoveredMs: Math.round(performance.now() - promotedAt) }
  }
  return { primary, standby, service, create, promote, replicated }
}

/** How a primary is lost. Each resolves only once it commits nothing any more: what it still took would be on no standby. */
const WAYS: [name: string, lose: (primary: PostgresProcess) => Promise<void>][] = [
  ['is killed', (primary) => primary.killWithBackends()],
  ['is stopped', (primary) => primary.kill('SIGINT')],
  [
    'turns read-only',
    async (primary) => {
      await primary.admin('alter system set default_transaction_read_only = on')
      await primary.admin('select pg_reload_conf()')
      // A new connection has it only after the older ones were told.
      await eventually('it takes no writes', async () => {
        const [row] = await primary.admin<{ refuses: boolean }>(
          "select current_setting('default_transaction_read_only') = 'on' as refuses",
        )
        return row?.refuses
      })
    },
  ],
  ['hangs with all its connections, as if its machine were gone', (primary) => primary.freeze('SIGSTOP')],
]

test.for(WAYS)(
  'when the primary %s, the service goes on with the promoted standby, without a restart',
  async ([fault, lose], context) => {
    const { primary, standby, service, create, promote, replicated } = await start(context)
    const receiver = await startReceiver()
    await service.admin.post('/webhooks', { url: receiver.url, events: ['user.created'] })
    // Many connections are open and idle: none of them may fail a request later.
    const before = await Promise.all(Array.from({ length: 20 }, (_, n) => create(`before-${n}`)))
    const made = before.map(({ body }) => body.data.id as string)
    await receiver.count('deliveries', 20)
    const orderly = await startReceiver()
    const paths = await subscribe(service.url, service.admin.key, orderly, 1, { ordered: true })
    const load = new UserLoad({ url: service.url, key: service.admin.key }).start(2, 2)
    await load.more(ORDERED)
    await load.stop()
    await replicated()
    await lose(primary)
    const { userId, recoveredMs } = await promote('after')
    made.push(userId)
    const later = await Promise.all(Array.from({ length: 20 }, (_, n) => create(`later-${n}`)))
    expect(later.map(({ status }) => status)).toEqual(later.map(() => 201))
    made.push(...later.map(({ body }) => body.data.id as string))
    // Some may come twice: that one was delivered is not durable at once.
    const told = () => new Set(receiver.received.map(({ event }) => event.data.userId as string))
    await eventually('a delivery of each', async () => made.every((id) => told().has(id)))
    expect([...told()].sort()).toEqual([...made].sort())
    const rows = await standby.admin<{ id: string }>('select id from users', [], 'halfkey')
    expect(rows.map(({ id }) => id).sort()).toEqual([...made].sort())
    report(context, {
      fault: `the primary ${fault}: answers after the promotion of its standby by`,
      acknowledged: made.length,
      delivered: told().size,
      lost: made.length - rows.length,
      duplicates: receiver.received.length - told().size,
      inFlight: null,
      recoveredMs,
      limitMs: RECOVERY_MS,
    })
    await eventually('the bell', async () => service.deps.lifecycle.listener?.listening())
    load.start(2, 2)
    await load.more(ORDERED)
    await load.stop()
    expectNothingLost(load, new Map(), await settle(load, orderly, paths))
    await orderly.close()
    await receiver.close()
  },
)

test('a place in the feed that only the primary has is told of once its synchronous standby has it too', async (context) => {
  const { primary, standby, service, replicated } = await start(context)
  const create = (externalId: string) => service.admin.post('/users', { externalId })
  await create('before')
  const look = async (text: string, values: unknown[] = []) =>
    (await primary.admin<{ found: string | boolean | null }>(`select ${text} as found`, values, 'halfkey'))[0]?.found
  const read = async () => (await service.admin.get('/events')).body.data.events as object[]
  await eventually('the first event', async () => (await look('(select count(*) = 0 from outbox)')) === true)
  const before = await read()
  await replicated()
  await primary.admin("alter system set synchronous_standby_names = 'standby'")
  await primary.admin('select pg_reload_conf()')
  await standby.freeze('SIGSTOP')
  context.onTestFinished(() => standby.freeze('SIGCONT').catch(() => {}))
  const waiting = async (text: string) =>
    primary.admin<{ pid: number }>("select pid from pg_stat_activity where wait_event = 'SyncRep' and query ilike $1", [
      `%${text}%`,
    ])
  const creating = create('alone')
  // Somebody ends the wait: from now on others see what the standby does not have.
  const pid = await eventually('the creation waits', async () => (await waiting('users'))[0]?.pid)
  await primary.admin('select pg_cancel_backend($1)', [pid])
  expect((await creating).status).toBe(201)
  const written = await eventually('the place', () =>
    look('(select pg_current_wal_insert_lsn()::text from feed having count(*) = $1)', [before.length + 1]),
  )
  await eventually('it is on the disk of the primary', () =>
    look('pg_current_wal_flush_lsn() >= $1::pg_lsn', [written]),
  )
  // One after the other: the commit of the first brings everything to the disk for the next ones.
  let told = 0
  const readings: Promise<object[]>[] = []
  while (readings.length < READERS) {
    readings.push(read().finally(() => told++))
    await eventually(
      'a reader waits',
      async () => told > 0 || (await waiting('emit_message')).length === readings.length,
    )
  }
  expect(told).toBe(0)
  await standby.freeze('SIGCONT')
  for (const reading of readings) expect(await reading).toHaveLength(before.length + 1)
})
