import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { bundle, gzipBytes } from '../../sdk/test/bundle.ts'

/** What docs/ledgers/canton.md promises that the entry of Canton adds to a bundle, compressed. */
const CANTON_BYTES_MAX = 10_000

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const sources = readdirSync(`${ROOT}src`, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
const text = (name: string) => readFileSync(`${ROOT}${name}`, 'utf8')

/** Code without its comments, where module names may stand as examples. */
const code = (name: string) => text(`src/${name}`).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

describe('the package', () => {
  test('depends only on noble and hpke, with exact versions', () => {
    const manifest = JSON.parse(text('package.json'))
    expect(Object.keys(manifest.dependencies).sort()).toEqual(['@hpke/core', '@noble/curves', '@noble/hashes'])
    for (const version of Object.values(manifest.dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    for (const kind of ['peerDependencies', 'optionalDependencies', 'bundledDependencies'])
      expect(manifest[kind]).toBeUndefined()
    for (const name of sources) {
      const imported = [...code(name).matchAll(/(?:from|import|require)\s*\(?\s*['"]([^'"]+)['"]/g)]
      for (const [, from] of imported)
        expect(from, name).toMatch(/^(\.{1,2}\/[\w./-]+\.ts|@noble\/(curves|hashes)\/[\w./-]+\.js|@hpke\/core)$/)
    }
  })

  test('uses nothing that only Node has', () => {
    expect(sources.length).toBeGreaterThan(10)
    for (const name of sources)
      expect(code(name), name).not.toMatch(
        /['"]node:|\bBuffer\b|\bprocess\.|\b__dirname\b|\bsetImmediate\b|\brequire\(/,
      )
  })

  test('loads nothing of Canton with its main entry, and little with the entry of Canton', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'halfkey-keys-'))
    try {
      const [main, canton] = ['src/index.ts', 'src/canton/index.ts'].map((name) => `'${join(ROOT, name)}'`)
      const sizeOf = async (code: string) => {
        writeFileSync(join(folder, 'entry.js'), code)
        return bundle(join(folder, 'entry.js'), { external: ['crypto'] })
      }
      const alone = await sizeOf(`export * from ${main}`)
      const both = await sizeOf(`export * from ${main}; export * as canton from ${canton}`)
      expect(both).toContain('topology_mismatch')
      expect(alone).not.toContain('topology_mismatch')
      expect(gzipBytes(both) - gzipBytes(alone)).toBeLessThan(CANTON_BYTES_MAX)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test('does not write to the console', () => {
    for (const name of sources) expect(code(name), name).not.toMatch(/\bconsole\b/)
  })
})

test('the samples of README.md run and print what their comments say', () => {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-keys-'))
  try {
    const blocks = [...text('README.md').matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block]) => block)
    const sample = blocks.join('\n')
    const file = join(folder, 'sample.ts')
    const source = new URL('../src/index.ts', import.meta.url).href
    writeFileSync(file, sample.replaceAll("'@halfkey/keys'", `'${source}'`))
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--no-warnings', file], { encoding: 'utf8' })
    expect(status, stderr).toBe(0)
    const promised = [...sample.matchAll(/console\.log\(.*\) \/\/ (.+)$/gm)].map(([, beside]) => beside as string)
    // Inside a loop over two, one line is printed twice.
    const printed = stdout.trim().split('\n')
    expect(promised.length).toBeGreaterThan(8)
    expect(printed.length).toBe(promised.length + 1)
    for (const line of promised) expect(printed).toContain(line)
    expect(printed).not.toContain('false')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
