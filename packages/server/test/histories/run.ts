/**
 * `npm run histories [-- --count 10000] [--seed N] [--jobs 2]`: random histories of the delivery engine, in so many processes.
 * A failure prints its seed and its steps. `--seed N` without a count runs that history alone. `--kill 200` runs histories in
 * which real processes are killed.
 */
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const COUNT = '1000'

const { values } = parseArgs({
  options: { count: { type: 'string' }, seed: { type: 'string' }, jobs: { type: 'string' }, kill: { type: 'string' } },
})
const file = values.kill === undefined ? 'histories.long.test.ts' : 'killed-histories.long.test.ts'
const count = Number(values.kill ?? values.count ?? (values.seed === undefined ? COUNT : '1'))
const firstSeed = Number(values.seed ?? randomInt(1_000_000_000))
const jobs = Math.min(Number(values.jobs ?? '1'), count)

/** Runs a part of the histories. @returns whether all promises were kept */
async function run(from: number, until: number): Promise<boolean> {
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
  const path = `packages/server/test/histories/${file}`
  const env = {
    ...process.env,
    HALFKEY_HISTORIES: String(until - from),
    HALFKEY_HISTORY_SEED: String(firstSeed + from),
  }
  const child = spawn(process.execPath, [vitest, 'run', '--project', 'long', path], {
    cwd: ROOT,
    env,
    stdio: 'inherit',
  })
  return (await new Promise<number | null>((resolve) => child.once('close', resolve))) === 0
}

const startedAt = performance.now()
const parts = Array.from({ length: jobs }, (_, at) => Math.floor((at * count) / jobs))
const kept = await Promise.all(parts.map((from, at) => run(from, parts[at + 1] ?? count)))
const seconds = Math.round((performance.now() - startedAt) / 1000)
const verdict = kept.every(Boolean) ? 'all promises were kept' : 'PROMISES WERE BROKEN'
process.stdout.write(`${count} histories from seed ${firstSeed} in ${seconds} s: ${verdict}\n`)
process.exit(kept.every(Boolean) ? 0 : 1)
