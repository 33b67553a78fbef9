// npm run bench -- accounts|analytics|api|audit|cost|delivery|events|execute|faults|keys|lists|sign-in|start [--quick]: progress on standard error, a table on standard output.
import { accounts } from './accounts.ts'
import { analytics } from './analytics.ts'
import { api } from './api.ts'
import { audit } from './audit.ts'
import { cost } from './cost.ts'
import { delivery } from './delivery.ts'
import { events } from './events.ts'
import { execute } from './execute.ts'
import { faults } from './faults.ts'
import { keys } from './keys.ts'
import { lists } from './lists.ts'
import { markdown, type Row, step } from './report.ts'
import { signIn } from './sign-in.ts'
import { start } from './start.ts'

/** What a benchmark hands to the report. */
export interface Outcome {
  /** Lines above the table: versions, sizes, warnings. */
  facts: string[]
  rows: Row[]
}

const BENCHMARKS: Record<string, (quick: boolean, only: string | undefined) => Promise<Outcome>> = {
  accounts,
  analytics,
  api,
  audit,
  cost,
  delivery,
  events,
  execute,
  faults,
  keys,
  lists,
  'sign-in': signIn,
  start,
}
const TIME_MAX_MS = 40 * 60_000

const args = process.argv.slice(2)
const name = args.find((arg) => !arg.startsWith('-')) ?? ''
const quick = args.includes('--quick')
const only = args.find((arg) => arg.startsWith('--only='))?.slice('--only='.length)
const benchmark = BENCHMARKS[name]
if (benchmark === undefined) {
  console.error(`usage: npm run bench -- ${Object.keys(BENCHMARKS).join('|')} [--quick] [--only=<part>]`)
  process.exit(2)
}
setTimeout(() => {
  step(`stopped: it took longer than ${TIME_MAX_MS / 60_000} minutes`)
  process.exit(1)
}, TIME_MAX_MS).unref()
const { facts, rows } = await benchmark(quick, only)
console.log(markdown(`npm run bench -- ${args.join(' ')}`, facts, rows))
process.exit(0)
