import { requireStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import { wire } from '../../platform/db/rows.ts'
import type { Deps } from '../../platform/deps.ts'
import { type EventInput, eventOf, publish } from '../../platform/events/events.ts'
import { pathId } from '../../platform/http/errors.ts'
import type { MaybeUserCall, UserCall } from '../../platform/http/route.ts'
import { newId } from '../../platform/ids.ts'
import { getApp } from '../../tenancy/apps/service.ts'
import {
  getWalletRow,
  lockWalletRow,
  requireOwnSession,
  setRecipients,
  type WalletRow,
} from '../../wallets/wallets/service.ts'
import { fail, RECIPIENTS_MAX } from '../errors.ts'
import type { RecipientRow } from './recipient-record.ts'
import type { AddRecipient, AddressBook, Recipient } from './recipient-schema.ts'
import * as store from './recipient-store.ts'

/** The wallet, for its owner and for a server. @throws not_found, also for the wallet of another user */
async function visible(deps: Deps, { caller, user }: MaybeUserCall, id: string): Promise<WalletRow> {
  const wallet = await getWalletRow(deps, caller, id)
  if (user === null ? caller.keyType !== 'secret' : user.id !== wallet.user_id) throw fail('not_found')
  return wallet
}

const ofWallet = ({ tenant_id, id }: WalletRow): store.OfWallet => ({ tenant_id, wallet_id: id })

const toRecipient = (row: RecipientRow): Recipient => wire(row, 'id recipient label counts_from created_at')

/** The address book of a wallet. @throws not_found, record_tampered */
export async function getAddressBook(deps: Deps, call: MaybeUserCall, id: string): Promise<AddressBook> {
  const wallet = await visible(deps, call, id)
  const rows = await store.listRecipients(deps.db, ofWallet(wallet))
  return { walletId: wallet.id, recipients: rows.map(toRecipient) }
}

const idsOf = ({ recipients }: WalletRow) => (recipients ?? '').split(' ').filter((id) => id !== '')

function recipientEvent(
  wallet: WalletRow,
  { id, recipient, counts_from }: RecipientRow,
  type: 'recipient.added' | 'recipient.removed',
  cause: EventInput['cause'],
): EventInput {
  const data = { recipientId: id, walletId: wallet.id, userId: wallet.user_id, recipient }
  const more = type === 'recipient.added' ? { countsFrom: counts_from.toISOString() } : {}
  return eventOf(wallet, type, { ...data, ...more }, cause)
}

/**
 * Adds a party to the address book of the owner's wallet. It counts once its cooling-off time is over, so that somebody who
 * takes over a session for an hour gains nothing before the owner has seen it. A server adds none: it would answer for the owner.
 * @throws not_found, session_missing, recipient_exists, recipient_limit_reached, and what creating a session throws
 */
export async function addRecipient(deps: Deps, call: UserCall, id: string, input: AddRecipient): Promise<Recipient> {
  const { caller, user } = call
  const { user_id: userId, app_id: appId } = await visible(deps, call, id)
  if (user.sessionId === null)
    throw fail('session_missing').about('authorization', 'This call needs an access token: `x-user-id` is not enough.')
  const { addressBook } = await getApp(deps, caller, appId)
  return deps.db.tx(async (tx) => {
    const inTx = { ...deps, db: tx }
    await lockOutActs(tx, userId)
    const before = await lockWalletRow(tx, caller, id)
    if (before.custody !== 'embedded') await requireOwnSession(inTx, call)
    await requireStepUp(inTx, caller, user)
    const ids = idsOf(before)
    if (ids.length >= RECIPIENTS_MAX) throw fail('recipient_limit_reached')
    const now = deps.now()
    const row: RecipientRow = {
      tenant_id: before.tenant_id,
      id: newId('rcp'),
      wallet_id: before.id,
      recipient: input.recipient,
      label: input.label.trim().normalize('NFC'),
      counts_from: new Date(now.getTime() + addressBook.coolingOffSeconds * 1000),
      created_at: now,
      mac: null,
    }
    const wallet = await setRecipients(tx, {
      ...before,
      recipients: [...ids, row.id].sort().join(' '),
      updated_at: now,
    })
    if (!(await store.insertRecipient(tx, row))) throw fail('recipient_exists')
    await publish(tx, deps, recipientEvent(wallet, row, 'recipient.added', call))
    return toRecipient(row)
  })
}

/**
 * Removes an entry. After the response no session pays the party because of it: it waits for those who act for the user, and
 * what was decided on the wallet as it was is not written any more. @throws not_found
 */
export async function removeRecipient(
  deps: Deps,
  call: MaybeUserCall,
  id: string,
  recipientId: string,
): Promise<Recipient> {
  const { user_id: userId } = await visible(deps, call, id)
  const entryId = pathId('rcp', recipientId)
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, userId)
    const before = await lockWalletRow(tx, call.caller, id)
    const row = await store.deleteRecipient(tx, ofWallet(before), entryId)
    if (row === undefined) throw fail('not_found')
    const recipients = idsOf(before).filter((one) => one !== entryId)
    const wallet = await setRecipients(tx, { ...before, recipients: recipients.join(' '), updated_at: deps.now() })
    await publish(tx, deps, recipientEvent(wallet, row, 'recipient.removed', call))
    return toRecipient(row)
  })
}
