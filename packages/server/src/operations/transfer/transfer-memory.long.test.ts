import { readFileSync } from 'node:fs'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { newDatabase, startService } from '../../../test/harness/harness.ts'
import { DataFolder, killAll, ServiceProcess } from '../../../test/harness/service-process.ts'
import { newWorkbench } from './transfer.fixture.ts'

const bench = newWorkbench()
/** Twice what the loaded program takes: a collector that a busy machine delays needs room for what is garbage already. */
const HEAP_MIB = 96
/** With what a process of Node has anyway, and buffers outside its heap. */
const RSS_MIB_MAX = 320
/** With their size, well beyond the heap. */
const EVENTS = 1_100
const EVENT_CHARS = 100_000

afterAll(async () => {
  await killAll()
  bench.remove()
})

/** The most memory that a process has had, as far as it was still there to be asked. */
function watchPeak(pid: number): () => number {
  let peak = 0
  const timer = setInterval(() => {
    try {
      peak = Math.max(
        peak,
        Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024,
      )
    } catch {
      clearInterval(timer)
    }
  }, 20)
  return () => {
    clearInterval(timer)
    return peak
  }
}

test.skipIf(process.platform !== 'linux')(
  'an export and an import need no more memory than a portion, however much the tenant has',
  async () => {
    const before = await startService({ HALFKEY_ROLE: 'api' })
    onTestFinished(() => before.stop())
    const tenant = await before.newTenant()
    await before.sql(
      `insert into events (tenant_id, id, type, body, created_at, context)
      select $1, 'evt_' || lpad(n::text, 26, '0'), 'app.created', '{"data":{"text":"' || repeat(md5(n::text), $2 / 32) || '"}}', now(), '{}'
      from generate_series(1, $3::int) n`,
      [tenant.tenantId, EVENT_CHARS, EVENTS],
    )
    const database = await newDatabase()
    onTestFinished(() => database.drop())
    const folder = new DataFolder()
    onTestFinished(() => folder.remove())
    const [file, keyFile] = [bench.path('large.halfkey'), bench.newKey()]
    const run = async (settings: Record<string, string>, ...args: string[]) => {
      const process = new ServiceProcess({
        cwd: folder.path,
        env: { ...folder.env(settings), NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` },
        args: [...args, '--key-file', keyFile, '--json'],
      })
      const peak = watchPeak(process.pid)
      const { code } = await process.exited
      expect(code, process.stderr).toBe(0)
      expect(peak()).toBeGreaterThan(0)
      expect(peak()).toBeLessThan(RSS_MIB_MAX)
    }
    const old = { DATABASE_URL: before.databaseUrl, HALFKEY_KEK_FILE: before.deps.config.kekFile as string }
    await run(old, 'export', '--tenant', tenant.tenantId, '--out', file)
    await run({ DATABASE_URL: database.url, HALFKEY_KEK_FILE: bench.newKey() }, 'import', '--file', file)
  },
  120_000,
)
