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
  const sums = new Map<string, { of: Changed; units: bigint; fresh: bigint }>()
  const add = (of: Changed, sign: bigint, isNew: boolean) => {
    const sum = sums.get(keyOf(of)) ?? { of, units: 0n, fresh: 0n }
    const units = parseAmount(of.amount) ?? 0n
    sums.set(keyOf(of), { of, units: sum.units + sign * units, fresh: sum.fresh + (isNew ? units : 0n) })
  }
  for (const each of made) add(each, 1n, each.is_new)
  for (const each of gone) add(each, -1n, false)
  for (const { of, units: net, fresh } of sums.values()) {
    // What was gone and is there again, as after a restore, was told already.
    const units = net < fresh ? net : fresh
    const wallet = wallets.find((each) => each.wallet_id === of.wallet_id && each.tenant_id === of.tenant_id)
    if (wallet === undefined || units <= 0n) continue
    const data = {
      walletId: wallet.wallet_id,
      userId: wallet.user_id,
      partyId: wallet.party_id,
      ledger,
      instrument: { admin: of.admin, id: of.instrument },
      amount: formatAmount(units),
      updateId: update?.updateId ?? null,
      offset: update?.offset ?? null,
      recordedAt: update?.recordedAt.toISOString() ?? null,
    }
    await publish(tx, deps, eventOf(wallet, 'token.received', data, undefined))
  }
}
