import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../../test/harness/harness.ts'
import { DataFolder, killAll, startProcess } from '../../../test/harness/service-process.ts'
import { halfkey, type Installation, newInstallation } from './restore.fixture.ts'

const KILLS = 4
const HOUR_MS = 3_600_000

let installation: Installation
let folder: DataFolder
beforeAll(async () => {
  installation = await newInstallation()
  folder = new DataFolder()
})
afterAll(async () => {
  await killAll()
  await folder.remove()
  await installation.remove()
})

test('processes that are killed between their writes leave a whole floor that never falls and never cries wolf', async () => {
  const { floor } = installation
  const counted = () => JSON.parse(readFileSync(floor, 'utf8').split('\n')[0] as string).counters.records as number
  let key = ''
  let before = 0
  for (let kill = 0; kill < KILLS; kill += 1) {
    const process = await startProcess({ cwd: folder.path, env: folder.env(installation.settings()) })
    if (kill === 0) key = process.key
    expect(await process.readyz()).toBe(200)
    await eventually('a floor that is not lower', async () => counted() >= before)
    // Changes that some of the writes of the floor still note, and others do not.
    let stops = false
    const changes = (async () => {
      while (!stops) await process.call(key, 'POST', '/users', { body: {} }).catch(() => {})
    })()
    const from = counted()
    await eventually('a higher floor', async () => counted() > from)
    await process.kill()
    stops = true
    await changes
    expect(counted()).toBeGreaterThan(before)
    before = counted()
  }
  const [draft, fresh] = [`${floor}.0123456789ab.new`, `${floor}.ba9876543210.new`]
  for (const each of [draft, fresh]) writeFileSync(each, 'half of a')
  const long = new Date(Date.now() - HOUR_MS)
  utimesSync(draft, long, long)
  const last = await installation.start()
  expect((await halfkey(last, 'restore', 'show')).exitCode).toBe(0)
  await last.newTenant()
  await eventually('a higher floor', async () => counted() > before)
  // A draft may be another process's that is about to be renamed, as now and then there is one of this process.
  const drafts = () => readdirSync(dirname(floor)).filter((name) => name.endsWith('.new'))
  await eventually('the old draft is gone', async () => drafts().length === 1)
  expect(drafts()).toContain(basename(fresh))
  await last.stop()
})
