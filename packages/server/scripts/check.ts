// All that is looked at without a database or a browser: format, types, generated files, guards. Says how long it took.
// As many steps run side by side as there are cores; what one has to say is shown when it ends.
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CACHE = join(ROOT, 'node_modules/.cache/tsc')

/** One checker: several would each infer what they share, for twice the work; the cores have other steps to do. */
const types = (name: string) => ['--checkers', '1', '--incremental', '--tsBuildInfoFile', join(CACHE, `${name}.json`)]

/** Longest first. */
const STEPS: Record<string, readonly [command: string, ...args: string[]]> = {
  types: ['tsc', ...types('root')],
  'format and lint': ['biome', 'check', '--error-on-warnings', '.'],
  guards: ['vitest', 'run', '--config', 'vitest.guards.config.ts'],
  'types of the dashboard': ['tsc', '-p', 'packages/dashboard', ...types('dashboard')],
  'compatibility of the API': ['node', 'packages/server/scripts/check-api.ts'],
  'exports that nothing imports': ['knip', '--no-progress', '--no-config-hints'],
  'generated files': ['node', 'packages/server/scripts/generate.ts', '--check'],
}

/** Runs one step to its end. @returns whether it found nothing */
async function run(name: string): Promise<boolean> {
  const [command = '', ...args] = STEPS[name] ?? []
  const startedAt = performance.now()
  // A shell only where programs are `.cmd` files, which nothing else can start.
  const shell = process.platform === 'win32'
  const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], shell })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const code = await new Promise((resolve) => {
    child.once('error', (error) => {
      output += error.message
      resolve(null)
    })
    child.once('close', resolve)
  })
  console.log(`${code === 0 ? '✓' : '✗'} ${name} (${seconds(startedAt)})`)
  if (code !== 0) console.log(output.trimEnd())
  return code === 0
}

const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`

const startedAt = performance.now()
mkdirSync(CACHE, { recursive: true })
const waiting = Object.keys(STEPS)
const failed: string[] = []
const lanes = Array.from({ length: availableParallelism() }, async () => {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) if (!(await run(name))) failed.push(name)
})
await Promise.all(lanes)
console.log(
  failed.length === 0 ? `Checked in ${seconds(startedAt)}` : `Failed in ${seconds(startedAt)}: ${failed.join(', ')}`,
)
process.exit(failed.length === 0 ? 0 : 1)
