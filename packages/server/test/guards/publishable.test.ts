import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const text = (path: string) => readFileSync(`${ROOT}${path}`, 'utf8')

describe.each(['server', 'sdk', 'keys', 'mcp'])('packages/%s can be published', (name) => {
  const folder = `packages/${name}`
  const manifest = JSON.parse(text(`${folder}/package.json`))

  test('publicly and with provenance, in the version of the repository', () => {
    expect(manifest.private).toBeUndefined()
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true })
    expect(manifest.version).toBe(JSON.parse(text('package.json')).version)
  })

  test('with its licence', () => {
    expect(manifest.license).toBe('Apache-2.0')
    expect(text(`${folder}/LICENSE`)).toBe(text('LICENSE'))
  })

  test('with a README whose links work outside of the repository', () => {
    const targets = [...text(`${folder}/README.md`).matchAll(/\]\(([^)\s]+)/g)].map(([, target]) => target)
    expect(targets.filter((target) => !/^(https:\/\/|#)/.test(target as string))).toEqual([])
  })

  test('with built files only, which are built before packing', () => {
    expect(manifest.scripts.prepack).toBe('npm run build')
    expect(manifest.files).toContain('dist')
    expect(manifest.files.filter((path: string) => /src|test|scripts|bench/.test(path))).toEqual([])
  })
})
