import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../../test/harness/harness.ts'
import { chunk, png } from './png.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const set = (tenant: Tenant, image: Buffer, options: object = {}) =>
  tenant.post(`/apps/${tenant.appId}/logo`, { png: image.toString('base64') }, options)

async function changesOf(tenant: Tenant): Promise<string[]> {
  const rows = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type = 'app.updated' order by id`,
    [tenant.tenantId],
  )
  return rows.flatMap(({ body }) => JSON.parse(body).data.changed)
}

test('a logo is set, read, replaced and removed, and only a change is an event', async () => {
  const tenant = await service.newTenant()
  expectError(await tenant.get(`/apps/${tenant.appId}/logo`), 404, 'not_found')
  const first = await set(tenant, png({}))
  expect(first.body.data.branding.logo).toMatchObject({ width: 4, height: 2 })
  await set(tenant, png({}))
  expect((await tenant.get(`/apps/${tenant.appId}/logo`)).body.data).toEqual({
    ...first.body.data.branding.logo,
    png: png({}).toString('base64'),
  })
  expect((await set(tenant, png({ width: 512, height: 16 }))).body.data.branding.logo.width).toBe(512)
  // The other settings of the branding, and those of the logo, leave each other alone.
  await tenant.patch(`/apps/${tenant.appId}`, { branding: { name: 'Acme' } })
  const { branding } = (await tenant.delete(`/apps/${tenant.appId}/logo`)).body.data
  expect(branding).toMatchObject({ name: 'Acme', accentColor: null, logo: null })
  expect((await tenant.delete(`/apps/${tenant.appId}/logo`)).status).toBe(200)
  expectError(await tenant.get(`/apps/${tenant.appId}/logo`), 404, 'not_found')
  expect(await changesOf(tenant)).toEqual(['branding.logo', 'branding.logo', 'branding.name', 'branding.logo'])
})

test('what is not the picture is removed: texts, dates, animations, and whatever follows it', async () => {
  const tenant = await service.newTenant()
  const more = [
    chunk('tEXt', Buffer.from('Comment\0<script>alert(1)</script>')),
    chunk('eXIf', Buffer.from('52.5200, 13.4050')),
    chunk('acTL', Buffer.alloc(8)),
  ]
  await set(tenant, Buffer.concat([png({ more }), Buffer.from('<script>alert(2)</script>')]))
  const { png: stored } = (await tenant.get(`/apps/${tenant.appId}/logo`)).body.data
  expect(stored).toBe(png({}).toString('base64'))
})

test('what is no small picture is refused, and says why', async () => {
  const tenant = await service.newTenant()
  const damaged = png({})
  damaged.writeUInt8(damaged.readUInt8(20) ^ 1, 20)
  const refused: [Buffer, RegExp][] = [
    [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'), /PNG/],
    [Buffer.alloc(0), /PNG/],
    [png({}).subarray(0, -1), /not complete/],
    [png({}).subarray(0, 20), /not complete/],
    [damaged, /checksum/],
    [png({ width: 513, raw: Buffer.alloc(1) }), /512 pixels/],
    [png({ width: 0, raw: Buffer.alloc(2) }), /512 pixels/],
    [png({ interlace: 1 }), /interlac/],
    [png({ raw: Buffer.alloc(10) }), /damaged/],
    [png({ depth: 255, raw: Buffer.alloc((1 + 3 * 4 * 32) * 2) }), /damaged/],
    [png({ tail: Buffer.from('hidden') }), /damaged/],
    [png({ more: [chunk('gAMA', Buffer.alloc(4)), chunk('gAMA', Buffer.alloc(4))] }), /damaged/],
    [png({ more: [chunk('PLTE', Buffer.alloc(3000))] }), /damaged/],
    // 40 MB in 40 kB.
    [png({ raw: Buffer.alloc(40_000_000) }), /damaged/],
  ]
  for (const [image, why] of refused) {
    const [detail] = expectRefusal(await set(tenant, image), 'validation_failed', String(why))
    expect(detail).toMatchObject({ field: 'png', message: expect.stringMatching(why) })
  }
  for (const body of [{ png: 'not base64!' }, { png: 'A'.repeat(90_000) }, {}, { png: 7 }])
    expectRefusal(await tenant.post(`/apps/${tenant.appId}/logo`, body), 'validation_failed', JSON.stringify(body))
  expect((await tenant.get(`/apps/${tenant.appId}`)).body.data.branding.logo).toBeNull()
})

test("another tenant's app, and another app than the key's, are the same 404 as none", async () => {
  const [mine, other] = [await service.newTenant(), await service.newTenant()]
  await set(other, png({}))
  const key = await other.newKey({
    scopes: ['apps:read', 'apps:write'],
    appId: (await other.post('/apps', { name: 'B' })).body.data.id,
  })
  for (const [method, body] of [
    ['GET', {}],
    ['POST', { body: { png: png({}).toString('base64') } }],
    ['DELETE', {}],
  ] as const) {
    expectError(await mine.call(method, `/apps/${other.appId}/logo`, body), 404, 'not_found')
    expectError(await other.call(method, `/apps/${other.appId}/logo`, { ...body, key }), 404, 'not_found')
  }
  const reader = await other.newKey({ scopes: ['apps:read'] })
  expectError(await set(other, png({ width: 5 }), { key: reader }), 403, 'insufficient_scope')
  expect((await other.get(`/apps/${other.appId}/logo`, { key: reader })).body.data.width).toBe(4)
})
