/**
 * `npm run crash-test [-- --adapter <file>]`: tries to make agents overspend, by kills, restarts, many processes and clocks apart, and prints
 * what was spent against what was allowed. `--adapter` is a file like `halfkey.ts` beside this one, for another service.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { CrashResult } from './cases.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const HEAD = ['case', 'allowed', 'spent', 'answered as paid', 'refused', 'no answer', 'held']

const { values } = parseArgs({ options: { adapter: { type: 'string' } } })
const folder = mkdtempSync(join(tmpdir(), 'hk-crash-'))
const report = join(folder, 'cases.jsonl')
const env = {
  ...process.env,
  HALFKEY_CRASH_REPORT: report,
  ...(values.adapter === undefined ? {} : { HALFKEY_CRASH_ADAPTER: resolve(values.adapter) }),
}
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
const child = spawn(process.execPath, [vitest, 'run', '--project', 'long', 'packages/server/test/crash'], {
  cwd: ROOT,
  env,
  stdio: 'inherit',
})
const code = await new Promise<number>((done) => child.once('close', (exitCode) => done(exitCode ?? 1)))
const rows = existsSync(report) ? readFileSync(report, 'utf8').trim().split('\n') : []
rmSync(folder, { recursive: true, force: true })
process.stdout.write(`\n| ${HEAD.join(' | ')} |\n|${' --- |'.repeat(HEAD.length)}\n`)
for (const row of rows) {
  const { name, allowed, spent, paid, refused, unknown } = JSON.parse(row) as CrashResult & { name: string }
  const cells = [name, allowed, spent, paid, refused, unknown, spent <= allowed ? 'yes' : 'NO']
  process.stdout.write(`| ${cells.join(' | ')} |\n`)
}
process.exit(code)
