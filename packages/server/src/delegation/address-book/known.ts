import type { Db } from '../../platform/db/db.ts'
import { isListed } from '../../platform/security/records/id-list.ts'
import { lockWalletOf, type WalletRow } from '../../wallets/wallets/service.ts'
import { RECIPIENT_RECORD, type RecipientRow } from './recipient-record.ts'
import * as store from './recipient-store.ts'

/** A wallet as it was read with its session. */
export interface WithBook extends store.OfWallet {
  /** The entries that its record lists. */
  wallet__recipients: WalletRow['recipients']
}

const isOf = (list: WalletRow['recipients'], { id }: RecipientRow) => list !== null && isListed(list, id)

/** An entry that was added since its wallet was read does not count yet. One that no wallet lists was put back. @throws record_tampered */
async function refusePutBack(db: Db, of: store.OfWallet, entry: RecipientRow): Promise<void> {
  await db.tx(async (tx) => {
    const wallet = await lockWalletOf(tx, of.tenant_id, of.wallet_id)
    if (wallet === undefined || isOf(wallet.recipients, entry)) return
    const [still] = await store.findRecipients(tx, of, [entry.recipient])
    if (still?.id === entry.id) tx.records.refuse(RECIPIENT_RECORD, { ...entry }, 'its wallet does not list it')
  })
}

/** All parties of a wallet's address book that count by now. @throws record_tampered */
export async function bookedOf(
  db: Db,
  { tenant_id, id, recipients }: WalletRow,
  now: Date,
): Promise<ReadonlySet<string>> {
  const entries = await store.listRecipients(db, { tenant_id, wallet_id: id })
  const counting = entries.filter((entry) => isOf(recipients, entry) && entry.counts_from <= now)
  return new Set(counting.map(({ recipient }) => recipient))
}

/**
 * Which of these parties are in a wallet's address book, and count by now. What is decided by it holds as long as the wallet's
 * record is what was read: every change of the address book changes that. @throws record_tampered
 */
export async function bookedRecipients(
  db: Db,
  wallet: WithBook,
  parties: readonly string[],
  now: Date,
): Promise<ReadonlySet<string>> {
  if (parties.length === 0) return new Set()
  const entries = await store.findRecipients(db, wallet, parties)
  const unlisted = entries.find((entry) => !isOf(wallet.wallet__recipients, entry))
  if (unlisted !== undefined) await refusePutBack(db, wallet, unlisted)
  const counting = entries.filter((entry) => isOf(wallet.wallet__recipients, entry) && entry.counts_from <= now)
  return new Set(counting.map(({ recipient }) => recipient))
}
