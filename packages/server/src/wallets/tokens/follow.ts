import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { PlaceLost, type TokenPage, type Tokens } from '../../platform/ports/tokens.ts'
import { tellReceived } from './received.ts'
import * as store from './store.ts'

/** How many wallets are read in one step. */
const WALLETS_A_STEP = 10
const PROBLEM_CHARS_MAX = 500

/** A ledger whose tokens are followed. */
export type TokenLedger = Ledger & { tokens: Tokens }

/** Has all wallets read again, as of the end of the ledger. */
async function begin(deps: Deps, { name, tokens }: TokenLedger, from: store.CursorRow | undefined): Promise<void> {
  const { offset, at } = await tokens.end()
  await store.beginGeneration(deps.db, from, {
    ledger: name,
    scope: tokens.scope,
    ledger_offset: offset,
    ledger_at: at,
    last_offset: null,
    last_update_id: null,
    read_at: deps.now(),
  })
}

/** Does something in a transaction if no other process has moved the cursor meanwhile. */
async function ifThere(deps: Deps, cursor: store.CursorRow, body: (tx: Db) => Promise<void>): Promise<void> {
  // What was read and is not stored is read again.
  await deps.failpoint('tokens read')
  await deps.db.tx(async (tx) => {
    if ((await store.lockCursor(tx, cursor)) !== undefined) await body(tx)
  })
}

/**
 * Reads all holdings of a wallet. They are new to it if it was read before, and otherwise if they are younger than itself:
 * a party may have held something before it became a wallet's.
 */
async function readWallet(deps: Deps, { tokens }: TokenLedger, cursor: store.CursorRow, wallet: store.UnreadWallet) {
  let problem: string | null = null
  const holdings = await tokens.holdingsOf(wallet.party_id, cursor.ledger_offset).catch((error: unknown) => {
    if (!(error instanceof LedgerError) || error.retryable || !error.definite) throw error
    // The others are followed all the same.
    deps.log.error({ err: error, tenantId: wallet.tenant_id, walletId: wallet.wallet_id }, 'holdings cannot be read')
    problem = error.message.slice(0, PROBLEM_CHARS_MAX)
    return []
  })
  const now = deps.now()
  await ifThere(deps, cursor, async (tx) => {
    // Its user was deleted meanwhile.
    if (!(await store.putView(tx, cursor, wallet, problem))) return
    const made = await store.putHoldings(tx, cursor.ledger, wallet, holdings)
    const ids = holdings.map(({ contractId }) => contractId)
    const gone = await store.archiveOthers(tx, wallet, ids, now)
    const young = new Set(
      holdings.flatMap(({ contractId, createdAt }) => (createdAt >= wallet.created_at ? [contractId] : [])),
    )
    const counted = wallet.again ? made : made.filter(({ contract_id: id }) => young.has(id))
    await tellReceived(tx, deps, { ledger: cursor.ledger, wallets: [wallet], update: null }, counted, gone)
  })
}

/** Takes what one update did to our wallets, and tells of it. */
async function take(tx: Db, deps: Deps, cursor: store.CursorRow, update: TokenPage['updates'][number], now: Date) {
  const { ledger } = cursor
  const parties = [...new Set(update.created.map(({ owner }) => owner))]
  const wallets = parties.length === 0 ? [] : await store.listFollowed(tx, cursor, parties)
  const made: Awaited<ReturnType<typeof store.putHoldings>> = []
  for (const wallet of wallets) {
    const theirs = update.created.filter(({ owner }) => owner === wallet.party_id)
    made.push(...(await store.putHoldings(tx, ledger, wallet, theirs)))
  }
  const gone = update.archived.length === 0 ? [] : await store.archiveHoldings(tx, ledger, update.archived, now)
  await tellReceived(tx, deps, { ledger, wallets, update }, made, gone)
}

/** Reads on from the cursor. @returns whether there may be more */
async function readOn(deps: Deps, { tokens }: TokenLedger, cursor: store.CursorRow): Promise<boolean> {
  const { updates, offset, at, hasMore } = await tokens.updatesAfter(store.placeOf(cursor))
  const now = deps.now()
  await ifThere(deps, cursor, async (tx) => {
    for (const update of updates) await take(tx, deps, cursor, update, now)
    const last = updates.at(-1)
    await store.moveCursor(tx, {
      ...cursor,
      ledger_offset: offset,
      ledger_at: at,
      last_offset: last?.offset ?? cursor.last_offset,
      last_update_id: last?.updateId ?? cursor.last_update_id,
      read_at: now,
    })
  })
  return hasMore
}

/**
 * One step behind a ledger: wallets that were not read yet first, then what happened since. Each step is one transaction that
 * begins where the last one ended, whatever died in between and however many processes follow. @returns whether there is more
 */
export async function followTokens(deps: Deps, ledger: TokenLedger): Promise<boolean> {
  const cursor = await store.findCursor(deps.db, ledger.name)
  if (cursor === undefined || cursor.scope !== ledger.tokens.scope) {
    await begin(deps, ledger, cursor)
    return true
  }
  try {
    const unread = await store.listUnread(deps.db, cursor, WALLETS_A_STEP)
    for (const wallet of unread) await readWallet(deps, ledger, cursor, wallet)
    if (unread.length > 0) return true
    return await readOn(deps, ledger, cursor)
  } catch (error) {
    if (!(error instanceof PlaceLost)) throw error
    deps.log.warn({ err: error, ledger: ledger.name }, 'all holdings are read again')
    await begin(deps, ledger, cursor)
    return false
  }
}
