import type { Deps } from '../../platform/deps.ts'
import { callLedger } from '../../platform/ports/call-ledger.ts'
import type { Prepared } from '../../platform/ports/ledger.ts'
import { findLive, requireLive } from '../manage/access.ts'
import { decideCommands } from '../policy/policy.ts'
import { addCharges } from '../policy/spend.ts'
import type { Decision, Execution } from '../schema.ts'
import { policyOf, remainingIn } from '../service.ts'
import * as store from '../store.ts'
import { asAnswer, type Denial, evaluateCommands, evaluateEffects } from './evaluate.ts'
import { type ExecuteCall, findRepeat, ledgerOf, PREPARED_MS, requireUse } from './execute.ts'
import { ledgerCommandId, newTransaction } from './execution.ts'
import type { RequestedCommands } from './request.ts'

/**
 * What executing these commands now would do, and which rule decides; nothing is changed, locked or told. What the ledger
 * refuses and an ended session are answered as `execute` would.
 */
export async function dryRun(deps: Deps, call: ExecuteCall, id: string, asked: RequestedCommands): Promise<Execution> {
  const session = await findLive(store.findLive, deps.db, deps, call, id)
  await findRepeat(deps.db, session, asked)
  const now = deps.now()
  requireLive(session, now)
  requireUse(session)
  const { commands } = asked
  const policy = policyOf(session)
  const explained = decideCommands(policy, commands, { explain: true })
  const trace = explained.trace ?? []
  const row = newTransaction(session, asked, now)
  const answer = (decision: Decision, prepared: Prepared | null, after: store.LiveRow): Execution => ({
    transactionId: null,
    commandId: row.command_id,
    status: 'dry_run',
    updateId: null,
    offset: null,
    effects: prepared?.effects ?? [],
    remaining: remainingIn(after, now),
    signingRequest: null,
    decision,
  })
  const refused = ({ code, rule, command, message }: Denial): Decision => ({
    allowed: false,
    code,
    rule,
    command,
    message,
    trace,
  })
  const denial = evaluateCommands(policy, commands)
  if (denial !== null) return answer(refused(denial), null, session)
  const ledger = ledgerOf(deps, session)
  const request = {
    tenantId: session.tenant_id,
    commandId: ledgerCommandId(row),
    actAs: session.party_id,
    commands,
    now,
    expiresAt: new Date(now.getTime() + PREPARED_MS),
  }
  const ask = async () => {
    // What stands in the bytes counts, as it does where they are signed.
    const prepared = ledger.decode((await ledger.prepare(deps.db, request)).bytes)
    return { prepared, judged: await evaluateEffects(deps.db, deps, ledger, session, commands, prepared) }
  }
  const { prepared, judged } = await callLedger(ledger, ask).catch((error: unknown): never => {
    throw asAnswer(error)
  })
  if ('denial' in judged) return answer(refused(judged.denial), prepared, session)
  const { rule, command, message } = explained
  const after = { ...session, uses: session.uses + 1, spent: addCharges(session.spent, judged.charges) }
  return answer({ allowed: true, code: null, rule, command, message, trace }, prepared, after)
}
