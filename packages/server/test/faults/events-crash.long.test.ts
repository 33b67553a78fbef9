import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService } from '../harness/harness.ts'
import { PostgresProcess } from '../harness/postgres-process.ts'
import { startReceiver } from '../harness/receiver.ts'
import { query } from '../harness/service-process.ts'
import { expectNothingLost, settle, subscribe, UserLoad } from './load.ts'

let postgres: PostgresProcess
let service: Service
beforeAll(async () => {
  postgres = await PostgresProcess.create()
  // Nothing but a commit that waits for it brings the log to the disk soon.
  await postgres.admin(`alter system set wal_writer_delay = '10s'`)
  await postgres.admin('select pg_reload_conf()')
  service = await startService({ DATABASE_URL: postgres.url })
}, 120_000)
afterAll(async () => {
  await service?.stop()
  await postgres?.remove()
})

test('a place in the feed that was told of is the same after the database was killed', async () => {
  const { admin } = service
  let after = (await admin.get('/events?last=0')).body.data.nextCursor as string
  for (let round = 0; round < 3; round += 1) {
    const waiting = admin.get(`/events?after=${after}&wait=30&type=user.created`)
    const made = (await admin.post('/users', {})).body.data.id
    const told = (await waiting).body.data
    expect(told.events.map(({ data }: { data: { userId: string } }) => data.userId)).toEqual([made])
    await postgres.kill()
    await postgres.start()
    await eventually('the service', async () => (await admin.get('/users')).status === 200, 30_000)
    const rows = await query<{ seq: string }>(
      { connectionString: postgres.url },
      'select f.seq from feed f join feed_heads h using (tenant_id) where f.event_id = $1 and f.seq <= h.seq',
      [told.events[0].id],
    )
    expect(rows).toHaveLength(1)
    const again = await admin.get(`/events?after=${after}&type=user.created`)
    expect(again.body.data.events).toEqual(told.events)
    after = told.nextCursor
    expect((await admin.get(`/events?after=${after}`)).status).toBe(200)
  }
}, 120_000)

test('events with ordering keys stay in their order when the database forgets whatever no commit waited for', async (context) => {
  let gate = Promise.withResolvers<void>()
  const receiver = await startReceiver((_, response) => void gate.promise.then(() => response.end()))
  context.onTestFinished(() => receiver.close())
  const { url, admin } = service
  const paths = await subscribe(url, admin.key, receiver, 2, { ordered: true })
  const load = new UserLoad({ url, key: admin.key })
  for (let round = 0; round < 3; round += 1) {
    // Most are sent once the last publish was answered: then no commit but the engine's brings the log to the disk.
    gate = Promise.withResolvers()
    load.start(4, 4)
    await load.more(120)
    await load.stop()
    const before = receiver.received.length
    gate.resolve()
    await receiver.count('some of the others', before + 60)
    await postgres.kill()
    await postgres.start()
  }
  expectNothingLost(load, new Map(), await settle(load, receiver, paths, 75_000))
}, 240_000)
