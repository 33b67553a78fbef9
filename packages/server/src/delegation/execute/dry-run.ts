import type { Deps } from '../../platform/deps.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { type Acting, type ExecuteCall, findLive } from '../access.ts'
import { refusedWithoutOwner } from '../approvals/ask.ts'
import { canAsk } from '../approvals/verdict.ts'
import { counted } from '../budgets/count.ts'
import { decideCommands } from '../policy/policy.ts'
import { addCharges } from '../policy/spend.ts'
import type { Decision, Execution } from '../schema.ts'
import { policyOf, remainingBeside, requireLive, requireUse } from '../session.ts'
import * as store from '../store.ts'
import { asAnswer, type Denial, evaluateCommands, evaluateEffects } from './evaluate.ts'
import { findRepeat, ledgerOf, newTransaction, prepareRequest, requireTaken } from './execution.ts'
import type { RequestedCommands } from './request.ts'

/**
 * What executing these commands now would do, and which rule decides. Nothing is changed, locked or published. Refusals by
 * the ledger and ended sessions give the same errors as in `execute`.
 */
export async function dryRun(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  requested: RequestedCommands,
): Promise<Execution> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  await findRepeat(deps.db, session, requested)
  const now = deps.now()
  requireLive(session, now)
  requireUse(session)
  requireTaken(ledgerOf(deps, session), requested.commands)
  const { commands } = requested
  const policy = policyOf(session)
  const { rule, command, message, trace = [] } = decideCommands(policy, commands, { explain: true })
  const row = newTransaction(session, requested, now)
  const answer = (decision: Decision, prepared: Prepared | null, after: Acting): Execution => ({
    transactionId: null,
    commandId: row.command_id,
    status: 'dry_run',
    updateId: null,
    offset: null,
    effects: prepared?.effects ?? [],
    remaining: remainingBeside(after, after.limits, after.spending?.spent ?? {}, now),
    signingRequest: null,
    approval: null,
    decision,
  })
  const refused = ({ more: _, ...denial }: Denial): Decision => ({ allowed: false, ...denial, trace })
  const denial = evaluateCommands(policy, commands)
  if (denial !== null) return answer(refused(denial), null, session)
  const ledger = ledgerOf(deps, session)
  const request = prepareRequest(session, row, commands, now)
  const ask = async () => {
    // Decoded from the bytes, like before signing.
    const prepared = ledger.decode((await ledger.prepare(deps.db, request)).bytes)
    return { prepared, evaluated: await evaluateEffects(deps.db, deps, ledger, session, commands, prepared) }
  }
  const { prepared, evaluated } = await callLedger(ledger, ask).catch((error: unknown): never => {
    throw asAnswer(error)
  })
  if ('denial' in evaluated) return answer(refused(evaluated.denial), prepared, session)
  const { charges, parts, required } = evaluated
  if (required !== null && !canAsk(deps, session))
    return answer(refused(refusedWithoutOwner(required)), prepared, session)
  const spending = session.spending && {
    ...session.spending,
    spent: counted(session.spending.spent, parts, session.limits),
  }
  const after = { ...session, spending, uses: session.uses + 1, spent: addCharges(session.spent, charges) }
  if (required === null) return answer({ allowed: true, code: null, rule, command, message, trace }, prepared, after)
  const [reason] = required.reasons
  const asking = {
    allowed: false,
    code: 'approval_required',
    rule: reason.rule,
    command: null,
    message: reason.message,
  }
  return answer({ ...asking, trace }, prepared, session)
}
