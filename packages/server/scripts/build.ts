// Compiles the service into `dist/`, and beside it what it takes in of the keys package and of the SDK, and the guides that
// it serves: what is published stands alone.
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const PACKAGE = fileURLToPath(new URL('../', import.meta.url))
const DIST = join(PACKAGE, 'dist')
/** The repository's own: this package has an older TypeScript too, for tools that need its JavaScript interface. */
const TSC = join(PACKAGE, '../../node_modules/typescript/bin/tsc')
const GUIDES = join(PACKAGE, '../../docs')
/** Packages of the repository that are taken in: from their folder beside this one to where they lie in `dist`. */
const TAKEN_IN = { keys: 'threshold-keys', sdk: 'sdk', mcp: 'mcp' }
const TAKEN_IN_IMPORT = /(?:\.\.\/)+(keys|sdk|mcp)\/src\//g

execFileSync(process.execPath, [join(PACKAGE, 'scripts/reference-script.ts')], { stdio: 'inherit' })
// The dashboard is one of the package's assets.
execFileSync(process.execPath, [join(PACKAGE, '../dashboard/scripts/build-if-stale.ts')], { stdio: 'inherit' })

// The types of the API are made, not committed.
execFileSync(process.execPath, [join(PACKAGE, '../sdk/scripts/api-types.ts')], { stdio: 'inherit' })

const draft = mkdtempSync(join(PACKAGE, '.build-'))
try {
  execFileSync(process.execPath, [TSC, '-p', 'tsconfig.build.json', '--outDir', draft], {
    cwd: PACKAGE,
    stdio: 'inherit',
  })
  rmSync(DIST, { recursive: true, force: true })
  renameSync(join(draft, 'server/src'), DIST)
  for (const [name, folder] of Object.entries(TAKEN_IN)) renameSync(join(draft, name, 'src'), join(DIST, folder))
  // Decisions are for who works on the program.
  cpSync(GUIDES, join(DIST, 'docs'), { recursive: true, filter: (path) => path !== join(GUIDES, 'decisions') })
} finally {
  rmSync(draft, { recursive: true, force: true })
}
for (const path of globSync(join(DIST, '{platform,operations,mcp}/**/*.js'))) {
  const text = readFileSync(path, 'utf8')
  const own = text.replaceAll(
    TAKEN_IN_IMPORT,
    (_, name: keyof typeof TAKEN_IN) => `${relative(dirname(path), join(DIST, TAKEN_IN[name])).replaceAll('\\', '/')}/`,
  )
  if (own !== text) writeFileSync(path, own)
}
