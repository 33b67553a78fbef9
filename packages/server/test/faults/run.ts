/**
 * `npm run faults [-- <file>…]`: every fault at length, one file after the other, then the table. `-- attacker` alone makes
 * every move of the attacker's. `HALFKEY_FAULT_ROUNDS` says how many rounds.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FaultRow } from './report.ts'

const ROUNDS = '10'
const ATTACK_PARTS = 8
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

const COLUMNS: [string, (row: FaultRow & { held: boolean }) => unknown][] = [
  ['fault', (row) => row.fault],
  ['acknowledged', (row) => row.acknowledged],
  ['delivered', (row) => row.delivered],
  ['lost', (row) => row.lost],
  ['duplicates', (row) => row.duplicates],
  ['out of order', (row) => row.outOfOrder],
  ['in flight at the fault', (row) => row.inFlight],
  ['recovered after ms', (row) => row.recoveredMs],
  ['at most ms', (row) => row.limitMs],
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

/** One run of the chosen files. @returns its exit code */
function run(part: string): Promise<number> {
  const files = (chosen.length === 0 ? [''] : chosen).map((name) => `packages/server/test/faults/${name}`)
  const child = spawn(process.execPath, [vitest, 'run', '--no-file-parallelism', ...files], {
    cwd: ROOT,
    env: { HALFKEY_FAULT_ROUNDS: ROUNDS, ...process.env, HALFKEY_FAULT_REPORT: file, HALFKEY_ATTACK_PART: part },
    stdio: 'inherit',
  })
  return new Promise((resolve) => child.once('close', (exitCode) => resolve(exitCode ?? 1)))
}

// The attacker starts the service a thousand times: in several processes, because each start leaves something in memory.
const parts = chosen.length === 1 && chosen[0] === 'attacker' ? ATTACK_PARTS : 1
let code = 0
for (let part = 1; part <= parts; part += 1) code = Math.max(code, await run(`${part}/${ATTACK_PARTS}`))
const rows = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []
print(rows.map((line) => JSON.parse(line)))
rmSync(folder, { recursive: true, force: true })
process.exit(code)
