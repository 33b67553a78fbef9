import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService } from '../../../test/harness/harness.ts'
import { signIn } from '../../../test/matrix/requests.ts'
import type { Db } from '../db/db.ts'
import { createSigningKeys, rotateSigningKey } from './signing-keys.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** The keys as another process knows them, whose readings are counted and can be held after the database has answered. */
function elsewhere() {
  const { deps } = service
  const readings = { begun: 0, held: Promise.resolve() }
  const db: Db = {
    ...deps.db,
    async query(statement) {
      const rows = await deps.db.query(statement)
      readings.begun += 1
      await readings.held
      return rows as never
    },
  }
  const { keys, signers, log, now } = deps
  return { readings, found: createSigningKeys({ db, keys, signers, log, now }) }
}

test('a new key is found though the keys were being read, for one that nobody has, when it was made', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const { promise, resolve } = Promise.withResolvers<void>()
  readings.held = promise
  const before = readings.begun
  const missed = found.find('unknown')
  await eventually('the keys are read', async () => readings.begun > before)
  const { id } = await rotateSigningKey(service.deps, { revoke: false })
  const first = found.find(id)
  resolve()
  expect(await missed).toBeUndefined()
  expect((await first)?.id).toBe(id)
  expect((await found.current()).id).toBe(id)
})

test('while a reading lasts, unknown ids begin no other', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const { promise, resolve } = Promise.withResolvers<void>()
  readings.held = promise
  const before = readings.begun
  const slow = found.find('unknown')
  await eventually('the keys are read', async () => readings.begun > before)
  const others = Promise.all(Array.from({ length: 20 }, (_, n) => found.find(`unknown ${n}`)))
  // Each gets the time in which a search would begin.
  await service.deps.signingKeys.find('unknown')
  await service.deps.signingKeys.find('unknown')
  expect(readings.begun - before).toBe(1)
  resolve()
  await Promise.all([slow, others])
  expect(readings.begun - before).toBe(2)
})

test('many unknown ids at once share a reading or two', async () => {
  const { readings, found } = elsewhere()
  await found.current()
  const before = readings.begun
  const all = await Promise.all(Array.from({ length: 100 }, (_, n) => found.find(`unknown ${n}`)))
  expect(new Set(all)).toEqual(new Set([undefined]))
  expect(readings.begun - before).toBeLessThanOrEqual(2)
})

test('signing keys that the database gives slowly are waited for: a user’s call does not fail by them', async () => {
  const tenant = await service.newTenant()
  const { accessToken } = await signIn(service, tenant)
  const client = new pg.Client({ connectionString: service.databaseUrl })
  await client.connect()
  await client.query('begin; lock table signing_keys in access exclusive mode')
  // None of the keys that were read before is trusted any more.
  await eventually('the keys have been waited for', async () => {
    const [row] = await service.sql<{ waited: boolean }>(
      `select true as waited from pg_stat_activity where datname = current_database() and application_name = 'halfkey keys'
       and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '2 seconds'`,
    )
    return row?.waited
  })
  await client.query('commit')
  await client.end()
  const { status } = await tenant.get('/users/me', { headers: { authorization: `Bearer ${accessToken}` } })
  expect(status).toBe(200)
})
