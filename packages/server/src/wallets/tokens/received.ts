import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { formatAmount, parseAmount } from '../../platform/ports/amount.ts'
import type { TokenUpdate } from '../../platform/ports/tokens.ts'
import type { Changed, FollowedWallet } from './store.ts'

/** What was seen, of which wallets. */
interface Seen {
  ledger: string
  wallets: readonly FollowedWallet[]
  /** Null where all holdings were read, not what happened. */
  update: Pick<TokenUpdate, 'updateId' | 'offset' | 'recordedAt'> | null
}

/** How much of something there is, in base units. */
interface Part {
  /** What came less what went. */
  net: bigint
  /** What came that was not there before. */
  fresh: bigint
}

/** What became of one token of one wallet. */
interface Sum {
  of: Changed
  all: Part
  free: Part
}

const least = (...units: bigint[]) => units.reduce((one, other) => (other < one ? other : one))

const add = (part: Part, units: bigint, isNew: boolean): Part => ({
  net: part.net + units,
  fresh: part.fresh + (isNew ? units : 0n),
})

/**
 * How much was received, and how much of it is locked. What was gone and is there again, as after a restore, was told already. Free is
 * no more than what is free and came anew, and no more than what is free grew by: what was free and is locked now is no receipt.
 */
function receivedOf({ all, free }: Sum): { units: bigint; locked: bigint } {
  const units = least(all.net, all.fresh)
  const usable = least(units, free.net, free.fresh)
  return { units, locked: units - (usable > 0n ? usable : 0n) }
}

const NOTHING: Part = { net: 0n, fresh: 0n }

const keyOf = ({ tenant_id, wallet_id, admin, instrument }: Changed) =>
  JSON.stringify([tenant_id, wallet_id, admin, instrument])

/**
 * Tells each wallet what it has received of each token: what came less what went, so that change, merging and locking are no
 * receipts. Contracts that were known before tell nothing, however often their update is read.
 */
export async function tellReceived(
  tx: Db,
  deps: Deps,
  { ledger, wallets, update }: Seen,
  made: readonly (Changed & { is_new: boolean })[],
  gone: readonly Changed[],
): Promise<void> {
  const sums = new Map<string, Sum>()
  const count = (of: Changed, sign: bigint, isNew: boolean) => {
    const { all, free } = sums.get(keyOf(of)) ?? { all: NOTHING, free: NOTHING }
    const units = sign * (parseAmount(of.amount) ?? 0n)
    sums.set(keyOf(of), { of, all: add(all, units, isNew), free: of.is_locked ? free : add(free, units, isNew) })
  }
  for (const each of made) count(each, 1n, each.is_new)
  for (const each of gone) count(each, -1n, false)
  for (const sum of sums.values()) {
    const { of } = sum
    const { units, locked } = receivedOf(sum)
    const wallet = wallets.find((each) => each.wallet_id === of.wallet_id && each.tenant_id === of.tenant_id)
    if (wallet === undefined || units <= 0n) continue
    const data = {
      walletId: wallet.wallet_id,
      userId: wallet.user_id,
      partyId: wallet.party_id,
      ledger,
      instrument: { admin: of.admin, id: of.instrument },
      amount: formatAmount(units),
      locked: formatAmount(locked),
      updateId: update?.updateId ?? null,
      offset: update?.offset ?? null,
      recordedAt: update?.recordedAt.toISOString() ?? null,
    }
    await publish(tx, deps, eventOf(wallet, 'token.received', data, undefined))
  }
}
