// What a wallet holds on the embedded ledger, however much its party sees.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { expectStatus, newHolder } from '../../delegation/delegated.fixture.ts'

const ISSUER = `bank::1220${'b'.repeat(64)}`
const DUST = `dust::1220${'d'.repeat(64)}`

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

/** Puts holdings on a tenant's ledger, each at an offset of its own, as `seen` by one party. */
async function put(tenantId: string, seen: string, of: { issuer: string; owner: string; from: number; count: number }) {
  const values = [tenantId, of.issuer, of.owner, of.from, of.from + of.count - 1]
  await service.sql(
    `insert into ledger_contracts (tenant_id, contract_id, template_id, arguments, signatories, observers, created_offset)
     select $1, '00' || lpad(to_hex(n), 64, '0'), 'Token:Holding',
       json_build_object('issuer', $2::text, 'owner', $3::text, 'symbol', 'GOLD', 'amount', '1'), array[$2::text], array[$3::text], n
     from generate_series($4::integer, $5::integer) n`,
    values,
  )
  await service.sql(
    `insert into ledger_stakes (tenant_id, party, template_id, created_offset, contract_id)
     select $1, $2, 'Token:Holding', n, '00' || lpad(to_hex(n), 64, '0') from generate_series($3::integer, $4::integer) n`,
    [tenantId, seen, of.from, of.from + of.count - 1],
  )
}

test('what is listed is chosen before it is counted, and what is looked at is bounded and said', async () => {
  const tenant = await service.newTenant()
  const { walletId } = await newHolder(tenant)
  const read = async (query = '') => expectStatus(await tenant.get(`/wallets/${walletId}/holdings${query}`), 200)
  const { partyId: ada } = await read()
  await put(tenant.tenantId, ada, { issuer: ISSUER, owner: ada, from: 1_000, count: 2 })
  // It sees what it has issued to others.
  await put(tenant.tenantId, ada, { issuer: ada, owner: ISSUER, from: 2_000, count: 5_000 })
  expect(await read()).toMatchObject({ complete: true, instruments: [{ amount: '2', holdings: 2 }] })
  await put(tenant.tenantId, ada, { issuer: DUST, owner: ada, from: 10_000, count: 4_000 })
  const admin = `?admin=${encodeURIComponent(ISSUER)}`
  expect(await read(admin)).toMatchObject({ complete: true, instruments: [{ amount: '2' }] })
  await put(tenant.tenantId, ada, { issuer: ada, owner: ISSUER, from: 20_000, count: 5_000 })
  expect(await read(admin)).toMatchObject({ complete: false, instruments: [] })
})
