import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  BOB,
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  transfer,
  transfers,
} from '../../delegation/delegated.fixture.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { newApp, publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import { newWalletKey, proven } from '../wallets/wallets.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const ask = (tenant: Tenant, userId: string, more: object = {}) =>
  tenant.post('/dev/faucet', { userId, symbol: 'USDX', amount: '100.00', ...more })

const eventTypes = async (tenant: Tenant): Promise<string[]> =>
  (
    await service.sql<{ type: string }>('select type from events where tenant_id = $1 order by id', [tenant.tenantId])
  ).map(({ type }) => type)

test('issues a holding by the tenant’s own issuer, which the wallet’s session sees and spends', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const dripped = expectStatus(await ask(tenant, ada.userId), 201)
  expect(dripped).toEqual({
    contractId: expect.stringMatching(/^01[0-9a-f]{64}$/),
    templateId: 'Token:Holding',
    issuer: ada.issuer,
    owner: ada.party,
    symbol: 'USDX',
    amount: '100',
    updateId: expect.stringMatching(/^1220[0-9a-f]{64}$/),
    offset: expect.any(Number),
  })
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
  expect(await holdingsOf(session)).toMatchObject([{ contractId: dripped.contractId, amount: '100', symbol: 'USDX' }])
  const done = expectStatus(await session.execute({ commands: [transfer(dripped.contractId, '1')] }), 200)
  expect(done.offset).toBeGreaterThan(dripped.offset)
})

test('tells of no transaction: neither event nor record', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const before = await eventTypes(tenant)
  await Promise.all(Array.from({ length: 20 }, () => ada.receive('1')))
  expect(await eventTypes(tenant)).toEqual(before)
  expect((await tenant.get('/transactions')).body.data).toEqual([])
})

describe('for whom', () => {
  test('a user without a wallet has it once there is one; a guest too', async () => {
    const tenant = await service.newTenant()
    const userId = await tenant.userId()
    const guest = await newGuest(tenant)
    for (const id of [userId, guest.userId]) {
      const { owner, contractId } = expectStatus(await ask(tenant, id), 201)
      const asUser = { headers: { 'x-user-id': id } }
      const wallet = expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
      expect(wallet.partyId).toBe(owner)
      const session = await newSession(
        service,
        tenant,
        { asUser },
        { policy: transfers({ issuer: BOB } as never, '1') },
      )
      expect((await holdingsOf(session)).map((holding) => holding.contractId)).toEqual([contractId])
    }
  })

  test('the owner of a key of their own gets it in their wallet’s party', async () => {
    const tenant = await service.newTenant()
    const userId = await tenant.userId()
    const headers = { 'x-user-id': userId }
    const app = await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    expectStatus(app, 200)
    const actor = { post: (path: string, body?: unknown) => tenant.post(path, body, { headers }) }
    const wallet = expectStatus(await actor.post('/users/me/wallet', await proven(actor, newWalletKey())), 201)
    const dripped = expectStatus(await ask(tenant, userId), 201)
    expect(dripped.owner).toBe(wallet.partyId)
    expect(dripped.issuer).not.toContain(wallet.partyId.split('::')[1])
  })

  test('nobody who is not the caller’s: another tenant’s, another app’s, or nobody’s id is the same 404', async () => {
    const [tenant, other] = [await service.newTenant(), await service.newTenant()]
    const appId = await newApp(tenant)
    const bound = await tenant.newKey({ scopes: ['*'], appId })
    const mine = await tenant.userId()
    const unknown = await ask(tenant, 'usr_00000000000000000000000000')
    expectError(unknown, 404, 'not_found')
    expect(unknown.body.details[0].field).toBe('userId')
    const same = async (id: string) => expect((await ask(tenant, id)).body).toEqual(unknown.body)
    for (const id of [await other.userId(), 'x', '', 'usr_', tenant.appId, '__proto__', "' or 1=1"]) await same(id)
    const body = { userId: mine, symbol: 'USDX', amount: '1' }
    expect((await tenant.post('/dev/faucet', body, { key: bound })).body).toEqual(unknown.body)
    const own = expectStatus(await tenant.post('/users', { appId }), 201).id
    expectStatus(await tenant.post('/dev/faucet', { ...body, userId: own }, { key: bound }), 201)
  })

  test('nobody whose wallet is on another ledger, which has no faucet', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    await service.sql("update wallets set ledger = 'elsewhere' where tenant_id = $1", [tenant.tenantId])
    await service.recode(tenant.tenantId)
    const details = expectRefusal(await ask(tenant, ada.userId), 'validation_failed')
    expect(details[0]).toMatchObject({ field: 'userId', message: expect.stringContaining('elsewhere') })
  })

  test('no user who was deleted', async () => {
    const tenant = await service.newTenant()
    const ada = await newHolder(tenant)
    expectStatus(await tenant.delete(`/users/${ada.userId}`), 200)
    expectError(await ask(tenant, ada.userId), 404, 'not_found')
  })
})

test('gives amounts and symbols of their forms only, naming the field', async () => {
  const tenant = await service.newTenant()
  const userId = await tenant.userId()
  const refused = async (more: object, field: string) => {
    const details = expectRefusal(await ask(tenant, userId, more), 'validation_failed', JSON.stringify(more))
    expect(details[0].field).toBe(field)
  }
  const amounts = ['0', '0.0', '-1', '+1', '1e3', '1.00000000001', '01', '.5', '5.', '', ' 1', 'NaN', '0x1', '1,5', '٣']
  for (const amount of [...amounts, `1${'0'.repeat(28)}`, 1, null, ['1'], {}]) await refused({ amount }, 'amount')
  const symbols = ['', 'US D', '-x', 'x'.repeat(33), '__proto__', 'é', 'USDX\n', 1, null]
  for (const symbol of symbols) await refused({ symbol }, 'symbol')
  for (const id of [1, null, ['x']]) await refused({ userId: id }, 'userId')
  await refused({ issuer: BOB }, 'issuer')
  await refused({ amount: undefined }, 'amount')
  expectStatus(await ask(tenant, userId, { amount: '9999999999999999999999999999.9999999999' }), 201)
  expectStatus(await ask(tenant, userId, { amount: '0.0000000001' }), 201)
})

test('an Idempotency-Key makes it happen once, of twenty at the same time', async () => {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const body = { userId: ada.userId, symbol: 'USDX', amount: '1' }
  const options = { headers: { 'idempotency-key': 'drip' } }
  const answers = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/dev/faucet', body, options)))
  for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'idempotency_in_progress')
  expectStatus(await tenant.post('/dev/faucet', body, options), 201)
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10') })
  expect(await holdingsOf(session)).toHaveLength(1)
})

test('needs a secret key with wallets:write', async () => {
  const tenant = await service.newTenant()
  const body = { userId: await tenant.userId(), symbol: 'USDX', amount: '1' }
  const reader = await tenant.newKey({ scopes: ['wallets:read'] })
  expectError(await tenant.post('/dev/faucet', body, { key: reader }), 403, 'insufficient_scope')
  const publishable = await publishableKey(tenant)
  expectError(await tenant.post('/dev/faucet', body, { key: publishable }), 403, 'key_type_not_allowed')
  expectError(await tenant.post('/dev/faucet', body, { key: null }), 401, 'api_key_missing')
  const writer = await tenant.newKey({ scopes: ['wallets:write'] })
  expectStatus(await tenant.post('/dev/faucet', body, { key: writer }), 201)
})

describe('in production', () => {
  let production: Service
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-kek-'))
  beforeAll(async () => {
    const kekFile = join(folder, 'kek.key')
    writeFileSync(kekFile, randomBytes(32).toString('base64'), { mode: 0o600 })
    production = await startService({ HALFKEY_ENV: 'production', HALFKEY_KEK_FILE: kekFile, HALFKEY_RATE_LIMITS: 'on' })
  })
  afterAll(async () => {
    await production.stop()
    rmSync(folder, { recursive: true })
  })

  test('there is none: the path is as unknown as any other, and nothing is issued', async () => {
    const tenant = await production.newTenant()
    const body = { userId: await tenant.userId(), symbol: 'USDX', amount: '1' }
    const answer = await tenant.post('/dev/faucet', body)
    expectError(answer, 404, 'not_found')
    expect(answer.body).toEqual((await tenant.post('/dev/nothing', body)).body)
    expectError(await tenant.post('/dev/faucet', body, { key: null }), 401, 'api_key_missing')
    expect(await production.sql('select 1 from ledger_updates')).toEqual([])
  })
})
