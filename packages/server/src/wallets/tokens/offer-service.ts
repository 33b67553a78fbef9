import { beginSnapshot, type Db } from '../../platform/db/db.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import type { Command } from '../../platform/ports/ledger.ts'
import type { OfferAnswer, Tokens } from '../../platform/ports/tokens.ts'
import { getWalletRow, ledgerOf, type WalletRow } from '../wallets/service.ts'
import { fail } from './errors.ts'
import { readFollowing } from './following.ts'
import type { ListOffers, TransferOffer, TransferOffers } from './offer-schema.ts'
import * as store from './offer-store.ts'

const PAGE = 20

const toOffer = (row: store.OfferRow, { offerTemplateId: templateId }: Tokens): TransferOffer => ({
  ...wire(row, 'id wallet_id ledger direction status awaits sender receiver'),
  instrument: { admin: row.admin, id: row.instrument },
  ...wire(row, 'amount requested_at execute_before meta'),
  templateId,
  ...wire(row, 'contract_id created_at update_id'),
  endedAt: row.ended_at?.toISOString() ?? null,
})

/** The wallet, for its owner and for a server. @throws not_found, also for the wallet of another user */
async function visible(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<WalletRow> {
  const wallet = await getWalletRow(deps, caller, id)
  if (user === null ? caller.keyType !== 'secret' : user.id !== wallet.user_id) throw fail('not_found')
  return wallet
}

/** @throws offers_unavailable */
function tokensOf(deps: Deps, ledger: string): Tokens {
  const { tokens } = ledgerOf(deps, ledger)
  if (tokens === undefined) throw fail('offers_unavailable')
  return tokens
}

/** A page of the transfers that were offered to or by a wallet. @throws not_found, offers_unavailable */
export async function listOffers(
  deps: Deps,
  call: MaybeUserCall,
  id: string,
  { cursor, page_size, ...filter }: ListOffers,
): Promise<TransferOffers> {
  const wallet = await visible(deps, call, id)
  const tokens = tokensOf(deps, wallet.ledger)
  const limit = Number(page_size ?? PAGE)
  const { direction, status, admin, instrument } = filter
  const of = { tenantId: wallet.tenant_id, walletId: wallet.id, direction, status, admin, instrument }
  return deps.db.tx(async (tx) => {
    await beginSnapshot(tx)
    const following = await readFollowing(tx, wallet, 'offers')
    if (following === null) throw fail('offers_unavailable')
    const page = await store.pageOfOffers(tx, of, cursor ?? null, limit + 1)
    const offers = page.slice(0, limit).map((row) => toOffer(row, tokens))
    return {
      walletId: wallet.id,
      partyId: wallet.party_id,
      ledger: wallet.ledger,
      ...following,
      offers,
      nextCursor: page.length > limit ? (offers.at(-1)?.id ?? null) : null,
    }
  })
}

type OfWallet = Pick<store.OfferFilter, 'tenantId' | 'walletId'>

const findOffer = async (db: Db, of: OfWallet, id: string): Promise<store.OfferRow> =>
  existing(await store.findOffer(db, of, pathId('ofr', id)))

/** One transfer that was offered to or by a wallet. @throws not_found, offers_unavailable */
export async function getOffer(deps: Deps, call: MaybeUserCall, id: string, offerId: string): Promise<TransferOffer> {
  const wallet = await visible(deps, call, id)
  const row = await findOffer(deps.db, { tenantId: wallet.tenant_id, walletId: wallet.id }, offerId)
  return toOffer(row, tokensOf(deps, wallet.ledger))
}

/** An offer of a wallet as whoever answers it needs it. */
interface OfferToAnswer {
  command: Command
  /** Why it cannot be answered any more: it is over, or goes on by another contract. Null if it can. */
  late: 'offer_settled' | 'offer_changed' | null
}

/** What answers an offer by one of its contracts. @throws not_found, offers_unavailable, offer_not_yours */
export async function findOfferToAnswer(
  deps: Deps,
  of: { tenant_id: Id<'ten'>; wallet_id: Id<'wal'>; party_id: string; ledger: string },
  { offerId, contractId, answer }: { offerId: string; contractId: string; answer: OfferAnswer },
): Promise<OfferToAnswer> {
  const row = await findOffer(deps.db, { tenantId: of.tenant_id, walletId: of.wallet_id }, offerId)
  const tokens = tokensOf(deps, of.ledger)
  const by = answer === 'withdraw' ? row.sender : row.receiver
  if (by !== of.party_id) throw fail('offer_not_yours')
  const changed = row.contract_id === contractId ? null : 'offer_changed'
  return { command: tokens.answerOf(contractId, answer), late: row.archived_at === null ? changed : 'offer_settled' }
}

/** For an answer that comes too late. */
export const refuseLate = (why: NonNullable<OfferToAnswer['late']>) => fail(why)
