// Puts the server into one file with everything that it imports, so that a process with a token runs what was built and
// tested here and nothing that a registry resolves later; and the licences of what is in it.
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const PACKAGE = fileURLToPath(new URL('../', import.meta.url))
const DIST = join(PACKAGE, 'dist')

/** The folder of a package in `node_modules`, out of a module's path. */
function packageOf(path: string): string | undefined {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path.replaceAll('\\', '/'))?.[0]
}

/** The name, version and licence of each package, as text. */
function noticesOf(folders: Iterable<string>): string {
  const notices = [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    return `${name} ${version}\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8').trim()}\n`
  })
  return notices.join(`\n${'-'.repeat(72)}\n\n`)
}

const bundle = await rolldown({
  input: join(PACKAGE, 'src/main.ts'),
  platform: 'node',
  transform: { define: { 'process.env.NODE_ENV': '"production"' } },
  onLog(level, log, report) {
    // What is not found would be left as an import, and fail where nobody looks.
    if (log.code === 'UNRESOLVED_IMPORT') throw new Error(log.message)
    if (level === 'warn') report('warn', log)
  },
})
rmSync(DIST, { recursive: true, force: true })
mkdirSync(DIST)
const file = join(DIST, 'main.js')
const { output } = await bundle.write({ file, format: 'esm', minify: true, codeSplitting: false })
await bundle.close()
chmodSync(file, 0o755)
const foreign = output[0].moduleIds.flatMap((id) => packageOf(id) ?? [])
writeFileSync(join(dirname(file), 'THIRD-PARTY-LICENSES.txt'), noticesOf(foreign))
