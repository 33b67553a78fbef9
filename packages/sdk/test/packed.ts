import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))
/** What each package is built from in its folder; some are not in every package. */
const SOURCES = ['src', 'scripts', 'README.md', 'LICENSE', 'package.json', 'tsconfig.build.json']
/** What they are built from elsewhere, relative to the repository. */
const SHARED_SOURCES = ['tsconfig.json', 'packages/server/openapi.json', 'packages/sdk/src']

/** The packages that are published beside the service. */
type PackageName = 'sdk' | 'keys' | 'mcp'
/** Left out, for the build has to make it. */
const GENERATED = join(REPOSITORY, 'packages/sdk/src/api.gen.ts')

const run = promisify(execFile)

/** An empty project that has the package installed as it would be published. */
export interface Project {
  folder: string
  tarballBytes: number
  /** What is in the tarball, without `package/` in front. */
  files: string[]
  /** Writes a file of the project, and answers its path. */
  write(name: string, text: string): string
  /** Runs a program of the repository's tools in it; answers its output, and fails as it does. */
  run(program: string, args: readonly string[], env?: Record<string, string>): Promise<string>
  remove(): void
}

/** npm, without what it would look for elsewhere. */
async function npm(args: readonly string[], cwd: string): Promise<void> {
  const { PATH = '', HOME = '' } = process.env
  await run('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], { cwd, env: { PATH, HOME } })
}

/** Packs a copy of a package in `root`, because other tests may use the build of the original. Returns the tarball's path. */
export async function pack(root: string, name: PackageName = 'sdk'): Promise<string> {
  const copy = join(root, 'packages', name)
  mkdirSync(copy, { recursive: true })
  symlinkSync(join(REPOSITORY, 'node_modules'), join(root, 'node_modules'))
  // Development packages of which the repository has two versions.
  const own = join(REPOSITORY, 'packages', name, 'node_modules')
  if (existsSync(own)) symlinkSync(own, join(copy, 'node_modules'))
  const filter = (path: string) => path !== GENERATED
  const sources = [...SHARED_SOURCES, ...SOURCES.map((source) => `packages/${name}/${source}`)]
  for (const path of sources.filter((source) => existsSync(join(REPOSITORY, source))))
    cpSync(join(REPOSITORY, path), join(root, path), { recursive: true, filter })
  await npm(['pack', '--pack-destination', root], copy)
  return join(root, readdirSync(root).find((name) => name.endsWith('.tgz')) ?? 'none')
}

/** The paths in a tarball of npm, without `package/` in front. */
export async function filesOf(tarball: string): Promise<string[]> {
  const { stdout } = await run('tar', ['-tzf', tarball])
  const names = stdout.trim().split('\n')
  return names.map((name) => name.replace(/^package\//, ''))
}

/**
 * Installs the packed package into an empty project, without a network. Other packages that the project imports come from
 * the repository.
 */
export async function installPacked(name: PackageName = 'sdk'): Promise<Project> {
  const root = mkdtempSync(join(tmpdir(), `halfkey-${name}-`))
  const folder = join(root, 'project')
  mkdirSync(folder)
  const tarball = await pack(root, name)
  writeFileSync(join(folder, 'package.json'), '{ "name": "shop", "private": true, "type": "module" }')
  await npm(['install', '--offline', tarball], folder)
  return {
    folder,
    tarballBytes: statSync(tarball).size,
    files: await filesOf(tarball),
    write(name, text) {
      const path = join(folder, name)
      writeFileSync(path, text)
      return path
    },
    async run(program, args, env = {}) {
      const { PATH = '' } = process.env
      try {
        return (await run(program, args, { cwd: folder, env: { PATH, ...env } })).stdout
      } catch (error) {
        const { stdout, stderr } = error as { stdout: string; stderr: string }
        throw new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
      }
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}
