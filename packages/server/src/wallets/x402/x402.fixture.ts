import { createHash, randomBytes } from 'node:crypto'
import type { Service, Tenant } from '../../../test/harness/harness.ts'
import {
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
  transfer,
  transfers,
} from '../../delegation/delegated.fixture.ts'
import type { PaymentRequirements } from './schema.ts'

const RESOURCE = 'https://api.example.com/weather?city=Paris'

/** Somebody who pays out of a session, and somebody who is paid. */
export interface Market {
  tenant: Tenant
  payer: Holder
  seller: Holder
  session: Session
  /** 0.25 USDX for one request, with changes. */
  terms(changes?: Partial<PaymentRequirements>): PaymentRequirements
}

export async function newMarket(service: Pick<Service, 'url'>, tenant: Tenant, cap = '10'): Promise<Market> {
  const payer = await newHolder(tenant)
  const seller = await newHolder(tenant)
  const session = await newSession(service, tenant, payer, { policy: transfers(payer, cap) })
  const terms = (changes: Partial<PaymentRequirements> = {}): PaymentRequirements => ({
    scheme: 'exact',
    network: `halfkey:${tenant.tenantId}`,
    amount: '2500000000',
    asset: `${payer.issuer}/USDX`,
    payTo: seller.party,
    maxTimeoutSeconds: 60,
    extra: { decimals: 10, method: 'GET', resource: RESOURCE },
    ...changes,
  })
  return { tenant, payer, seller, session, terms }
}

export const newNonce = () => randomBytes(32).toString('hex')

/** As docs/x402.md says it. */
export const commandIdOf = ({ extra: { method, resource } }: PaymentRequirements, nonce: string) =>
  `x402-${createHash('sha256')
    .update(JSON.stringify(['halfkey/x402/v1', method, resource, nonce]))
    .digest('hex')}`

/** What a payer shows for a transfer. */
export const proofOf = (
  { payer, session }: Market,
  accepted: PaymentRequirements,
  nonce: string,
  changes: object = {},
) => ({
  x402Version: 2,
  resource: { url: accepted.extra.resource },
  accepted,
  payload: { payer: payer.party, delegatedSessionId: session.id, nonce, ...changes },
})

/** Transfers what the terms ask for. @returns the nonce, and the ledger's id of the transaction */
export async function paid(market: Market, terms = market.terms(), amount = '0.25', nonce = newNonce()) {
  const commands = [transfer(await market.payer.receive('1'), amount, terms.payTo)]
  const commandId = commandIdOf(terms, nonce)
  const { updateId } = expectStatus(await market.session.execute({ commandId, commands }), 200)
  return { nonce, updateId: updateId as string }
}

/** The body for the facilitator. */
export const bodyOf = (paymentPayload: object, paymentRequirements: object) => ({
  x402Version: 2,
  paymentPayload,
  paymentRequirements,
})
