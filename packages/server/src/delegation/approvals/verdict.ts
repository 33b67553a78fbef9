import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { bookedRecipients, type WithBook } from '../address-book/known.ts'
import type { Known } from '../policy/judge.ts'
import type { Payment } from '../policy/payment.ts'
import type { CompiledPolicy } from '../policy/policy.ts'
import type { LiveRow } from '../store.ts'
import { approvedRecipients } from './approval-store.ts'

/** Whether sessions of a wallet can ask its owner: the service signs for it, in the transaction of the approval. */
export const canAsk = (
  deps: Pick<Deps, 'ledgers'>,
  { custody, ledger }: Pick<LiveRow, 'custody' | 'ledger'>,
): boolean => custody === 'embedded' && deps.ledgers.get(ledger)?.transactional === true

const NOBODY: ReadonlySet<string> = new Set()

/** Which of the parties that a payment goes to are known, as far as the policy asks for that. */
export async function knownRecipients(
  db: Db,
  wallet: WithBook,
  policy: Pick<CompiledPolicy, 'approvals' | 'conditions'>,
  { recipients }: Payment,
  now: Date,
): Promise<Known> {
  const asksForStrangers = policy.approvals.some(({ above }) => above === null)
  const approved = asksForStrangers ? await approvedRecipients(db, wallet, recipients, now) : NOBODY
  const asksForBook = policy.conditions.some(({ kind }) => kind === 'address_book')
  const booked = asksForBook ? await bookedRecipients(db, wallet, recipients, now) : NOBODY
  return { isApproved: (party) => approved.has(party), isInBook: (party) => booked.has(party) }
}
