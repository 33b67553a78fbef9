// Builds the dashboard, the portal and the hosted page's keys into the server package, unless what is there was made of these very sources. `npm ci` and
// `npm start` call it, so that a fresh clone, and a pulled one, show the pages that belong to their server. A service
// starts without its dashboard rather than not at all: `--or-go-on` only says that the build failed.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGE = fileURLToPath(new URL('../', import.meta.url))
const ROOT = join(PACKAGE, '../..')
const STAMP = join(ROOT, 'packages/server/assets/dashboard/sources.sha256')
const SOURCES = [
  'packages/dashboard/{*.html,package.json,vite.*.ts}',
  'packages/dashboard/src/**/*.*',
  'packages/server/assets/brand/*',
  'packages/sdk/src/**/*.ts',
  'packages/keys/src/**/*.ts',
  'examples/receivers/*',
]
/** What is built: the dashboard, the portal of apps' customers, and what signs on the hosted page. */
const CONFIGS = ['vite.config.ts', 'vite.portal.config.ts', 'vite.keys.config.ts']
const BUILT = ['dashboard/index.html', 'portal/index.html', 'keys/keys.js']
/** Nothing of it is left in what is built, and it may not be generated yet. */
const TYPES = 'packages/sdk/src/api.gen.ts'

function digest(): string {
  const hash = createHash('sha256')
  for (const path of SOURCES.flatMap((pattern) => globSync(pattern, { cwd: ROOT, exclude: [TYPES] })).sort())
    hash.update(`${path}\n`).update(readFileSync(join(ROOT, path)))
  return hash.digest('hex')
}

/** What the pages were built from; null if one is not there. */
function built(): string | null {
  if (!BUILT.every((file) => existsSync(join(ROOT, 'packages/server/assets', file)))) return null
  try {
    return readFileSync(STAMP, 'utf8')
  } catch {
    return null
  }
}

/** Exit code; 0 also where there is nothing to build with, as after an installation without development packages. */
function build(stamp: string): number {
  if (!existsSync(join(ROOT, 'node_modules/vite'))) {
    console.warn('The dashboard is not built: Vite is a development package, and none are installed here.')
    return 0
  }
  console.log('Building the dashboard…')
  // Always what is published: another NODE_ENV makes a slower page that names the folders it was built in.
  const env = { ...process.env, NODE_ENV: 'production' }
  for (const config of CONFIGS) {
    const args = ['build', '--config', config, '--logLevel', 'warn']
    const { status } = spawnSync('vite', args, { cwd: PACKAGE, stdio: 'inherit', env })
    if (status !== 0) return status ?? 1
  }
  writeFileSync(STAMP, stamp)
  return 0
}

const wanted = digest()
if (built() !== wanted && build(wanted) !== 0) {
  console.error('The dashboard could not be built.')
  if (!process.argv.includes('--or-go-on')) process.exit(1)
}
