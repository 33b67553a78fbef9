import { afterAll, expect, type TestContext, test } from 'vitest'
import { eventually, startService } from '../../harness/harness.ts'
import { PostgresProcess } from '../../harness/postgres-process.ts'
import { startReceiver } from '../../harness/receiver.ts'
import { killAll } from '../../harness/service-process.ts'
import { expectNothingLost, settle, subscribe, UserLoad } from '../load.ts'

afterAll(killAll)

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
  const create = (externalId: string) => service.admin.post('/users', { externalId })
  /** How long after the promotion a user is created. */
  async function promote(externalId: string): Promise<number> {
    await standby.admin('select pg_promote()')
    const at = performance.now()
    await eventually('a user', async () => (await create(externalId)).status === 201)
    return performance.now() - at
  }
  return { primary, standby, service, create, promote, replicated }
}

const WAYS: [name: string, lose: (primary: PostgresProcess) => Promise<void>][] = [
  ['is killed', (primary) => primary.kill()],
  ['is stopped', (primary) => primary.kill('SIGINT')],
  [
    'turns read-only',
    async (primary) => {
      await primary.admin('alter system set default_transaction_read_only = on')
      await primary.admin('select pg_reload_conf()')
    },
  ],
  ['hangs with all its connections, as if its machine were gone', (primary) => primary.freeze('SIGSTOP')],
]

test.for(WAYS)(
  'when the primary %s, the service goes on with the promoted standby, without a restart',
  async ([, lose], context) => {
    const { primary, standby, service, create, promote, replicated } = await start(context)
    const receiver = await startReceiver()
    await service.admin.post('/webhooks', { url: receiver.url, events: ['user.created'] })
    // Many connections are open and idle: none of them may fail a request later.
    await Promise.all(Array.from({ length: 20 }, (_, n) => create(`before-${n}`)))
    await receiver.count('deliveries', 20)
    const orderly = await startReceiver()
    const paths = await subscribe(service.url, service.admin.key, orderly, 1, { ordered: true })
    const load = new UserLoad({ url: service.url, key: service.admin.key }).start(2, 2)
    await load.more(ORDERED)
    await load.stop()
    await replicated()
    await lose(primary)
    expect(await promote('after')).toBeLessThan(RECOVERY_MS)
    const all = await Promise.all(Array.from({ length: 20 }, (_, n) => create(`later-${n}`)))
    expect(all.map(({ status }) => status)).toEqual(all.map(() => 201))
    await receiver.count('deliveries of after', 41)
    expect((await standby.admin<{ n: number }>('select count(*)::int as n from users', [], 'halfkey'))[0]?.n).toBe(41)
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
  const { primary, standby, service, create, replicated } = await start(context)
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
