import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { expectStatus, newHolder, transfer } from '../../delegation/delegated.fixture.ts'
import { newApp, publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import type { PaymentRequirements } from './schema.ts'
import { deleteOldSettlements } from './service.ts'
import { bodyOf, commandIdOf, type Market, newMarket, newNonce, paid, proofOf } from './x402.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const begun = async () => newMarket(service, await service.newTenant())

const settle = async (tenant: Tenant, body: object, options = {}) =>
  expectStatus(await tenant.post('/x402/settle', body, options), 200)
const verify = async (tenant: Tenant, body: object) => expectStatus(await tenant.post('/x402/verify', body), 200)

/** What both calls say of a payment. */
async function bothOf(tenant: Tenant, body: object): Promise<[verified: string, settled: string]> {
  const { isValid, invalidReason } = await verify(tenant, body)
  const { success, errorReason, transaction } = await settle(tenant, body)
  expect([isValid, transaction === '']).toEqual([success, !success])
  return [invalidReason ?? 'valid', errorReason ?? 'settled']
}

describe('a payment', () => {
  test('is settled once, and then used', async () => {
    const market = await begun()
    const { tenant, payer } = market
    const terms = market.terms()
    const { nonce, updateId } = await paid(market)
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    expect(await verify(tenant, body)).toEqual({ isValid: true, payer: payer.party })
    expect(await settle(tenant, body)).toEqual({
      success: true,
      payer: payer.party,
      transaction: updateId,
      network: terms.network,
      amount: terms.amount,
    })
    expect(await bothOf(tenant, body)).toEqual(['payment_already_used', 'payment_already_used'])
  })

  test('that ten requests show at once is settled for exactly one of them', async () => {
    const market = await begun()
    const terms = market.terms()
    const { nonce } = await paid(market)
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    const settled = await Promise.all(Array.from({ length: 10 }, () => settle(market.tenant, body)))
    expect(settled.filter(({ success }) => success)).toHaveLength(1)
    expect(settled.filter(({ errorReason }) => errorReason === 'payment_already_used')).toHaveLength(9)
  })

  test('is settled for a repeat of the same call, whose first answer was lost', async () => {
    const market = await begun()
    const terms = market.terms()
    const { nonce } = await paid(market)
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    const repeat = { headers: { 'idempotency-key': 'the-same-call' } }
    const first = await settle(market.tenant, body, repeat)
    expect(first.success).toBe(true)
    expect(await settle(market.tenant, body, repeat)).toEqual(first)
    expect((await settle(market.tenant, body)).errorReason).toBe('payment_already_used')
  })

  test('of several transfers in one transaction counts as their sum', async () => {
    const market = await begun()
    const [one, other] = [await market.payer.receive('1'), await market.payer.receive('1')]
    const terms = market.terms({ amount: '15000000000' })
    const nonce = newNonce()
    const commands = [transfer(one, '0.5', terms.payTo), transfer(other, '1', terms.payTo)]
    expectStatus(await market.session.execute({ commandId: commandIdOf(terms, nonce), commands }), 200)
    expect(await bothOf(market.tenant, bodyOf(proofOf(market, terms, nonce), terms))).toEqual(['valid', 'settled'])
  })

  test('is refused once it is older than the seller accepts, also after its settlement was deleted', async () => {
    const market = await begun()
    const terms = market.terms()
    const [used, unused] = [await paid(market), await paid(market)].map(({ nonce }) =>
      bodyOf(proofOf(market, terms, nonce), terms),
    ) as [object, object]
    expect((await settle(market.tenant, used)).success).toBe(true)
    service.advance(61_000)
    expect(await bothOf(market.tenant, unused)).toEqual(['payment_expired', 'payment_expired'])
    const kept = () => service.sql('select from payment_settlements where tenant_id = $1', [market.tenant.tenantId])
    const deleteOld = () => deleteOldSettlements(service.deps.db, service.deps.now())
    service.advance(24 * 3_600_000)
    await deleteOld()
    expect(await kept()).toHaveLength(1)
    service.advance(3_600_000)
    await deleteOld()
    expect(await kept()).toHaveLength(0)
    expect(await bothOf(market.tenant, used)).toEqual(['payment_expired', 'payment_expired'])
  })

  test('is in the audit log when it is settled', async () => {
    const market = await begun()
    const terms = market.terms()
    const { nonce, updateId } = await paid(market)
    await settle(market.tenant, bodyOf(proofOf(market, terms, nonce), terms))
    await eventually('the audit log has the settlement', async () => {
      const { data } = (await market.tenant.get('/audit-log?action=x402.settled')).body
      return data.length === 1 && data[0].target === updateId
    })
  })
})

describe('what is no payment of these terms', () => {
  const shop = `shop::1220${'5a'.repeat(32)}`
  const changes: [string, (market: Market) => Partial<PaymentRequirements>, string][] = [
    ['another amount', () => ({ amount: '2500000001' }), 'payment_mismatch'],
    ['a smaller amount', () => ({ amount: '1' }), 'payment_mismatch'],
    ['another recipient', () => ({ payTo: shop }), 'payment_mismatch'],
    ['the payer as recipient', ({ payer }) => ({ payTo: payer.party }), 'payment_mismatch'],
    ['another asset with the same symbol', ({ seller }) => ({ asset: `${seller.party}/USDX` }), 'payment_mismatch'],
    ['another symbol', ({ payer }) => ({ asset: `${payer.issuer}/EURX` }), 'payment_mismatch'],
    ['another network', () => ({ network: 'halfkey:ten_01jb2m7x9kq4t8v6w0r3s5y1zp' }), 'invalid_network'],
    [
      'another resource',
      () => ({ extra: { decimals: 10, method: 'GET', resource: 'https://api.example.com/gold' } }),
      'payment_not_found',
    ],
    ['another method', ({ terms }) => ({ extra: { ...terms().extra, method: 'POST' } }), 'payment_not_found'],
  ]
  test.each(changes)('%s is refused', async (_, change, reason) => {
    const market = await begun()
    const { nonce } = await paid(market)
    const terms = market.terms(change(market))
    expect(await bothOf(market.tenant, bodyOf(proofOf(market, terms, nonce), terms))).toEqual([reason, reason])
    // The payment itself is not used up by that.
    const right = market.terms()
    expect(await bothOf(market.tenant, bodyOf(proofOf(market, right, nonce), right))).toEqual(['valid', 'settled'])
  })

  test('a transfer to oneself is refused: it brings nothing', async () => {
    const market = await begun()
    const terms = market.terms({ payTo: market.payer.party })
    const nonce = newNonce()
    const commands = [transfer(await market.payer.receive('0.25'), '0.25', terms.payTo)]
    expectStatus(await market.session.execute({ commandId: commandIdOf(terms, nonce), commands }), 200)
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    expect(await bothOf(market.tenant, body)).toEqual(['payment_mismatch', 'payment_mismatch'])
  })

  test('other terms than the payer accepted are refused', async () => {
    const market = await begun()
    const { nonce } = await paid(market)
    for (const other of [market.terms({ amount: '1' }), market.terms({ maxTimeoutSeconds: 3_600 })]) {
      const body = bodyOf(proofOf(market, market.terms(), nonce), other)
      expect(await bothOf(market.tenant, body)).toEqual(['requirements_mismatch', 'requirements_mismatch'])
    }
  })

  test('another nonce, session or payer is refused', async () => {
    const market = await begun()
    const { nonce } = await paid(market)
    const other = await newMarket(service, market.tenant)
    const terms = market.terms()
    for (const change of [
      { nonce: newNonce() },
      { delegatedSessionId: other.session.id },
      { payer: other.payer.party },
      { payer: market.seller.party },
    ]) {
      const body = bodyOf(proofOf(market, terms, nonce, change), terms)
      expect(await bothOf(market.tenant, body)).toEqual(['payment_not_found', 'payment_not_found'])
    }
  })

  test('a transaction of another tenant is refused', async () => {
    const market = await begun()
    const { nonce } = await paid(market)
    const other = await service.newTenant()
    const reasonOf = async (terms: PaymentRequirements) => bothOf(other, bodyOf(proofOf(market, terms, nonce), terms))
    expect(await reasonOf(market.terms())).toEqual(['invalid_network', 'invalid_network'])
    const theirs = market.terms({ network: `halfkey:${other.tenantId}` })
    expect(await reasonOf(theirs)).toEqual(['payment_not_found', 'payment_not_found'])
  })

  test('an update that its party did not sign is refused', async () => {
    const market = await begun()
    const terms = market.terms()
    const { nonce, updateId } = await paid(market)
    await service.sql(
      `update ledger_updates set signatures = (replace(signatures::text, '"signature":"', '"signature":"00'))::json where update_id = $1`,
      [updateId],
    )
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    expect(await bothOf(market.tenant, body)).toEqual(['payment_not_found', 'payment_not_found'])
  })

  test('other decimals, versions, schemes and forms are invalid', async () => {
    const market = await begun()
    const { nonce } = await paid(market)
    const right = market.terms()
    const wrong: object[] = [
      { ...right, extra: { ...right.extra, decimals: 6 } },
      { ...right, scheme: 'upto' },
      { ...right, amount: '0' },
      { ...right, amount: '2.5' },
      { ...right, amount: 2500000000 },
      { ...right, amount: '9'.repeat(40) },
      { ...right, maxTimeoutSeconds: 86_400 },
      { ...right, maxTimeoutSeconds: 0 },
      { ...right, asset: 'USDX' },
      { ...right, payTo: 'shop' },
      { ...right, extra: { ...right.extra, resource: 'file:///etc/passwd' } },
      { ...right, extra: { ...right.extra, resource: `https://x.example/${'a'.repeat(3_000)}` } },
      { ...right, more: true },
    ]
    for (const terms of wrong) {
      const body = bodyOf(proofOf(market, terms as PaymentRequirements, nonce), terms)
      for (const path of ['verify', 'settle'])
        expectRefusal(await market.tenant.post(`/x402/${path}`, body), 'validation_failed')
    }
    const old = { ...bodyOf(proofOf(market, right, nonce), right), x402Version: 1 }
    expectRefusal(await market.tenant.post('/x402/settle', old), 'validation_failed')
    expect((await settle(market.tenant, bodyOf(proofOf(market, right, nonce), right))).success).toBe(true)
  })
})

describe('the facilitator', () => {
  test('names the ledger of the tenant', async () => {
    const { tenant } = await begun()
    const network = `halfkey:${tenant.tenantId}`
    const kind = { x402Version: 2, scheme: 'exact', network, extra: { decimals: 10 } }
    const supported = expectStatus(await tenant.get('/x402/supported'), 200)
    expect(supported).toEqual({ kinds: [kind], extensions: [], signers: {} })
  })

  test('takes secret keys with the scope, and no others', async () => {
    const market = await begun()
    const terms = market.terms()
    const { nonce } = await paid(market)
    const body = bodyOf(proofOf(market, terms, nonce), terms)
    const { tenant } = market
    const poor = await tenant.newKey({ scopes: ['wallets:write', 'delegated_sessions:execute'] })
    const publishable = await publishableKey(tenant)
    for (const path of ['/x402/verify', '/x402/settle']) {
      expectError(await tenant.post(path, body, { key: poor }), 403, 'insufficient_scope')
      expectError(await tenant.post(path, body, { key: publishable }), 403, 'key_type_not_allowed')
    }
    const key = await tenant.newKey({ scopes: ['payments:settle'] })
    expect((await settle(tenant, body, { key })).success).toBe(true)
  })

  test('settles by a key of an app only payments to wallets of that app', async () => {
    const market = await begun()
    const { tenant } = market
    const elsewhere = await newApp(tenant)
    const theirs = await newHolder(tenant, { appId: elsewhere })
    const scopes = ['payments:settle']
    const key = await tenant.newKey({ scopes, appId: elsewhere })
    const reasonOf = async (payTo: string, by: string) => {
      const terms = market.terms({ payTo })
      const { nonce } = await paid(market, terms)
      return (await settle(tenant, bodyOf(proofOf(market, terms, nonce), terms), { key: by })).errorReason
    }
    expect(await reasonOf(market.seller.party, key)).toBe('recipient_not_allowed')
    expect(await reasonOf(market.payer.issuer, key)).toBe('recipient_not_allowed')
    const [name] = theirs.party.split('::')
    for (const like of [`${name}x`, `${name}`])
      expect(await reasonOf(`${like}::1220${'5a'.repeat(32)}`, key)).toBe('recipient_not_allowed')
    expect(await reasonOf(theirs.party, key)).toBeUndefined()
    expect(await reasonOf(theirs.party, await tenant.newKey({ scopes, appId: tenant.appId }))).toBe(
      'recipient_not_allowed',
    )
    expect(await reasonOf(market.payer.issuer, await tenant.newKey({ scopes }))).toBeUndefined()
  })
})
