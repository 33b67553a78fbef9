import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { bookedRecipients, type WithBook } from '../address-book/known.ts'
import type { Known } from '../policy/judge.ts'
import type { Payment } from '../policy/payment.ts'
import type { CompiledPolicy } from '../policy/policy.ts'
import type { LiveRow } from '../store.ts'
import { approvedRecipients, type OfOwner } from './approval-store.ts'
import { type Quorum, quorumKey, quorumOf } from './approvers/quorum.ts'

/** Whether sessions of a wallet can ask for approval: the service signs for it, in the transaction of the approval. */
export const canAsk = (
  deps: Pick<Deps, 'ledgers'>,
  { custody, ledger }: Pick<LiveRow, 'custody' | 'ledger'>,
): boolean => custody === 'embedded' && deps.ledgers.get(ledger)?.transactional === true

const NOBODY: ReadonlySet<string> = new Set()

/**
 * Which parties those have approved a payment to whom the policy asks about new ones, as far as it asks.
 * @returns whether a quorum, or the owner (null), has
 */
export async function approvedBefore(
  db: Db,
  wallet: OfOwner,
  { approvals }: Pick<CompiledPolicy, 'approvals'>,
  { recipients }: Payment,
  now: Date,
): Promise<Known['isApproved']> {
  const approved = new Map<string, ReadonlySet<string>>()
  const keyOf = (approvers: Quorum | null) => quorumKey(quorumOf(approvers, wallet.user_id))
  for (const { above, approvers } of approvals) {
    const key = keyOf(approvers)
    if (above !== null || approved.has(key)) continue
    approved.set(key, await approvedRecipients(db, wallet, quorumOf(approvers, wallet.user_id), recipients, now))
  }
  return (party, approvers) => approved.get(keyOf(approvers))?.has(party) ?? false
}

/** Which of the parties that a payment goes to are known, as far as the policy asks for that. */
export async function knownRecipients(
  db: Db,
  wallet: WithBook & OfOwner,
  policy: Pick<CompiledPolicy, 'approvals' | 'conditions'>,
  payment: Payment,
  now: Date,
): Promise<Known> {
  const asksForBook = policy.conditions.some(({ kind }) => kind === 'address_book')
  const booked = asksForBook ? await bookedRecipients(db, wallet, payment.recipients, now) : NOBODY
  return {
    isApproved: await approvedBefore(db, wallet, policy, payment, now),
    isInBook: (party) => booked.has(party),
  }
}
