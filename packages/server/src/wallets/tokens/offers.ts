import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, eventOf, newEvent, publishAll } from '../../platform/events/events.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import type { Offer, OfferOutcome, Tokens, TokenUpdate } from '../../platform/ports/tokens.ts'
import * as store from './offer-store.ts'
import { type CursorRow, type FollowedWallet, listFollowed } from './store.ts'

const EVENTS_A_STATEMENT = 500
/** How many offers of a wallet are kept in one direction. */
const OFFERS_MAX = 1_000
/** For how long another update is asked about in a step, before those that were are stored. */
const OUTCOMES_MS_MAX = 5_000
/** How many offers one step lets expire. */
const EXPIRED_A_STEP = 200
/**
 * How long after its end an offer is called expired: what was accepted in time may be recorded a little later, by as much as the
 * ledger's clocks may differ.
 */
const RECORDED_LATER_MS = 2 * 60_000

/** Where something was seen: null where everything was read, not what happened. */
type Place = Pick<TokenUpdate, 'updateId' | 'offset' | 'recordedAt'> | null

const isOf = (party: string, { sender, receiver }: Offer) => sender === party || receiver === party

export const partiesOf = (offers: readonly Offer[]): string[] =>
  offers.flatMap(({ sender, receiver }) => [sender, receiver])

/** Writes events, in as few statements as there are tenants: one transaction on the ledger may make thousands of offers. */
async function publishEach(tx: Db, deps: Deps, inputs: readonly EventInput[]): Promise<void> {
  const now = deps.now()
  const byTenant = Map.groupBy(inputs, ({ tenantId }) => tenantId)
  for (const theirs of byTenant.values())
    for (let from = 0; from < theirs.length; from += EVENTS_A_STATEMENT)
      await publishAll(
        tx,
        deps,
        theirs.slice(from, from + EVENTS_A_STATEMENT).map((input) => newEvent(now, input)),
      )
}

const placeOf = (place: Place) => ({
  updateId: place?.updateId ?? null,
  offset: place?.offset ?? null,
  recordedAt: place?.recordedAt.toISOString() ?? null,
})

/** What both events say. What the sender wrote is not in them: it is anybody's text, and can be read with the offer. */
const dataOf = (row: store.OfferRow, { user_id, party_id }: Pick<FollowedWallet, 'user_id' | 'party_id'>) => ({
  offerId: row.id,
  walletId: row.wallet_id,
  userId: user_id,
  partyId: party_id,
  ledger: row.ledger,
  direction: row.direction,
  contractId: row.contract_id,
  sender: row.sender,
  receiver: row.receiver,
  instrument: { admin: row.admin, id: row.instrument },
  amount: row.amount,
  executeBefore: row.execute_before.toISOString(),
})

/** What was offered to or by one wallet. */
interface Offered {
  cursor: CursorRow
  wallet: FollowedWallet
  place: Place
  offers: readonly Offer[]
  /** Whether an offer that was never seen is told. One that is not and is over counts as told, too. */
  isTold(offer: Offer): boolean
}

/** Anybody can offer anything to a wallet, as often as they pay the ledger for it. */
async function dropOldest(
  tx: Db,
  { metrics, log }: Deps,
  { ledger }: CursorRow,
  wallet: FollowedWallet,
  made: readonly store.OfferRow[],
): Promise<void> {
  for (const direction of new Set(made.map((row) => row.direction))) {
    const dropped = await store.dropOffers(tx, wallet, direction, OFFERS_MAX)
    if (dropped === 0) continue
    tx.afterCommit(() => {
      metrics.tokenOffersDropped.inc(dropped)
      const of = { ledger, tenantId: wallet.tenant_id, walletId: wallet.wallet_id }
      log.warn(
        { ...of, direction, dropped },
        'a wallet has more transfer offers than are kept: the oldest were dropped',
      )
    })
  }
}

/** Stores offers that are active, and tells of those that never were there. */
export async function takeOffered(
  tx: Db,
  deps: Deps,
  { cursor, wallet, place, offers, isTold }: Offered,
): Promise<void> {
  const theirs = offers.filter((each) => isOf(wallet.party_id, each))
  const over = (each: Offer) => !isTold(each) && cursor.ledger_at !== null && each.executeBefore < cursor.ledger_at
  const given = theirs.map((offer) => ({ offer, status: over(offer) ? ('expired' as const) : ('open' as const) }))
  const made = await store.putOffers(tx, cursor.ledger, wallet, given)
  await dropOldest(tx, deps, cursor, wallet, made)
  const told = new Set(theirs.filter(isTold).map(({ contractId }) => contractId))
  const news = made.filter(({ contract_id: id }) => told.has(id))
  const dataFor = (row: store.OfferRow) => ({ ...dataOf(row, wallet), ...placeOf(place) })
  await publishEach(
    tx,
    deps,
    news.map((row) => eventOf(wallet, 'token.transfer_offered', dataFor(row), undefined)),
  )
}

/** What is certain is told whatever was told before; the rest only if nothing was. */
const isCertain = (status: store.OfferStatus) => status !== 'ended' && status !== 'expired'

/** Stores what became of locked offers, and tells what was not told yet: after a restore the same happens again. */
async function end(
  tx: Db,
  deps: Deps,
  rows: readonly store.OwnedOffer[],
  {
    place,
    statusOf,
    archivedAt,
  }: { place: Place; statusOf(row: store.OfferRow): store.OfferStatus; archivedAt: Date | null },
): Promise<void> {
  const ended = rows.map((row) => {
    const status = statusOf(row)
    const isNews = isCertain(status) ? row.told !== status : row.told === null
    const told = isNews ? status : row.told
    const known = { update_id: place?.updateId ?? null, ended_at: place?.recordedAt ?? null }
    return { row: { ...row, ...known, status, told, archived_at: archivedAt }, isNews }
  })
  await store.setEnded(
    tx,
    ended.map(({ row }) => row),
  )
  const news = ended.flatMap(({ row, isNews }) => (isNews ? [row] : []))
  const dataFor = (row: store.OwnedOffer) => ({ ...dataOf(row, row), outcome: row.status, ...placeOf(place) })
  await publishEach(
    tx,
    deps,
    news.map((row) => eventOf(row, 'token.transfer_settled', dataFor(row), undefined)),
  )
}

/** What nobody says how it ended. One whose time was over stays what it was called. */
const unexplained = ({ status }: store.OfferRow): store.OfferStatus => (status === 'expired' ? 'expired' : 'ended')

/** An update used up an offer that was not known when the ledger was asked how: the step has to be read again. */
export class OutcomeUnasked extends Error {}

/** Ends the offers whose contracts an update used up, unless they go on by other ones. @throws OutcomeUnasked */
export async function settle(
  tx: Db,
  deps: Deps,
  { ledger }: CursorRow,
  {
    update,
    outcomes,
    now,
  }: { update: TokenUpdate; outcomes: ReadonlyMap<string, OfferOutcome> | undefined; now: Date },
): Promise<void> {
  if (update.archived.length === 0) return
  const rows = await store.lockByContract(tx, ledger, update.archived)
  if (rows.length === 0) return
  // Another process has read a wallet meanwhile.
  if (outcomes === undefined) throw new OutcomeUnasked(update.updateId)
  const statusOf = (row: store.OfferRow) => outcomes.get(row.contract_id) ?? unexplained(row)
  await end(tx, deps, rows, { place: update, statusOf, archivedAt: now })
}

/** Ends the offers of a wallet that are not among those that were read. */
export async function settleOthers(
  tx: Db,
  deps: Deps,
  wallet: FollowedWallet,
  { offers, now }: { offers: readonly Offer[]; now: Date },
): Promise<void> {
  const ids = offers.map(({ contractId }) => contractId)
  const rows = await store.lockOthers(tx, wallet, ids)
  await end(tx, deps, rows, { place: null, statusOf: unexplained, archivedAt: now })
}

/**
 * Calls offers expired whose time is over by the ledger's clock, once everything up to then was read. @returns whether there may be
 * more
 */
export async function expire(tx: Db, deps: Deps, cursor: CursorRow): Promise<boolean> {
  const { ledger_at: at, stale_since: stale } = cursor
  if (at === null || stale !== null) return false
  const before = new Date(at.getTime() - RECORDED_LATER_MS)
  const rows = await store.lockExpired(tx, cursor, before, EXPIRED_A_STEP)
  await end(tx, deps, rows, { place: null, statusOf: () => 'expired', archivedAt: null })
  return rows.length === EXPIRED_A_STEP
}

/** Updates whose outcomes are known. */
interface Explained {
  /** The first ones of those that were read. */
  updates: readonly TokenUpdate[]
  /** By update, without those that ended no offers of our wallets. */
  outcomes: ReadonlyMap<string, ReadonlyMap<string, OfferOutcome>>
}

/**
 * How updates ended offers of our wallets: the ledger is asked only of those that did. If that takes long, or stops at one of them, those
 * before it are returned. @throws LedgerError if it stops at the first one
 */
export async function readOutcomes(
  { db, now }: Pick<Deps, 'db' | 'now'>,
  tokens: Tokens,
  cursor: CursorRow,
  updates: readonly TokenUpdate[],
): Promise<Explained> {
  const outcomes = new Map<string, ReadonlyMap<string, OfferOutcome>>()
  const archived = updates.flatMap((update) => update.archived)
  if (archived.length === 0) return { updates, outcomes }
  const offers = updates.flatMap((update) => update.offered)
  const wallets = offers.length === 0 ? [] : await listFollowed(db, cursor, 'offers', [...new Set(partiesOf(offers))])
  const ours = await store.knownOffers(db, cursor.ledger, archived)
  for (const offer of offers) if (wallets.some(({ party_id }) => isOf(party_id, offer))) ours.add(offer.contractId)
  const until = now().getTime() + OUTCOMES_MS_MAX
  for (const [at, { updateId, archived: gone }] of updates.entries()) {
    if (!gone.some((id) => ours.has(id))) continue
    const before = { updates: updates.slice(0, at), outcomes }
    if (at > 0 && now().getTime() >= until) return before
    try {
      outcomes.set(updateId, await tokens.outcomesIn(updateId))
    } catch (error) {
      if (at === 0 || !(error instanceof LedgerError)) throw error
      return before
    }
  }
  return { updates, outcomes }
}
