import type { Deps } from '../../platform/deps.ts'
import { type ExecuteCall, findLive } from '../access.ts'
import { checkSignature, continueRemote, continueSigned, type Received, receiveRemote } from '../remote/execute.ts'
import type { Execute, Execution } from '../schema.ts'
import * as store from '../store.ts'
import { dryRun } from './dry-run.ts'
import { executeInTransaction, executeSigned } from './execute.ts'
import { ledgerOf } from './execution.ts'
import { readExecute, requireCommandId } from './request.ts'

/**
 * What the first half of a call passes to the second: the response, or where a remote execution continues. `restart`: the
 * second half starts from the request.
 */
export type StartedExecution = { answer: Execution } | { received: Received } | { restart: true }

/** Whether the session's ledger is transactional. If all ledgers are, nothing has to be read to know it. */
async function isTransactional(deps: Deps, call: ExecuteCall, id: string): Promise<boolean> {
  if ([...deps.ledgers.values()].every((ledger) => ledger.transactional)) return true
  return ledgerOf(deps, await findLive(store.findLive, deps.db, deps, call, id)).transactional
}

/**
 * Executes commands by a delegated session, or completes a transaction that the delegate has signed: all of it on a
 * transactional ledger, and on a remote ledger as much as one database transaction can hold.
 */
export async function beginExecution(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  input: Execute,
): Promise<StartedExecution> {
  const requested = readExecute(input)
  if (!('signature' in requested)) requireCommandId(call, requested)
  const transactional = await isTransactional(deps, call, id)
  if ('signature' in requested) {
    if (transactional) return { answer: await executeSigned(deps, call, id, requested) }
    await checkSignature(deps, call, id, requested)
    return { restart: true }
  }
  if (transactional)
    return { answer: await (requested.dryRun ? dryRun : executeInTransaction)(deps, call, id, requested) }
  return requested.dryRun ? { restart: true } : { received: await receiveRemote(deps, call, id, requested) }
}

/** The rest, outside any transaction. `replayed`: another request has begun it, and may still be at work. */
export async function finishExecution(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  input: Execute,
  { begun, replayed }: { begun: StartedExecution; replayed: boolean },
): Promise<Execution> {
  if ('answer' in begun) return begun.answer
  if ('received' in begun)
    return continueRemote(deps, call, { ...begun.received, isNew: begun.received.isNew && !replayed })
  const requested = readExecute(input)
  return 'signature' in requested ? continueSigned(deps, call, id, requested) : dryRun(deps, call, id, requested)
}
