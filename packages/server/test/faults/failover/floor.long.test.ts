import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, type TestContext, test } from 'vitest'
import { expectError } from '../../harness/envelope.ts'
import { call, eventually, type Service, startService } from '../../harness/harness.ts'
import { PostgresProcess } from '../../harness/postgres-process.ts'
import { killAll } from '../../harness/service-process.ts'

afterAll(killAll)

const readyz = async (service: Service) => (await call(service.url, 'GET', '/readyz')).status

/** A primary, its standby, and a service with a floor that knows both. */
async function start(context: TestContext) {
  const primary = await PostgresProcess.create()
  const standby = await primary.makeStandby('standby')
  const { username, password } = new URL(primary.url)
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-floor-'))
  const floor = join(folder, 'floor')
  const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`
  const service = await startService({
    DATABASE_URL: `postgres://${username}:${password}@${hosts}/halfkey?target_session_attrs=read-write`,
    HALFKEY_FLOOR: floor,
  })
  context.onTestFinished(async () => {
    await service.stop()
    await Promise.all([primary.remove(), standby.remove()])
    rmSync(folder, { recursive: true })
  })
  const counted = () => JSON.parse(readFileSync(floor, 'utf8').split('\n')[0] as string).counters.records as number
  return { primary, standby, service, counted }
}

test('a failover to a synchronous standby never trips the floor, whatever was written in the last moment', async (context) => {
  const { primary, standby, service, counted } = await start(context)
  await primary.admin("alter system set synchronous_standby_names = 'standby'")
  await primary.admin('select pg_reload_conf()')
  const from = counted()
  let isOver = false
  const changes = (async () => {
    while (!isOver) await service.admin.post('/users', {}).catch(() => {})
  })()
  await eventually('a higher floor', async () => counted() > from)
  await primary.kill()
  await standby.admin('select pg_promote()')
  const at = counted()
  await eventually('the floor rises with the promoted standby', async () => counted() > at)
  isOver = true
  await changes
  expect(await readyz(service)).toBe(200)
  expect(service.logs()).not.toContain('behind its floor')
})

test('a failover that loses acknowledged changes trips it', async (context) => {
  const { primary, standby, service, counted } = await start(context)
  await eventually('the standby has it all', async () => {
    const [row] = await primary.admin<{ all: boolean }>(
      'select coalesce(bool_and(replay_lsn >= pg_current_wal_insert_lsn()), false) as all from pg_stat_replication',
    )
    return row?.all
  })
  await standby.kill('SIGINT')
  const from = counted()
  // A sequence is logged in steps of 32: as many changes are sure to be beyond the step that the standby knows.
  for (let user = 0; user < 40; user += 1) expect((await service.admin.post('/users', {})).status).toBe(201)
  await eventually('a higher floor', async () => counted() >= from + 40)
  await primary.kill()
  await standby.start()
  await standby.admin('select pg_promote()')
  await eventually('the refusal', async () => service.logs().includes('the database is behind its floor'))
  expectError(await service.admin.get('/users'), 500, 'database_behind_floor')
  expect(await readyz(service)).toBe(503)
})
