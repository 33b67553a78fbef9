import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { type ApprovalReason, approvalReasons, type Payment, paymentOf } from '../policy/require-approval.ts'
import { policyOf } from '../session.ts'
import type { LiveRow } from '../store.ts'
import { approvedRecipients } from './approval-store.ts'

/** What a policy wants the owner to approve. */
export interface Required {
  payment: Payment
  /** At least one, in the policy's order. */
  reasons: [ApprovalReason, ...ApprovalReason[]]
  lifetimeMs: number
}

/** Whether sessions of a wallet can ask its owner: the service signs for it, in the transaction of the approval. */
export const canAsk = (
  deps: Pick<Deps, 'ledgers'>,
  { custody, ledger }: Pick<LiveRow, 'custody' | 'ledger'>,
): boolean => custody === 'embedded' && deps.ledgers.get(ledger)?.transactional === true

/** What of a prepared transaction the owner has to approve; null for nothing. */
export async function requiredApproval(db: Db, row: LiveRow, prepared: Prepared): Promise<Required | null> {
  const rules = policyOf(row).approvals
  if (rules.length === 0) return null
  const payment = paymentOf(prepared, row.party_id)
  const asksForStrangers = rules.some(({ above }) => above === null)
  const known = asksForStrangers ? await approvedRecipients(db, row, payment.recipients) : new Set()
  const [first, ...more] = approvalReasons(rules, payment, (party) => known.has(party))
  if (first === undefined) return null
  const asking = new Set([first, ...more].map(({ rule }) => rule))
  const lifetimes = rules.filter(({ name }) => asking.has(name)).map(({ lifetimeMs }) => lifetimeMs)
  return { payment, reasons: [first, ...more], lifetimeMs: Math.min(...lifetimes) }
}
