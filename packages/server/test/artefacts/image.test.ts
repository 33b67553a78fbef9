import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { ENVIRONMENT, imageConfig } from '../../scripts/image/config.ts'
import { pinnedPackages } from '../../scripts/image/debian.ts'
import { lockedPackage } from '../../scripts/image/node.ts'
import { ARCHITECTURES, PLATFORMS } from '../../scripts/image/platforms.ts'
import { type Entry, entriesOf, writeArchive } from '../../scripts/image/tar.ts'
import { SETTINGS } from '../../src/platform/config.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const SECONDS = 1_700_000_000

test('the same files make the same archive, whatever their order, times and modes are, and tar reads it back', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-tar-'))
  context.onTestFinished(() => rmSync(folder, { recursive: true }))
  const long = `${'deep/'.repeat(30)}${'é'.repeat(60)}.txt`
  const tree = join(folder, 'tree')
  mkdirSync(join(tree, 'deep/'.repeat(30)), { recursive: true, mode: 0o700 })
  writeFileSync(join(tree, long), 'long', { mode: 0o600 })
  writeFileSync(join(tree, 'program'), 'x'.repeat(70_000), { mode: 0o711 })
  symlinkSync(long, join(tree, 'link'))

  const write = async (name: string, entries: Entry[]) => {
    const path = join(folder, name)
    return { path, ...(await writeArchive(path, entries, { seconds: SECONDS, compress: true })) }
  }
  const first = await write('first', entriesOf(tree))
  const second = await write('second', entriesOf(tree).toReversed())
  expect([second.digest, second.diffId, second.size]).toEqual([first.digest, first.diffId, first.size])
  expect(first.digest).not.toBe(first.diffId)

  const back = join(folder, 'back')
  mkdirSync(back)
  execFileSync('tar', ['-xzf', first.path, '-C', back])
  expect(readFileSync(join(back, long), 'utf8')).toBe('long')
  expect(readlinkSync(join(back, 'link'))).toBe(long)
  const program = statSync(join(back, 'program'))
  expect([program.size, program.mode & 0o777, program.mtimeMs]).toEqual([70_000, 0o755, SECONDS * 1_000])
  expect(statSync(join(back, long)).mode & 0o777).toBe(0o644)
})

test('each architecture has the same pinned packages, and the Node.js that package.json names', () => {
  const packages = pinnedPackages()
  const of = (architecture: string) => packages.filter((each) => each.architecture === architecture)
  expect(of('amd64').map(({ name }) => name)).toEqual(of('arm64').map(({ name }) => name))
  expect(packages.length).toBe(2 * of('amd64').length)
  for (const { sha256, filename, version } of packages)
    expect([sha256, filename, version]).toEqual([
      expect.stringMatching(/^[0-9a-f]{64}$/),
      expect.stringMatching(/^pool\/.+\.deb$/),
      expect.any(String),
    ])
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'packages/server/package.json'), 'utf8')) as {
    optionalDependencies: Record<string, string>
  }
  for (const architecture of ARCHITECTURES) {
    const { node } = PLATFORMS[architecture]
    expect(lockedPackage(ROOT, node).version).toBe(optionalDependencies[node])
  }
})

test('the image runs as the user of the Containerfile, with settings that there are', () => {
  const containerfile = readFileSync(join(ROOT, 'deploy/Containerfile'), 'utf8')
  const source = { version: '1.2.3', revision: 'abc', repository: null, seconds: SECONDS }
  const { config } = imageConfig(source) as { config: { User: string } }
  expect(containerfile).toContain(`\nUSER ${config.User}\n`)
  const known: string[] = Object.values(SETTINGS).map(({ env }) => env)
  expect(Object.keys(ENVIRONMENT).filter((name) => name !== 'NODE_ENV' && !known.includes(name))).toEqual([])
})
