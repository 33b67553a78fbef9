import { expectStatus, newSession } from '../../../src/delegation/delegated.fixture.ts'
import { eventsOf } from '../../../src/identity/sessions/sessions.fixture.ts'
import { call } from '../../harness/harness.ts'
import type { CantonHolder } from '../canton.fixture.ts'
import { type HoldingsScene, startHoldings } from '../holdings/holdings.fixture.ts'
import { INSTRUCTION, OFFER, resultOf, TOKEN } from '../tokens.ts'

/** Parties that are on other participants. */
export const STRANGER = `stranger::1220${'5f'.repeat(32)}`
export const OTHER = `other::1220${'0f'.repeat(32)}`

type Wallet = Pick<CantonHolder, 'walletId'>
type Event = Record<string, unknown>

/** A choice of the standard that somebody exercised on an offer. */
export const answered = (contractId: string, choice: string, tag: Parameters<typeof resultOf>[0]) => ({
  contractId,
  interfaceId: INSTRUCTION,
  choice: `TransferInstruction_${choice}`,
  result: resultOf(tag),
})

export interface OffersScene extends HoldingsScene {
  /** Puts an offer on the ledger. @returns its contract */
  offered(sender: string, receiver: string, amount: string, more?: object): string
  /** The offers that are listed of a wallet. */
  offersOf(wallet: Wallet, query?: string): Promise<Record<string, never>[]>
  /** Of a wallet, what was offered, and how what ended. */
  told(wallet: Wallet): Promise<{ offered: Event[]; settled: Event[]; outcomes: unknown[] }>
}

/** A participant whose holdings and offers are followed. */
export async function startOffers(): Promise<OffersScene> {
  const scene = await startHoldings({
    assets: [
      { templateId: TOKEN, issuer: 'instrument.admin', owner: 'owner', symbol: 'instrument.id', amount: 'amount' },
      { templateId: OFFER, issuer: 'instrument.admin', symbol: 'instrument.id', amount: 'amount' },
    ],
  })
  const { service, tenant, registry } = scene
  const eventsAbout = async (type: string, { walletId }: Wallet) =>
    (await eventsOf(service, tenant, type)).filter((each) => each.walletId === walletId)
  return {
    ...scene,
    offered: (sender, receiver, amount, more) =>
      service.participant.happen([], [registry.offer(sender, receiver, amount, more)])[0] as string,
    offersOf: async ({ walletId }, query = '') =>
      expectStatus(await tenant.get(`/wallets/${walletId}/transfer-offers${query}`), 200).offers,
    async told(wallet) {
      const offered = await eventsAbout('token.transfer_offered', wallet)
      const settled = await eventsAbout('token.transfer_settled', wallet)
      return { offered, settled, outcomes: settled.map(({ outcome }) => outcome) }
    },
  }
}

const STEPS = ['TransferInstruction_Accept', 'TransferInstruction_Reject', 'TransferInstruction_Withdraw']

/** Allows answers to offers, and what they cause. */
export const ANSWERS = {
  allow: [
    { templateId: INSTRUCTION, actions: ['exercise'], choices: STEPS },
    { templateId: TOKEN, actions: ['create'] },
    // What is used up needs a rule, too.
    { templateId: OFFER, actions: ['create'] },
  ],
}

/** The contract of an offer now, as its list says it; any for one that is not there. */
export async function contractOf({ service }: Pick<OffersScene, 'service'>, offerId: string): Promise<string> {
  const rows = await service.sql<{ id: string }>('select contract_id as id from token_offers where id = $1', [offerId])
  return rows[0]?.id ?? '00'
}

/** A session that may answer, and its calls. */
export async function newAnswering({ service, tenant }: OffersScene, holder: CantonHolder, policy: object = ANSWERS) {
  const session = await newSession(service, tenant, holder, { policy, expiresInSeconds: 86_400 })
  const key = await tenant.newKey({ publishable: true })
  const headers = { authorization: `Bearer ${session.token}` }
  return {
    session,
    async answer(offerId: string, how: string, body: object = {}, walletId = holder.walletId) {
      const path = `/v1/wallets/${walletId}/transfer-offers/${offerId}/${how}`
      const all = { delegatedSessionId: session.id, contractId: await contractOf({ service }, offerId), ...body }
      return call(service.url, 'POST', path, { key, headers, body: all })
    },
  }
}
