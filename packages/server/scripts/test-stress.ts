/**
 * `npm run test:stress [-- --times 20] [--busy 4] [--again] [<part of a path>…]`: runs each test file that touches a
 * clock, a port, a process or a browser so many times, one after the other, and prints which failed. What was run is
 * kept, so that the next run continues where this one stopped; `--again` starts over. `--busy` runs that many loops
 * that do nothing but take a processor.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findChromium } from '../test/browser/chromium.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const STATE = join(ROOT, 'node_modules/.cache/halfkey-stress.json')
const LOG_CHARS = 4_000

/** By what a file's text uses: the clock's own functions, servers and sockets, child processes, and what tests share of these. */
const TOUCHES =
  /performance\.now|Date\.now|setTimeout|\.advance\(|eventually\(|node:(child_process|http|https|net|dgram|worker_threads)|(receiver|service-process|postgres-process|redis-process|dns-server|collector|stripe-fake|raw-http)\.ts'/

/** How often each file was run, and the ends of what failures wrote. */
interface State {
  runs: Record<string, number>
  failures: { file: string; log: string }[]
}

function readState(): State {
  try {
    return JSON.parse(readFileSync(STATE, 'utf8')) as State
  } catch {
    return { runs: {}, failures: [] }
  }
}

function writeState(state: State): void {
  mkdirSync(dirname(STATE), { recursive: true })
  writeFileSync(STATE, JSON.stringify(state, null, 2))
}

function filesOf(parts: readonly string[]): string[] {
  const browser = findChromium() === undefined ? [] : globSync('packages/*/test/**/*.browser.ts', { cwd: ROOT })
  const others = globSync('packages/*/{src,test}/**/*.test.ts', { cwd: ROOT }).filter((path) =>
    TOUCHES.test(readFileSync(join(ROOT, path), 'utf8')),
  )
  return [...others, ...browser]
    .filter((path) => parts.length === 0 || parts.some((part) => path.includes(part)))
    .sort()
}

function failureOf(file: string): string | null {
  const args = file.endsWith('.browser.ts') ? ['--config', 'vitest.browser.config.ts'] : []
  const { status, stdout, stderr } = spawnSync('vitest', ['run', ...args, file], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  return status === 0 ? null : `${stdout}${stderr}`.slice(-LOG_CHARS)
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    times: { type: 'string', default: '20' },
    busy: { type: 'string', default: '0' },
    again: { type: 'boolean', default: false },
  },
})
const state: State = values.again ? { runs: {}, failures: [] } : readState()
// Each ends with this process, however that ends.
const loops: ChildProcess[] = Array.from({ length: Number(values.busy) }, () =>
  spawn(process.execPath, ['-e', 'const parent = process.ppid; while (process.ppid === parent);'], { stdio: 'ignore' }),
)
process.once('exit', () => {
  for (const loop of loops) loop.kill()
})
const times = Number(values.times)
for (const file of filesOf(positionals))
  while ((state.runs[file] ?? 0) < times) {
    const log = failureOf(file)
    const done = (state.runs[file] ?? 0) + 1
    state.runs[file] = done
    if (log !== null) state.failures.push({ file, log })
    writeState(state)
    console.log(`${log === null ? 'passed' : 'FAILED'}  ${done}/${times}  ${file}`)
  }
for (const { file, log } of state.failures) console.log(`\n${file}\n${log}`)
console.log(`${state.failures.length} failed`)
process.exit(state.failures.length === 0 ? 0 : 1)
