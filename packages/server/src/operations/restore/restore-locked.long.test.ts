import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, eventually, type Service } from '../../../test/harness/harness.ts'
import { query } from '../../../test/harness/service-process.ts'
import { halfkey, type Installation, newInstallation } from './restore.fixture.ts'

let installation: Installation
let service: Service
beforeAll(async () => {
  installation = await newInstallation()
  service = await installation.start()
})
afterAll(async () => {
  await service.stop()
  await installation.remove()
})

const readyz = () => call(service.url, 'GET', '/readyz')

test('whoever locks what a comparison reads is answered no longer than a comparison counts', async () => {
  const tenant = await service.newTenant()
  expect((await tenant.get('/users')).status).toBe(200)
  const { DATABASE_URL: connectionString } = installation.settings()
  // Ends when its backend is ended: a lock is held for as long as its session sleeps.
  const locked = query({ connectionString }, 'begin; lock table accepted_restores; select pg_sleep(300)').catch(
    () => {},
  )
  await eventually('the refusal', async () => (await readyz()).status === 503)
  expectError(await tenant.get('/users'), 500, 'not_ready')
  expect((await readyz()).body.details).toEqual([expect.objectContaining({ name: 'floor' })])
  expect((await call(service.url, 'GET', '/metrics')).text).toContain('halfkey_floor_behind 1')
  expect((await halfkey(service, 'restore', 'show')).exitCode).not.toBe(0)
  await service.sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(300)%' and pid <> pg_backend_pid()",
  )
  await locked
  await eventually('readiness', async () => (await readyz()).status === 200)
  expect((await tenant.get('/users')).status).toBe(200)
})
