// How long the service takes around a fault. The tests of these faults measure it by the way and never assert it: here they
// run alone, and their figures stand beside what they are to be.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FaultRow } from '../test/faults/report.ts'
import { adopt, atTheEnd } from './children.ts'
import { ms } from './figures.ts'
import type { Outcome } from './main.ts'
import { type Row, step } from './report.ts'

const ROOT = join(import.meta.dirname, '../../..')
const VITEST = join(ROOT, 'node_modules/vitest/vitest.mjs')
const FILES = ['failover/promotion', 'database', 'stopped', 'revoked-key']

type Measured = FaultRow & { held: boolean }

/** One run of the tests, one file after the other. @throws Error when one of them fails: its figures would mean nothing */
async function measure(rounds: number): Promise<Measured[]> {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-bench-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const forget = atTheEnd(remove)
  const file = join(folder, 'rows.jsonl')
  const names = FILES.map((name) => `packages/server/test/faults/${name}.long.test.ts`)
  const child = adopt(
    spawn(process.execPath, [VITEST, 'run', '--project', 'long', '--no-file-parallelism', ...names], {
      cwd: ROOT,
      env: { ...process.env, HALFKEY_FAULT_ROUNDS: String(rounds), HALFKEY_FAULT_REPORT: file },
      // Standard output is the report's.
      stdio: ['ignore', 2, 2],
    }),
  )
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  const text = existsSync(file) ? readFileSync(file, 'utf8').trim() : ''
  forget()
  remove()
  if (code !== 0) throw new Error('a test of a fault failed')
  return text.split('\n').map((line) => JSON.parse(line) as Measured)
}

/** A limit is for every time, so that the longest counts. */
function rowOf(fault: string, runs: readonly number[], limitMs: number): Row {
  const longest = Math.max(...runs)
  return {
    what: fault,
    measured: ms(longest),
    floor: `< ${limitMs / 1000} s`,
    holds: longest < limitMs,
    runs: runs.map(ms).join(', '),
  }
}

/** `npm run bench -- faults` */
export async function faults(quick: boolean): Promise<Outcome> {
  const runs = quick ? 1 : 3
  const found = new Map<string, { limitMs: number; tookMs: number[] }>()
  for (let run = 1; run <= runs; run += 1) {
    step(`faults, run ${run}`)
    for (const { fault, recoveredMs, limitMs } of await measure(quick ? 1 : 3)) {
      if (recoveredMs === null || limitMs === undefined) continue
      const { tookMs } = found.get(fault) ?? { tookMs: [] }
      found.set(fault, { limitMs, tookMs: [...tookMs, recoveredMs] })
    }
  }
  return {
    facts: [`The tests of these faults on their own; ${runs} runs, the longest`],
    rows: [...found].map(([fault, { limitMs, tookMs }]) => rowOf(fault, tookMs, limitMs)),
  }
}
