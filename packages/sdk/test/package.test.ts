import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const sources = readdirSync(`${ROOT}src`, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
const text = (name: string) => readFileSync(`${ROOT}${name}`, 'utf8')

/** Code without its comments, where module names may stand as examples. */
const code = (name: string) => text(`src/${name}`).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

describe('the package', () => {
  test('has no dependencies at run time', () => {
    const manifest = JSON.parse(text('package.json'))
    for (const kind of ['dependencies', 'peerDependencies', 'optionalDependencies', 'bundledDependencies'])
      expect(manifest[kind]).toBeUndefined()
    expect(sources.length).toBeGreaterThan(10)
    for (const name of sources) {
      const imported = [...code(name).matchAll(/(?:from|import|require)\s*\(?\s*['"]([^'"]+)['"]/g)].map(
        ([, from]) => from,
      )
      for (const from of imported) expect(from, name).toMatch(/^\.\.?\/[\w./-]+\.ts$/)
    }
  })

  test('names nothing that only Node has', () => {
    for (const name of sources.filter((each) => !each.endsWith('.gen.ts')))
      expect(code(name), name).not.toMatch(/\bnode:|\bBuffer\b|\bprocess\.|\b__dirname\b|\bsetImmediate\b|\brequire\(/)
  })

  test('writes to no console', () => {
    for (const name of sources) expect(code(name), name).not.toMatch(/\bconsole\b/)
  })
})
