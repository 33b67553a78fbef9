/**
 * `npm run faults [-- <file>…]`: every fault at length, one file after the other, then the table.
 * `HALFKEY_FAULT_ROUNDS` says how many rounds.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FaultRow } from './report.ts'

const ROUNDS = '10'
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

const COLUMNS: [string, (row: FaultRow & { held: boolean }) => unknown][] = [
  ['fault', (row) => row.fault],
  ['acknowledged', (row) => row.acknowledged],
  ['delivered', (row) => row.delivered],
  ['lost', (row) => row.lost],
  ['duplicates', (row) => row.duplicates],
  ['in flight at the fault', (row) => row.inFlight],
  ['recovered after ms', (row) => row.recoveredMs],
  ['held', (row) => (row.held ? 'yes' : 'NO')],
]

function print(rows: (FaultRow & { held: boolean })[]): void {
  const lines = rows.map((row) => COLUMNS.map(([, cell]) => String(cell(row) ?? '-')))
  const table = [COLUMNS.map(([title]) => title), ...lines]
  const widths = COLUMNS.map((_, index) => Math.max(...table.map((line) => line[index]?.length ?? 0)))
  const text = table.map((line) =>
    line
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join(' | ')
      .trimEnd(),
  )
  process.stdout.write(
    `\n${[text[0], widths.map((width) => '-'.repeat(width)).join('-|-'), ...text.slice(1)].join('\n')}\n`,
  )
}

const chosen = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'hk-faults-'))
const file = join(folder, 'rows.jsonl')
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
const child = spawn(
  process.execPath,
  [
    vitest,
    'run',
    '--no-file-parallelism',
    ...(chosen.length === 0 ? [''] : chosen).map((name) => `packages/server/test/faults/${name}`),
  ],
  {
    cwd: ROOT,
    env: { HALFKEY_FAULT_ROUNDS: ROUNDS, ...process.env, HALFKEY_FAULT_REPORT: file },
    stdio: 'inherit',
  },
)
const code = await new Promise<number>((resolve) => child.once('close', (exitCode) => resolve(exitCode ?? 1)))
const rows = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
print(rows.map((line) => JSON.parse(line)))
rmSync(folder, { recursive: true, force: true })
process.exit(code)
