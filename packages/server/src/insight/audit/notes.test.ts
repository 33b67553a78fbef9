import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newHolder } from '../../delegation/delegated.fixture.ts'
import { halfkey } from '../../operations/restore/restore.fixture.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import type { Id } from '../../platform/ids.ts'

// An attacker who writes to the acts that wait for their entries in the audit log, which have no event.

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_FLOOR: 'off' })
})
afterAll(() => service.stop())

const entries = async (query: string) => (await tenant.get(`/audit-log?${query}`)).body.data as { action: string }[]
const verify = () => halfkey(service, 'audit', 'verify', '--tenant', tenant.tenantId)

/** Does something that has no event, and waits for its entry: everything that waited before has had its turn. */
async function settled() {
  const made = await tenant.post('/webhooks', { url: 'http://127.0.0.2:49150/hook', events: ['app.deleted'] })
  await eventually('an entry', async () => (await entries(`target=${made.body.data.id}`)).length > 0)
}

/** Writes an act as the service does, and changes the row before anybody takes it. */
const written = (target: string, change: string) =>
  service.deps.db.tx(async (tx) => {
    const cause = { actor: 'cli' } as const
    const entry = {
      tenantId: tenant.tenantId as Id<'ten'>,
      appId: null,
      action: 'wallet.unfrozen',
      target,
      cause,
    } as const
    await recordAuditOnly(tx, service.deps, entry)
    await tx.run({ text: `${change} where target = '${target}'`, values: [], name: '' })
  })

async function frozenWallet() {
  tenant = await service.newTenant()
  await newHolder(tenant)
  const [wallet] = await service.sql<{ id: string }>('select id from wallets where tenant_id = $1', [tenant.tenantId])
  return wallet?.id as string
}

test('an act that was inserted, altered or lost its MAC gets no entry, lifts no freeze, and is named', async () => {
  const walletId = await frozenWallet()
  await service.sql('create table kept as select * from wallets where id = $1', [walletId])
  expect((await tenant.post(`/wallets/${walletId}/freeze`)).status).toBe(200)
  await eventually('the freeze', async () => (await entries(`target=${walletId}&action=wallet.frozen`)).length > 0)
  expect(await verify()).toMatchObject({ exitCode: 0 })
  await service.sql(
    'update wallets w set (version, mac, frozen_at) = (k.version, k.mac, k.frozen_at) from kept k where w.id = k.id',
  )
  await service.sql('drop table kept')
  service.deps.db.records.forgetVersions()
  for (const [target, change] of [
    ['wal_other', `update audit_only_entries set target = '${walletId}'`],
    [walletId, 'update audit_only_entries set mac = null'],
    [walletId, `update audit_only_entries set context = '{"actor": "usr_somebody"}'`],
  ] as const) {
    await written(target, change)
    await settled()
    expect(await entries(`target=${walletId}&action=wallet.unfrozen`)).toEqual([])
    const [row] = await service.sql<{ id: string }>('select id from audit_only_entries where target = $1', [walletId])
    const told = await verify()
    expect(told.exitCode).toBe(1)
    expect(told.err + told.out).toContain(`wallet.unfrozen of ${walletId} (${row?.id})`)
    const { bad, returned } = JSON.parse((await halfkey(service, 'records', 'verify', '--json')).out)
    expect(bad).toContainEqual({ kind: 'audit_only_entry', tenantId: tenant.tenantId, id: row?.id })
    expect(returned).toContainEqual({ kind: 'wallet', tenantId: tenant.tenantId, id: walletId })
    await service.sql('delete from audit_only_entries where id = $1', [row?.id])
  }
  expect(await verify()).toMatchObject({ exitCode: 0 })
})

test('a genuine act that is put back after it had its entry gets no second one, and is named', async () => {
  const walletId = await frozenWallet()
  await service.sql('create table kept as select * from audit_only_entries with no data')
  await written(walletId, 'insert into kept select * from audit_only_entries')
  await settled()
  expect(await entries(`target=${walletId}&action=wallet.unfrozen`)).toHaveLength(1)
  await service.sql('insert into audit_only_entries select * from kept')
  await service.sql('drop table kept')
  await settled()
  expect(await entries(`target=${walletId}&action=wallet.unfrozen`)).toHaveLength(1)
  const told = await verify()
  expect([told.exitCode, told.err + told.out]).toEqual([1, expect.stringContaining('put back after it had its entry')])
})
