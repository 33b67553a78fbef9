import { beginSnapshot, type Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Caller } from '../../platform/http/route.ts'
import { getWalletRow, ledgerOf, type WalletRow } from '../wallets/service.ts'
import { countHoldings } from './counted.ts'
import { fail } from './errors.ts'
import { readFollowing } from './following.ts'
import { deleteArchivedOffers } from './offer-store.ts'
import type { Holding, ListHoldings, WalletHoldings } from './schema.ts'
import * as store from './store.ts'

export { followTokens, type TokenLedger } from './follow.ts'
export { findOfferToAnswer, refuseLate } from './offer-service.ts'

/** Beyond the age of a backup from which a participant is restored. */
const ARCHIVED_KEPT_MS = 30 * 86_400_000
const INSTRUMENTS_MAX = 200
const PAGE = 20

const toHolding = (row: store.HoldingRow): Holding => ({
  contractId: row.contract_id,
  instrument: { admin: row.admin, id: row.instrument },
  amount: row.amount,
  lock: row.lock,
  createdAt: row.created_at.toISOString(),
})

/** The last holding of the page before, of a cursor that the schema has checked. */
function placeOf(cursor: string): { createdAt: Date; contractId: string } {
  const [ms, contractId = ''] = cursor.split(':')
  return { createdAt: new Date(Number(ms)), contractId }
}

type Listed = Omit<WalletHoldings, 'walletId' | 'partyId' | 'ledger'>

/** What the view has of a wallet. @throws holdings_unavailable */
async function readView(tx: Db, wallet: WalletRow, query: ListHoldings & { limit: number }): Promise<Listed> {
  // The sums are those of the list, as of the same offset.
  await beginSnapshot(tx)
  const { limit, cursor: after } = query
  const filter = {
    tenantId: wallet.tenant_id,
    walletId: wallet.id,
    admin: query.admin,
    instrument: query.instrument,
  }
  const following = await readFollowing(tx, wallet, 'holdings')
  if (following === null) throw fail('holdings_unavailable')
  const sums = await store.sumsOf(tx, filter, INSTRUMENTS_MAX + 1)
  const page = await store.pageOf(tx, filter, after === undefined ? null : placeOf(after), limit + 1)
  const end = page.length > limit ? page[limit - 1] : undefined
  return {
    ...following,
    instruments: sums
      .slice(0, INSTRUMENTS_MAX)
      .map(({ admin, instrument: id, ...sum }) => ({ instrument: { admin, id }, ...sum })),
    complete: sums.length <= INSTRUMENTS_MAX,
    holdings: page.slice(0, limit).map(toHolding),
    nextCursor: end === undefined ? null : `${end.created_at.getTime()}:${end.contract_id}`,
  }
}

/** A page of what a wallet holds, with the sums. @throws not_found, holdings_unavailable */
export async function listHoldings(
  deps: Deps,
  caller: Caller,
  id: string,
  given: ListHoldings,
): Promise<WalletHoldings> {
  const wallet = await getWalletRow(deps, caller, id)
  const ledger = ledgerOf(deps, wallet.ledger)
  const query = { ...given, limit: Number(given.page_size ?? PAGE) }
  const about = { walletId: wallet.id, partyId: wallet.party_id, ledger: wallet.ledger }
  if (ledger.name === 'embedded')
    return {
      ...about,
      ...(await countHoldings(deps.db, ledger, wallet, { ...query, instrumentsMax: INSTRUMENTS_MAX })),
    }
  if (ledger.tokens === undefined) throw fail('holdings_unavailable')
  return { ...about, ...(await deps.db.tx((tx) => readView(tx, wallet, query))) }
}

/** Deletes what has been gone for long. @returns whether there may be more */
export async function deleteArchived(db: Db, now: Date): Promise<boolean> {
  const before = new Date(now.getTime() - ARCHIVED_KEPT_MS)
  const [holdings, offers] = [await store.deleteArchived(db, before), await deleteArchivedOffers(db, before)]
  return holdings || offers
}
