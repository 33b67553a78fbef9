// Compiles the service into `dist/`, and beside it the keys package, which it takes in, and the guides that it serves: what
// is published stands alone.
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGE = fileURLToPath(new URL('../', import.meta.url))
const DIST = join(PACKAGE, 'dist')
/** The repository's own: this package has an older TypeScript too, for tools that need its JavaScript interface. */
const TSC = join(PACKAGE, '../../node_modules/typescript/bin/tsc')
const GUIDES = join(PACKAGE, '../../docs')
/** Where the keys package lies in `dist`; in the repository it is a package beside this one. */
const KEYS = join(DIST, 'threshold-keys')
const KEYS_IMPORT = /(?:\.\.\/)+keys\/src\//g

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
  renameSync(join(draft, 'keys/src'), KEYS)
  // Decisions are for who works on the program.
  cpSync(GUIDES, join(DIST, 'docs'), { recursive: true, filter: (path) => path !== join(GUIDES, 'decisions') })
} finally {
  rmSync(draft, { recursive: true, force: true })
}
for (const path of globSync(join(DIST, 'platform/**/*.js'))) {
  const text = readFileSync(path, 'utf8')
  const keys = `${relative(dirname(path), KEYS).replaceAll('\\', '/')}/`
  if (KEYS_IMPORT.test(text)) writeFileSync(path, text.replaceAll(KEYS_IMPORT, keys))
}
