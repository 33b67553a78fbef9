import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Architecture, type Material, PLATFORMS } from './platforms.ts'
import type { Entry } from './tar.ts'

interface LockedPackage {
  version: string
  integrity?: string
  license?: string
}

/** What package-lock.json says of a package, and its SHA-512 in hexadecimal. */
export function lockedPackage(repository: string, name: string): LockedPackage & { sha512: string } {
  const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>
  }
  const found = lock.packages[`node_modules/${name}`]
  if (found === undefined) throw new Error(`package-lock.json does not have ${name}`)
  return { ...found, sha512: sha512Of(found.integrity) }
}

/** The SHA-512 of an npm integrity value, in hexadecimal. */
export function sha512Of(integrity: string | undefined): string {
  const base64 = /^sha512-(\S+)$/.exec(integrity ?? '')?.[1]
  if (base64 === undefined) throw new Error(`${integrity} is not a SHA-512 integrity value`)
  return Buffer.from(base64, 'base64').toString('hex')
}

/** Node.js for an architecture, out of the npm package that package-lock.json pins. */
export function nodeProgram(
  repository: string,
  cache: string,
  stage: string,
  architecture: Architecture,
): { entries: Entry[]; materials: Material[] } {
  const name = PLATFORMS[architecture].node
  const { version, sha512, license } = lockedPackage(repository, name)
  const folder = join(cache, 'npm')
  mkdirSync(folder, { recursive: true })
  const tarball = join(folder, `${name}-${version}.tgz`)
  if (!existsSync(tarball))
    execFileSync('npm', ['pack', `${name}@${version}`, '--pack-destination', folder, '--silent'], {
      cwd: repository,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  if (createHash('sha512').update(readFileSync(tarball)).digest('hex') !== sha512)
    throw new Error(`${tarball} is not the package of package-lock.json: its SHA-512 differs`)
  execFileSync('tar', ['-xzf', tarball, '-C', stage, 'package/bin/node', 'package/LICENSE'])
  const file = (path: string, from: string, mode: number): Entry => {
    const source = join(stage, 'package', from)
    return { path, type: 'file', mode, content: { file: source, size: statSync(source).size } }
  }
  return {
    entries: [file('usr/bin/node', 'bin/node', 0o755), file('usr/share/doc/node/copyright', 'LICENSE', 0o644)],
    materials: [
      {
        purl: `pkg:npm/${name}@${version}`,
        name: 'node',
        version,
        licences: license ?? [],
        hashes: { 'SHA-512': sha512 },
      },
    ],
  }
}
