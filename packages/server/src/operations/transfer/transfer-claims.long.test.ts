import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { craft, exportTo, importFrom, newWorkbench } from './transfer.fixture.ts'

const bench = newWorkbench()
let before: Service
let after: Service
beforeAll(async () => {
  before = await startService({ HALFKEY_ROLE: 'api' })
  after = await startService()
}, 180_000)
afterAll(async () => {
  await after?.stop()
  await before?.stop()
  bench.remove()
})

test.each([
  ['without ID tokens brings no claims that guests could write', false, { theme: 'dark' }],
  ['with ID tokens brings the claims of users', true, { 'claim:plan': 'gold', theme: 'dark' }],
])('an export of a release %s', async (_, isNew, metadata) => {
  const tenant = await before.newTenant()
  const { id } = (await tenant.post('/users', { metadata: { 'claim:plan': 'gold', theme: 'dark' } })).body.data
  const keyFile = bench.newKey()
  const whole = bench.path(`${tenant.tenantId}.halfkey`)
  await exportTo(before, tenant.tenantId, whole, keyFile)
  const old = () =>
    craft(whole, keyFile, {
      change({ tables }, rows) {
        const columns = tables.find(({ name }) => name === 'apps')?.columns ?? []
        const at = columns.findIndex(({ name }) => name === 'openid')
        columns.splice(at, 1)
        const cut = (line: string) => JSON.stringify((JSON.parse(line) as unknown[]).toSpliced(at, 1))
        rows.set('apps', rows.get('apps')?.map(cut) ?? [])
      },
    })
  const { exitCode, err } = await importFrom(after, isNew ? whole : await old(), keyFile)
  expect([exitCode, err]).toEqual([0, expect.any(String)])
  expect(await after.sql('select metadata from users where id = $1', [id])).toEqual([{ metadata }])
})
