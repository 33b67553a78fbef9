import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { insertEvents } from './delivery.fixture.ts'
import { createFanOut } from './fan-out.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  // Nothing is fanned out but by these tests.
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const waiting = async ({ tenantId }: Tenant) =>
  (await service.sql('select 1 from outbox where tenant_id = $1', [tenantId])).length

test('a backlog from before the worker started leaves without a pause, however many batches it is', async () => {
  const tenant = await service.newTenant()
  await insertEvents(service, tenant, 1_000, Date.now() - MINUTE_MS)
  // No time passes.
  const fanOut = createFanOut({ asyncCommit: service.deps.db, now: service.deps.now, monotonicMs: () => 0 })
  while ((await fanOut()).more);
  expect(await waiting(tenant)).toBe(0)
})

test('a transaction that commits long after it began is seen within a second, also beside newer events', async () => {
  const tenant = await service.newTenant()
  let nowMs = 0
  const fanOut = createFanOut({ asyncCommit: service.deps.db, now: service.deps.now, monotonicMs: () => nowMs })
  while ((await fanOut()).more);
  await insertEvents(service, tenant, 10, Date.now() - MINUTE_MS)
  // In the future, so that they are newer however long this takes.
  await insertEvents(service, tenant, 10, Date.now() + MINUTE_MS)
  while ((await fanOut()).more);
  expect(await waiting(tenant)).toBe(10)
  nowMs = 1_001
  while ((await fanOut()).more);
  expect(await waiting(tenant)).toBe(0)
})
