import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const sources = readdirSync(`${ROOT}src`, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
const text = (name: string) => readFileSync(`${ROOT}${name}`, 'utf8')

/** Code without its comments, where module names may stand as examples. */
const code = (name: string) => text(`src/${name}`).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

describe('the package', () => {
  test('has no runtime dependencies, except React for its hooks', () => {
    const manifest = JSON.parse(text('package.json'))
    for (const kind of ['dependencies', 'optionalDependencies', 'bundledDependencies'])
      expect(manifest[kind]).toBeUndefined()
    expect(manifest.peerDependencies).toEqual({ react: '>=18' })
    expect(manifest.peerDependenciesMeta).toEqual({ react: { optional: true } })
    expect(sources.length).toBeGreaterThan(10)
    for (const name of sources) {
      const imported = [...code(name).matchAll(/(?:from|import|require)\s*\(?\s*['"]([^'"]+)['"]/g)].map(
        ([, from]) => from,
      )
      const local = name === 'react.ts' ? imported.filter((from) => from !== 'react') : imported
      for (const from of local) expect(from, name).toMatch(/^\.\.?\/[\w./-]+\.ts$/)
    }
  })

  test('uses nothing that only Node has', () => {
    for (const name of sources.filter((each) => !each.endsWith('.gen.ts')))
      expect(code(name), name).not.toMatch(/\bnode:|\bBuffer\b|\bprocess\.|\b__dirname\b|\bsetImmediate\b|\brequire\(/)
  })

  test('does not write to the console, except the errors of handlers without a framework', () => {
    const handlers = ['fetch.ts', 'x402/seller.ts']
    for (const name of sources.filter((each) => !handlers.includes(each)))
      expect(code(name), name).not.toMatch(/\bconsole\b/)
    for (const name of handlers) expect(code(name).match(/\bconsole\b/g), name).toHaveLength(1)
  })
})
