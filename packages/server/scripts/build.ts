// Compiles the service into `dist/`, and beside it the keys package, which it takes in, and the guides that it serves: what
// is published stands alone.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGE = fileURLToPath(new URL('../', import.meta.url))
const DIST = join(PACKAGE, 'dist')
/** The repository's own: this package has an older TypeScript too, for tools that need its JavaScript interface. */
const TSC = join(PACKAGE, '../../node_modules/typescript/bin/tsc')
const GUIDES = join(PACKAGE, '../../docs')
/** Where `src/core` finds the keys in the repository, and where in `dist/core`. */
const [FROM, TO] = ['../../../keys/src/', '../keys/']

// The dashboard is one of the package's assets.
execFileSync(process.execPath, [join(PACKAGE, '../dashboard/scripts/build-if-stale.ts')], { stdio: 'inherit' })

const draft = mkdtempSync(join(PACKAGE, '.build-'))
try {
  execFileSync(process.execPath, [TSC, '-p', 'tsconfig.build.json', '--outDir', draft], {
    cwd: PACKAGE,
    stdio: 'inherit',
  })
  rmSync(DIST, { recursive: true, force: true })
  renameSync(join(draft, 'server/src'), DIST)
  renameSync(join(draft, 'keys/src'), join(DIST, 'keys'))
  // Decisions are for who works on the program.
  cpSync(GUIDES, join(DIST, 'docs'), { recursive: true, filter: (path) => path !== join(GUIDES, 'decisions') })
} finally {
  rmSync(draft, { recursive: true, force: true })
}
for (const name of readdirSync(join(DIST, 'core'))) {
  if (!name.endsWith('.js')) continue
  const path = join(DIST, 'core', name)
  const text = readFileSync(path, 'utf8')
  if (text.includes(FROM)) writeFileSync(path, text.replaceAll(FROM, TO))
}
