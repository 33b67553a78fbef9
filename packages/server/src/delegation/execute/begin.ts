import type { Deps } from '../../platform/deps.ts'
import { findLive } from '../manage/access.ts'
import { checkSigned, continueRemote, continueSigned, type Received, receiveRemote } from '../remote/remote.ts'
import type { Execute, Execution } from '../schema.ts'
import * as store from '../store.ts'
import { dryRun } from './dry-run.ts'
import { type ExecuteCall, executeInTransaction, executeSigned, ledgerOf } from './execute.ts'
import { readExecute } from './request.ts'

/**
 * What the first half of a call leaves for the second: the answer, or what a network step goes on from; `asked` where that
 * is the call itself.
 */
export type StartedExecution = { answer: Execution } | { received: Received } | { asked: true }

/** Whether the session's ledger joins our transactions: where all do, nothing has to be read to know it. */
async function transactional(deps: Deps, call: ExecuteCall, id: string): Promise<boolean> {
  if ([...deps.ledgers.values()].every((ledger) => ledger.transactional)) return true
  return ledgerOf(deps, await findLive(store.findLive, deps.db, deps, call, id)).transactional
}

/**
 * Executes commands by a delegated session, or completes what its wallet's owner has signed; the whole of it, or where
 * the ledger is a network away as much as one database transaction can hold.
 */
export async function beginExecution(
  deps: Deps,
  call: ExecuteCall,
  id: string,
  input: Execute,
): Promise<StartedExecution> {
  const asked = readExecute(input)
  const joined = await transactional(deps, call, id)
  if ('signature' in asked) {
    if (joined) return { answer: await executeSigned(deps, call, id, asked) }
    await checkSigned(deps, call, id, asked)
    return { asked: true }
  }
  if (joined) return { answer: await (asked.dryRun ? dryRun : executeInTransaction)(deps, call, id, asked) }
  return asked.dryRun ? { asked: true } : { received: await receiveRemote(deps, call, id, asked) }
}

/** The rest, outside any transaction. `replayed`: another request has begun it, and may be at it still. */
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
  const asked = readExecute(input)
  return 'signature' in asked ? continueSigned(deps, call, id, asked) : dryRun(deps, call, id, asked)
}
