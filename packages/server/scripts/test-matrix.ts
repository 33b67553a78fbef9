/**
 * `npm run test:matrix -- <backend> [--again] [<part of a path>…]`: runs every test file against another database than the
 * embedded one. `<backend>` is `postgres15` (any version that Debian's packages install), or `pgbouncer`: the embedded
 * PostgreSQL behind the PgBouncer that HALFKEY_TEST_PGBOUNCER names, or `halfkey_runtime`: the embedded one, where services
 * connect as a role that does not own their tables. Files that passed are remembered, so that the next run
 * continues where this one stopped; `--again` starts over.
 */
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { findChromium } from '../test/browser/chromium.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CACHE = join(ROOT, 'node_modules/.cache')
/** Starting a PostgreSQL takes as long as some files do; a run that is stopped loses one batch. */
const BATCH = 12

interface Report {
  testResults: {
    name: string
    status: string
    message: string
    assertionResults: { status: string; title: string }[]
  }[]
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { again: { type: 'boolean', default: false } },
})
const [backend = '', ...parts] = positionals
if (!/^(postgres\d+|pgbouncer|halfkey_runtime)$/.test(backend)) {
  console.error(
    'Name a backend: npm run test:matrix -- postgres15 | pgbouncer | halfkey_runtime [--again] [<part of a path>…]',
  )
  process.exit(2)
}
const STATE = join(CACHE, `halfkey-matrix-${backend}.json`)
const REPORT = join(CACHE, `halfkey-matrix-${backend}-report.json`)

function readJson<T>(path: string, missing: T): T {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T
  } catch {
    return missing
  }
}

const passed = new Set(values.again ? [] : readJson<string[]>(STATE, []))
const failed = new Map<string, string[]>()

function note(file: string, failures: string[] | null): void {
  if (failures === null) passed.add(file)
  else failed.set(file, failures)
  mkdirSync(dirname(STATE), { recursive: true })
  writeFileSync(STATE, JSON.stringify([...passed]))
  console.log(`${failures === null ? 'passed' : 'FAILED'}  ${file}`)
}

/** Runs files in one vitest, and notes what became of each. */
function run(files: readonly string[], args: readonly string[]): void {
  writeFileSync(REPORT, '{}')
  const reporters = ['--reporter=dot', '--reporter=json', `--outputFile.json=${REPORT}`]
  spawnSync('vitest', ['run', ...args, ...reporters, ...files], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, HALFKEY_TEST_BACKEND: backend },
  })
  const results = readJson<Partial<Report>>(REPORT, {}).testResults ?? []
  if (results.length === 0) process.exit(1)
  for (const file of files) {
    const result = results.find(({ name }) => relative(ROOT, name) === file)
    const tests = result?.assertionResults.filter(({ status }) => status === 'failed').map(({ title }) => title) ?? []
    note(file, result?.status === 'passed' ? null : tests.length > 0 ? tests : [result?.message || 'it did not run'])
  }
}

/** The kinds of files, each with how it is run. */
const KINDS: [glob: string, args: string[]][] = [
  ['packages/server/{src,test}/**/!(*.long).test.ts', ['--project', 'ordinary']],
  ['packages/server/{src,test}/**/*.long.test.ts', ['--project', 'long']],
  ...(findChromium() === undefined
    ? []
    : [
        ['packages/server/test/browser/**/*.browser.ts', ['--config', 'vitest.browser.config.ts']] as [
          string,
          string[],
        ],
      ]),
]
for (const [glob, args] of KINDS) {
  const files = globSync(glob, { cwd: ROOT })
    .filter((path) => !passed.has(path) && (parts.length === 0 || parts.some((part) => path.includes(part))))
    .sort()
  for (let at = 0; at < files.length; at += BATCH) run(files.slice(at, at + BATCH), args)
}
for (const [file, tests] of failed) console.log(`\n${file}\n${tests.map((test) => `  ${test}`).join('\n')}`)
console.log(`\n${backend}: ${passed.size} files passed so far, ${failed.size} failed now`)
process.exit(failed.size === 0 ? 0 : 1)
