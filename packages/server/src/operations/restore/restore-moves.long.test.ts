import { existsSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, eventually } from '../../../test/harness/harness.ts'
import { rotateKek } from '../cli/commands/keys/kek-rotation.ts'
import { addFirstKey } from '../cli/commands/keys/key-file-change.ts'
import { createProgress } from '../cli/progress.ts'
import { exportTo, importFrom, newWorkbench } from '../transfer/transfer.fixture.ts'
import { type Installation, marksIn, newInstallation, readyz } from './restore.fixture.ts'

/** A rotation without the long waits. */
const QUIET = { progress: createProgress({ err: () => {} }), noticeMs: 1_500, settleMs: 2_000 }

let installation: Installation
beforeAll(async () => {
  installation = await newInstallation()
})
afterAll(() => installation.remove())

test('the floor stays readable while the key-encryption key is exchanged, and needs the old one no more', async () => {
  const service = await installation.start()
  const lines = () => readFileSync(installation.floor, 'utf8').split('\n')
  await eventually('a floor', async () => existsSync(installation.floor))
  const before = lines()
  const keyFile = service.deps.config.kekFile as string
  const [old] = readFileSync(keyFile, 'utf8').trim().split('\n')
  // By the process alone, which does nothing else with its keys.
  await addFirstKey(keyFile)
  await eventually('the floor under the new key', async () => lines()[1] !== before[1])
  await rotateKek(service.deps, { ...QUIET, dropOld: true })
  expect(readFileSync(keyFile, 'utf8')).not.toContain(old)
  await service.newTenant()
  expect((await readyz(service)).status).toBe(200)
  await service.stop()
  const second = await installation.start()
  expect([(await readyz(second)).status, second.logs().includes('does not verify')]).toEqual([200, false])
  await second.stop()
})

test('the floor rises with an import, and lets the installation go on that the tenant left', async () => {
  const bench = newWorkbench()
  const other = await newInstallation()
  const [from, to] = [await installation.start(), await other.start()]
  const tenant = await from.newTenant()
  await tenant.post('/users', {})
  await eventually('its log', async () => marksIn(installation.floor).chains[`audit ${tenant.tenantId}`])
  const [file, key] = [bench.path('tenant.halfkey'), bench.newKey()]
  await exportTo(from, tenant.tenantId, file, key)
  expect(await importFrom(to, file, key)).toMatchObject({ exitCode: 0 })
  await eventually('its log', async () => marksIn(other.floor).chains[`audit ${tenant.tenantId}`])
  for (const [service, at] of [
    [from, installation],
    [to, other],
  ] as const) {
    await service.stop()
    const next = await at.start()
    expect((await readyz(next)).status).toBe(200)
    expect((await call(next.url, 'GET', '/v1/users', { key: tenant.key })).status).toBe(200)
    await next.stop()
  }
  await other.remove()
  bench.remove()
})
