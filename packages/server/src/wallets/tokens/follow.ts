import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { type OfferOutcome, PlaceLost, type TokenPage, type Tokens } from '../../platform/ports/tokens.ts'
import { expire, OutcomeUnasked, partiesOf, readOutcomes, settle, settleOthers, takeOffered } from './offers.ts'
import { tellReceived } from './received.ts'
import * as store from './store.ts'

/** How many wallets' holdings or offers are read in one step. */
const WALLETS_A_STEP = 20
/** For how long another one is begun in a step, before it is read on. */
const WALLETS_MS_MAX = 5_000
/** How long the reading of a wallet may take, and that of one that could not be read. */
const READ_MS_MAX = 60_000
const READ_AGAIN_MS_MAX = 10_000
/** Every so many tries a wallet that could not be read has the whole time: an outage could be why, and it may need it. */
const WHOLE_TIME_EVERY = 8
const PROBLEM_CHARS_MAX = 500
const MINUTE_MS = 60_000
/** A wallet that fails is read again after a minute, then after two, four…, at most after this time. */
const RETRY_MS_MAX = 60 * MINUTE_MS
/** How long a scope stays: two processes with different settings must not take turns at reading everything. */
const SCOPE_MS_MIN = 10 * MINUTE_MS
/** How long after a generation began updates that are missing may begin the next one. */
const REREAD_MS_MIN = 10 * MINUTE_MS

/** A ledger whose tokens are followed. */
export type TokenLedger = Ledger & { tokens: Tokens }

/** What counts as a holding or an offer of each registry. */
const scopesOf = ({ scopes, offerScopes }: Tokens, kind: store.Kind): ReadonlyMap<string, string> =>
  kind === 'holdings' ? scopes : offerScopes

/** The same as the cursor has it. */
const scopeOf = (tokens: Tokens): string =>
  [...scopesOf(tokens, 'holdings').values(), ...scopesOf(tokens, 'offers').values()].sort().join(' ')

/** The ledgers whose cursor has another scope, so that it is logged once. */
const waiting = new WeakSet<TokenLedger>()

/** Has all wallets read again, as of the end of the ledger. */
async function begin(deps: Deps, { name, tokens }: TokenLedger, from: store.CursorRow | undefined): Promise<void> {
  const { offset, at } = await tokens.end()
  const now = deps.now()
  const scope = scopeOf(tokens)
  const hasScope = from?.scope === scope
  const isBegun = await store.beginGeneration(deps.db, from, {
    ledger: name,
    scope,
    ledger_offset: offset,
    ledger_at: at,
    last_offset: null,
    last_update_id: null,
    read_at: now,
    begun_at: now,
    scope_at: hasScope ? from.scope_at : now,
  })
  if (isBegun && from !== undefined && !hasScope)
    deps.log.warn({ ledger: name }, 'other holdings or offers count than before: all are read again')
}

/** Whether another scope may replace that of the cursor. */
function mayReplace(deps: Deps, ledger: TokenLedger, { scope_at: since }: store.CursorRow): boolean {
  const isDue = deps.now().getTime() - since.getTime() >= SCOPE_MS_MIN
  if (!isDue && !waiting.has(ledger))
    deps.log.warn(
      { ledger: ledger.name, since },
      'holdings are followed with other settings, perhaps by another process: these wait until ten minutes have passed',
    )
  if (isDue) waiting.delete(ledger)
  else waiting.add(ledger)
  return isDue
}

/** Does something in a transaction if no other process has moved the cursor meanwhile. @returns whether none has */
async function ifThere(deps: Deps, cursor: store.CursorRow, body: (tx: Db) => Promise<void>) {
  // What was read and is not stored is read again.
  await deps.failpoint('tokens read')
  return deps.db.tx(async (tx) => {
    if ((await store.lockCursor(tx, cursor)) === undefined) return false
    await body(tx)
    return true
  })
}

/**
 * Stores that a wallet's holdings or offers cannot be read now, with the old ones as they are; the others are followed all the same.
 * @throws LedgerError if the ledger does not answer anybody
 */
async function postpone(
  deps: Deps,
  { tokens }: TokenLedger,
  cursor: store.CursorRow,
  wallet: store.UnreadWallet,
  error: LedgerError,
) {
  const isPassing = error.retryable || !error.definite
  if (isPassing) await tokens.end()
  const of = { tenantId: wallet.tenant_id, walletId: wallet.wallet_id }
  deps.log.error({ err: error, ...of }, `${wallet.kind} cannot be read`)
  const delay = Math.min(RETRY_MS_MAX, MINUTE_MS * 2 ** Math.min(wallet.failures, 10))
  await store.putFailure(deps.db, cursor, wallet, {
    problem: isPassing ? null : error.message.slice(0, PROBLEM_CHARS_MAX),
    dueAt: new Date(deps.now().getTime() + delay),
  })
}

/** What is read of a wallet as of a cursor. */
interface Reading {
  ledger: TokenLedger
  cursor: store.CursorRow
  wallet: store.UnreadWallet
  maxMs: number
}

/**
 * Since when something of a wallet is new to it, though what counts was not read before: a party may have held something before it was
 * the wallet's, and all was old when somebody began to look.
 */
const youngSince = (cursor: store.CursorRow, wallet: store.UnreadWallet) =>
  new Date(Math.max(wallet.created_at.getTime(), cursor.scope_at.getTime()))

/** What the ledger said, as a transaction stores and tells it. */
type Store = (tx: Db) => Promise<void>

/** Reads all holdings of a wallet. They are new to it if those of their registry were read before; otherwise only if they are young. */
async function readHoldings(deps: Deps, { ledger: { tokens }, cursor, wallet, maxMs }: Reading): Promise<Store> {
  const holdings = await tokens.holdingsOf(wallet.party_id, cursor.ledger_offset, maxMs)
  return async (tx) => {
    const made = await store.putHoldings(tx, cursor.ledger, wallet, holdings)
    const ids = holdings.map(({ contractId }) => contractId)
    const gone = await store.archiveOthers(tx, wallet, ids, deps.now())
    const since = youngSince(cursor, wallet)
    const young = new Set(holdings.flatMap(({ contractId, createdAt }) => (createdAt >= since ? [contractId] : [])))
    const counted = made.filter(
      ({ contract_id: id, admin }) => wallet.scopes.includes(tokens.scopes.get(admin) ?? '') || young.has(id),
    )
    await tellReceived(tx, deps, { ledger: cursor.ledger, wallets: [wallet], update: null }, counted, gone)
  }
}

/** Reads all offers from or to a wallet, as its holdings are read. */
async function readOffers(deps: Deps, { ledger: { tokens }, cursor, wallet, maxMs }: Reading): Promise<Store> {
  const offers = await tokens.offersOf(wallet.party_id, cursor.ledger_offset, maxMs)
  const since = youngSince(cursor, wallet)
  const isTold = ({ instrument, createdAt }: (typeof offers)[number]) =>
    wallet.scopes.includes(tokens.offerScopes.get(instrument.admin) ?? '') || createdAt >= since
  return async (tx) => {
    await takeOffered(tx, deps, { cursor, wallet, place: null, offers, isTold })
    await settleOthers(tx, deps, wallet, { offers, now: deps.now() })
  }
}

/** Reads all holdings, or all offers, of a wallet. @returns whether they could be read, and the cursor is where it was */
async function readWallet(deps: Deps, ledger: TokenLedger, cursor: store.CursorRow, wallet: store.UnreadWallet) {
  let stored: Store
  try {
    const maxMs = wallet.failures % WHOLE_TIME_EVERY === 0 ? READ_MS_MAX : READ_AGAIN_MS_MAX
    const read = wallet.kind === 'holdings' ? readHoldings : readOffers
    stored = await read(deps, { ledger, cursor, wallet, maxMs })
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    await postpone(deps, ledger, cursor, wallet, error)
    return false
  }
  return await ifThere(deps, cursor, async (tx) => {
    const scopes = [...scopesOf(ledger.tokens, wallet.kind).values()]
    // Its user was deleted meanwhile, or another process has read it.
    if (await store.putView(tx, cursor, wallet, scopes)) await stored(tx)
  })
}

/** What one update did, and how it ended offers. */
interface Seen {
  update: TokenPage['updates'][number]
  /** Undefined if the ledger was not asked. */
  outcomes: ReadonlyMap<string, OfferOutcome> | undefined
  now: Date
}

/** Takes what one update did to our wallets, and tells of it. */
async function take(tx: Db, deps: Deps, cursor: store.CursorRow, { update, outcomes, now }: Seen) {
  const { ledger } = cursor
  const followed = async (kind: store.Kind, parties: readonly string[]) =>
    parties.length === 0 ? [] : await store.listFollowed(tx, cursor, kind, [...new Set(parties)])
  const wallets = await followed(
    'holdings',
    update.created.map(({ owner }) => owner),
  )
  const made: Awaited<ReturnType<typeof store.putHoldings>> = []
  for (const wallet of wallets) {
    const theirs = update.created.filter(({ owner }) => owner === wallet.party_id)
    made.push(...(await store.putHoldings(tx, ledger, wallet, theirs)))
  }
  for (const wallet of await followed('offers', partiesOf(update.offered)))
    await takeOffered(tx, deps, { cursor, wallet, place: update, offers: update.offered, isTold: () => true })
  const gone = update.archived.length === 0 ? [] : await store.archiveHoldings(tx, ledger, update.archived, now)
  await tellReceived(tx, deps, { ledger, wallets, update }, made, gone)
  await settle(tx, deps, cursor, { update, outcomes, now })
}

/** Reads on from the cursor. @returns whether there may be more */
async function readOn(deps: Deps, { tokens }: TokenLedger, cursor: store.CursorRow): Promise<boolean> {
  const page = await tokens.updatesAfter(store.placeOf(cursor))
  const { updates, outcomes } = await readOutcomes(deps, tokens, cursor, page.updates)
  const last = updates.at(-1)
  const isCut = last !== undefined && updates.length < page.updates.length
  const { offset, at, hasMore, skipped } = isCut
    ? { offset: last.offset, at: last.recordedAt, hasMore: true, skipped: null }
    : page
  const now = deps.now()
  const next = {
    ...cursor,
    ledger_offset: offset,
    ledger_at: at,
    // What was skipped would be read again from the last update on.
    last_offset: skipped === null ? (last?.offset ?? cursor.last_offset) : null,
    last_update_id: skipped === null ? (last?.updateId ?? cursor.last_update_id) : null,
    read_at: now,
    stale_since: cursor.stale_since ?? (skipped === null ? null : now),
  }
  let isFull = false
  let isMoved: boolean
  try {
    isMoved = await ifThere(deps, cursor, async (tx) => {
      for (const update of updates)
        await take(tx, deps, cursor, { update, outcomes: outcomes.get(update.updateId), now })
      await store.moveCursor(tx, next)
      isFull = await expire(tx, deps, next)
    })
  } catch (error) {
    if (error instanceof OutcomeUnasked) return true
    throw error
  }
  if (isMoved && skipped !== null) {
    deps.metrics.tokenUpdatesSkipped.inc({ reason: skipped })
    deps.log.error(
      { ledger: cursor.ledger, offset, reason: skipped },
      'an update of tokens cannot be read: it is skipped',
    )
  }
  return hasMore || isFull
}

/** Whether updates are missing, and the last generation is old enough for another one. */
const isRereadDue = (deps: Deps, { stale_since: stale, begun_at: begun }: store.CursorRow): boolean =>
  stale !== null && deps.now().getTime() - begun.getTime() >= REREAD_MS_MIN

/**
 * Reads wallets that were not read yet: not all of them, as those of one tenant that take long must not keep what happens to all
 * others waiting. @returns whether there were any
 */
async function readWallets(deps: Deps, ledger: TokenLedger, cursor: store.CursorRow): Promise<boolean> {
  const unread = await store.listUnread({ db: deps.db, now: deps.now() }, cursor, WALLETS_A_STEP)
  const until = deps.now().getTime() + WALLETS_MS_MAX
  for (const wallet of unread)
    if (!(await readWallet(deps, ledger, cursor, wallet)) || deps.now().getTime() >= until) break
  return unread.length > 0
}

/**
 * One step behind a ledger: some wallets that were not read yet, and then some of what happened since, so that neither keeps the
 * other waiting. Each is one transaction that begins where the last one ended, whatever died in between and however many processes
 * follow. @returns whether there is more
 */
export async function followTokens(deps: Deps, ledger: TokenLedger): Promise<boolean> {
  const cursor = await store.findCursor(deps.db, ledger.name)
  const hasScope = cursor?.scope === scopeOf(ledger.tokens)
  if (cursor !== undefined && !hasScope && !mayReplace(deps, ledger, cursor)) return false
  if (cursor === undefined || !hasScope || isRereadDue(deps, cursor)) {
    await begin(deps, ledger, cursor)
    return true
  }
  try {
    const hadWallets = await readWallets(deps, ledger, cursor)
    const hasMore = await readOn(deps, ledger, cursor)
    return hasMore || hadWallets
  } catch (error) {
    if (!(error instanceof PlaceLost)) throw error
    deps.log.warn({ err: error, ledger: ledger.name }, 'all holdings are read again')
    await begin(deps, ledger, cursor)
    return false
  }
}
