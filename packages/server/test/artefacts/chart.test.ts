import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { CHART_SETTINGS } from '../../scripts/chart/chart-files.ts'
import { readKubernetesSchemas } from '../../scripts/chart/kubernetes-schemas.ts'
import { SETTINGS } from '../../src/platform/config.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const CHART = join(ROOT, 'deploy/chart')
const read = (path: string) => readFileSync(path, 'utf8')
const templates = globSync(join(CHART, 'templates/*.{yaml,tpl}')).map(read).join('\n')

type Values = { [name: string]: unknown }
const isMap = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value)

/** As Helm merges: maps field by field, anything else is replaced. */
function merged(base: unknown, over: unknown): unknown {
  if (!isMap(base) || !isMap(over)) return over
  const names = new Set([...Object.keys(base), ...Object.keys(over)])
  return Object.fromEntries(
    [...names].map((name) => [name, name in over ? merged(base[name], over[name]) : base[name]]),
  )
}

const defaults = parse(read(join(CHART, 'values.yaml'))) as Values
const minimal = parse(read(join(ROOT, 'deploy/kubernetes/values-minimal.yaml'))) as Values
const accepts = new Ajv({ strict: false }).compile(JSON.parse(read(join(CHART, 'values.schema.json'))))
const isAccepted = (over: Values) => accepts(merged(defaults, over))

test('pods get settings that there are', () => {
  const names = new Set([...templates.matchAll(/^ *- name: ([A-Z][A-Z_]+)$/gm)].map(([, name = '']) => name))
  const known: string[] = Object.values(SETTINGS).map(({ env }) => env)
  expect([...names].filter((name) => !known.includes(name))).toEqual([])
  expect(CHART_SETTINGS.filter((name) => !names.has(name))).toEqual([])
})

test('the schemas that are kept are those of the kinds that the chart makes', () => {
  const kinds = new Set(
    [...templates.matchAll(/^apiVersion: (\S+)\nkind: (\S+)$/gm)].map(([, api, kind]) => `${api} ${kind}`),
  )
  expect(Object.keys(readKubernetesSchemas().kinds).sort()).toEqual([...kinds].sort())
})

describe('the values', () => {
  test.each(globSync(join(ROOT, 'deploy/kubernetes/values-*.yaml')))('of %s are accepted', (path) => {
    expect(isAccepted(parse(read(path)) as Values), JSON.stringify(accepts.errors)).toBe(true)
  })

  test('need three of them, and a wrong one is refused before anything is installed', () => {
    expect(Object.keys(minimal)).toEqual(['publicUrl', 'database', 'kek'])
    expect(isAccepted(minimal)).toBe(true)
    const wrong: Values[] = [
      {},
      ...Object.keys(minimal).map((name) => ({ ...minimal, [name]: defaults[name] })),
      { publicUrl: 'http://wallets.example.com' },
      { image: { tag: 'latest' } },
      { image: { digest: 'sha256:short' } },
      { env: { HALFKEY_RETENTON: '14d' } },
      { env: { HALFKEY_MIGRATE: 'on' } },
      { env: { HALFKEY_ADMIN_KEY: 'a secret in plain text' } },
      { env: { HALFKEY_INSECURE_DEV: '1' } },
      { secretEnv: { REDIS_URL: 'redis://redis' } },
      { replicas: 3 },
      { terminationGracePeriodSeconds: 10 },
      { httpRoute: { enabled: true } },
    ]
    const base = (over: Values, at: number) =>
      at <= Object.keys(minimal).length ? over : (merged(minimal, over) as Values)
    expect(wrong.filter((over, at) => isAccepted(base(over, at)))).toEqual([])
  })
})
