import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { killAll, ServiceProcess } from '../../../test/harness/service-process.ts'

let service: Service
let folder: string
beforeAll(async () => {
  service = await startService()
  folder = mkdtempSync(join(tmpdir(), 'halfkey-doctor-'))
})
afterAll(async () => {
  await killAll()
  rmSync(folder, { recursive: true, force: true })
  await service.stop()
})

async function examine(env: Record<string, string>) {
  const run = new ServiceProcess({ cwd: folder, env, args: ['doctor', '--json'] })
  const { code } = await run.exited
  const { findings } = JSON.parse(run.stdout) as { findings: { check: string; level: string; fix: string | null }[] }
  return { code, findings, problems: findings.filter(({ level }) => level === 'problem') }
}

test('of a service that runs the only problem is that the PostgreSQL of the tests does not wait for the disk', async () => {
  const { code, findings, problems } = await examine({
    DATABASE_URL: service.databaseUrl,
    HALFKEY_DATA_DIR: service.dataDir,
  })
  expect([code, [...new Set(problems.map(({ check }) => check))]]).toEqual([1, ['database.durability']])
  expect(findings.filter(({ level }) => level === 'ok').length).toBeGreaterThan(5)
})

test('a wrong setting is a problem with what to do, and what can be looked at all the same is', async () => {
  const { code, findings, problems } = await examine({
    DATABASE_URL: service.databaseUrl,
    HALFKEY_DATA_DIR: service.dataDir,
    HALFKEY_DATABASE_CONNECTIONS: '7',
  })
  expect(code).toBe(1)
  expect(problems.every(({ fix }) => fix !== null)).toBe(true)
  expect(findings.length).toBeGreaterThan(problems.length)
})
