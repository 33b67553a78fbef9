import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { call, eventually } from '../harness/harness.ts'
import { startReceiver } from '../harness/receiver.ts'
import { DataFolder, killAll, startProcess } from '../harness/service-process.ts'
import { expectNothingLost, listUsers, settle, subscribe, UserLoad } from './load.ts'
import { long, report } from './report.ts'

const DISK_BYTES = 400 * 1024 * 1024
/** So much is left when the load meets the full disk. */
const LEFT_BYTES = 2 * 1024 * 1024
const FULL_MS = 120_000
const TEST_MS = 400_000

afterAll(killAll)

/** A small file system for the data folder; null where this user may not mount one. */
function mountSmall(path: string): { unmount(): void } | null {
  mkdirSync(path, { mode: 0o711 })
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=0711`, 'tmpfs', path], { stdio: 'pipe' })
  } catch {
    return null
  }
  return { unmount: () => execFileSync('umount', ['-l', path]) }
}

it.skipIf(!long)(
  'a full disk: writes fail cleanly, nothing acknowledged is lost, and all goes on by itself once there is room',
  async (context) => {
    const folder = new DataFolder()
    const disk = mountSmall(folder.dataDir)
    context.onTestFinished(async () => {
      await folder.remove().catch(() => {})
      disk?.unmount()
      rmSync(folder.path, { recursive: true, force: true })
    })
    if (disk === null) return context.skip('this user may not mount a small file system')
    const receiver = await startReceiver()
    context.onTestFinished(() => receiver.close())
    const service = await startProcess({ cwd: folder.path, env: folder.env() })
    const paths = await subscribe(service.url, service.key, receiver, 2, { ordered: true })
    const load = new UserLoad({ url: service.url, key: service.key }).start(4, 1)
    await load.more(100)
    const { bavail, bsize } = statfsSync(folder.dataDir)
    const filler = join(folder.dataDir, 'filler')
    writeFileSync(filler, Buffer.alloc(bavail * bsize - LEFT_BYTES))
    const reads: number[] = []
    await eventually(
      'failing writes',
      async () => {
        reads.push((await call(service.url, 'GET', '/v1/users?page_size=1', { key: service.key })).status)
        return load.failures.length > 20
      },
      FULL_MS,
    )
    rmSync(filler)
    const roomAt = performance.now()
    await load.more(20, 60_000)
    const recoveredMs = Math.round(performance.now() - roomAt)
    await load.stop()
    const settled = await settle(load, receiver, paths, 90_000)
    const listed = await listUsers(service.url, service.key)
    report(context, {
      fault: 'disk full: serves again, after there is room',
      acknowledged: load.acknowledged.size,
      delivered: settled.delivered,
      lost: settled.missing.length,
      duplicates: settled.duplicates,
      outOfOrder: settled.overtaking.length,
      inFlight: null,
      recoveredMs,
    })
    expect(service.exit).toBeNull()
    expect(load.failures.filter(({ code }) => code !== 'internal_error')).toEqual([])
    expect(reads).toContain(200)
    expectNothingLost(load, listed, settled)
    expect(await service.stop()).toEqual({ code: 0, signal: null })
  },
  TEST_MS,
)
