import { execFileSync } from 'node:child_process'
import { cpSync, globSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { sha512Of } from './node.ts'
import type { Material } from './platforms.ts'
import { type Entry, entriesOf } from './tar.ts'

const HOME = 'opt/halfkey'
/** The command. It names Node.js by its path, because the image has no `env`, and bounds its space for young objects. */
const COMMAND = `#!/usr/bin/node --max-semi-space-size=16\nawait import('/${HOME}/packages/server/bin/halfkey.js')\n`
/** Sources and declarations of libraries: nothing reads them at run time. */
const LEFT_OUT = /\.map$|\.d\.[cm]?ts$|(?:^|\/)\.package-lock\.json$|node_modules\/\.bin(?:\/|$)/

function npm(cwd: string, ...args: string[]): void {
  execFileSync('npm', [...args, '--silent', '--no-audit', '--no-fund', '--ignore-scripts'], {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

/** What npm notes about an installed package. */
interface Installed {
  version: string
  integrity?: string
  license?: string
  link?: boolean
}

function materials(root: string): Material[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'node_modules/.package-lock.json'), 'utf8')) as {
    packages: Record<string, Installed>
  }
  return Object.entries(packages).flatMap(([path, each]): Material[] => {
    if (each.link === true || !path.includes('node_modules/')) return []
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    return [
      {
        purl: `pkg:npm/${name.replace('@', '%40')}@${each.version}`,
        name,
        version: each.version,
        licences: each.license ?? [],
        hashes: { 'SHA-512': sha512Of(each.integrity) },
      },
    ]
  })
}

/**
 * The built service and the packages that it needs at run time, as package-lock.json pins them. They are the same for each
 * architecture.
 * @throws Error when a package brings a compiled program
 */
export function application(repository: string, stage: string): { entries: Entry[]; materials: Material[] } {
  const root = join(stage, 'application')
  for (const path of ['package.json', 'package-lock.json', ...globSync('packages/*/package.json', { cwd: repository })])
    cpSync(join(repository, path), join(root, path))
  npm(root, 'ci', '--omit=dev', '--omit=optional', '--workspace', 'packages/server')

  // The scripts of the package, which build it, are needed: `npm pack` runs them as publishing does.
  execFileSync('npm', ['pack', '--workspace', 'packages/server', '--pack-destination', stage, '--silent'], {
    cwd: repository,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const tarball = readdirSync(stage).find((name) => name.endsWith('.tgz'))
  execFileSync('tar', ['-xzf', join(stage, `${tarball}`), '-C', join(root, 'packages/server'), '--strip-components=1'])
  for (const name of readdirSync(join(root, 'packages')))
    if (name !== 'server') rmSync(join(root, 'packages', name), { recursive: true })
  const installed = materials(root)
  rmSync(join(root, 'package-lock.json'))
  const compiled = globSync(['**/*.node', '**/*.so'], { cwd: root })
  if (compiled.length > 0) throw new Error(`not for every architecture: ${compiled.join(', ')}`)
  const entries = entriesOf(root, (path) => !LEFT_OUT.test(path)).map((each) => ({
    ...each,
    path: `${HOME}/${each.path}`,
  }))
  const home: Entry = { path: HOME, type: 'folder', mode: 0o755 }
  const command: Entry = { path: 'usr/bin/halfkey', type: 'file', mode: 0o755, content: Buffer.from(COMMAND) }
  return { entries: [home, ...entries, command], materials: installed }
}
