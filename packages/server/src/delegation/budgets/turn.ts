import { LRUCache } from 'lru-cache'
import { createKeyedMutex } from '../../platform/concurrency/keyed-mutex.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Part } from '../policy/windows.ts'
import type { WriteOutcome } from '../store.ts'
import { type BudgetDenial, counted, partsOf, type Toll } from './count.ts'
import type { Limit } from './limits.ts'
import type { SpendingRow } from './spending-record.ts'
import { type Counted, spendingAfter } from './spending-store.ts'

/** How often a call tries before it begins again with its session locked: other processes may be faster each time. */
const ATTEMPTS_MAX = 5
const KNOWN_MAX = 1_000

/** What a transaction takes of the budgets of its wallet. */
export interface Asked {
  spending: SpendingRow | null
  limits: readonly Limit[]
  tolls: readonly Toll[]
}

/** What a transaction is written with: its parts of the budgets, and the spending before and after it; null if it has none. */
export interface Take {
  parts: readonly Part[]
  counted: Counted | null
}

/** What became of it. `changed`: nothing was written, because something is not as it was read any more. */
export type Taken<T> = { written: T } | { denied: BudgetDenial } | 'changed'

type Write<T> = (take: Take) => Promise<{ outcome: WriteOutcome; row: T }>

interface Turns {
  mutex: ReturnType<typeof createKeyedMutex>
  /** What this process wrote last of the wallets that are written most. */
  newest: LRUCache<string, SpendingRow>
}

const processes = new WeakMap<Deps['lifecycle'], Turns>()

function turnsOf(deps: Deps): Turns {
  const turns = processes.get(deps.lifecycle) ?? {
    mutex: createKeyedMutex(),
    newest: new LRUCache<string, SpendingRow>({ max: KNOWN_MAX }),
  }
  processes.set(deps.lifecycle, turns)
  return turns
}

/**
 * Decides on the newest spending that is known, and writes if it still is the newest. If another call was faster, the statement
 * says what the spending is now, and the decision is made on that. In a transaction, that statement also holds the spending's
 * row, so that the second attempt is the last.
 */
async function take<T>(
  db: Db,
  deps: Deps,
  first: SpendingRow,
  { limits, tolls }: Asked,
  write: Write<T>,
): Promise<{ taken: Taken<T>; spending: SpendingRow | null }> {
  let before = first
  for (let attempts = 0; attempts < ATTEMPTS_MAX; attempts += 1) {
    const made = partsOf(tolls, before.spent, deps.now())
    if ('denied' in made) return { taken: made, spending: null }
    const after = await spendingAfter(db, before, counted(before.spent, made.parts, limits))
    const { outcome, row } = await write({ parts: made.parts, counted: { before, after } })
    if (outcome === 'written') return { taken: { written: row }, spending: after }
    if (outcome === 'changed') break
    before = outcome.spending
  }
  return { taken: 'changed', spending: null }
}

/**
 * Writes a transaction with what it takes of its wallet's budgets, in one statement: all or nothing. Everything else was done
 * before, so that the calls of one wallet wait for each other only here: in a process they take turns, and each begins from
 * what the one before it wrote. Nobody waits for a turn with a database connection in hand.
 */
export async function takeFromBudgets<T>(db: Db, deps: Deps, asked: Asked, write: Write<T>): Promise<Taken<T>> {
  const { spending, tolls } = asked
  if (tolls.length === 0) {
    const { outcome, row } = await write({ parts: [], counted: null })
    return outcome === 'written' ? { written: row } : 'changed'
  }
  // Its budgets were set since it was read.
  if (spending === null) return 'changed'
  if (db.inTransaction) return (await take(db, deps, spending, asked, write)).taken
  const { mutex, newest } = turnsOf(deps)
  const key = `${spending.tenant_id} ${spending.wallet_id}`
  const inTurn = await mutex.run(key, async () => {
    const known = newest.get(key)
    const first = known !== undefined && known.version > spending.version ? known : spending
    const made = await take(db, deps, first, asked, write)
    if (made.spending !== null) newest.set(key, made.spending)
    return made.taken
  })
  return inTurn ?? 'changed'
}
