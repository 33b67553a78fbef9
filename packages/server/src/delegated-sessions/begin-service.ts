import type { Deps } from '../core/deps.ts'
import { liveFor } from './access-service.ts'
import { dryRun } from './dry-run-service.ts'
import { type ExecuteCall, executeJoined, executeSigned, ledgerOf } from './execute-service.ts'
import { continueRemote, receiveRemote } from './remote-service.ts'
import { readExecute } from './request.ts'
import type { Execute, Execution } from './schema.ts'
import * as store from './store.ts'

/** What the first half of a call leaves for the second: the answer, or the transaction that a network step waits for. */
export type Begun = { answer: Execution } | { transactionId: string }

/** Whether the session's ledger joins our transactions: where all do, nothing has to be read to know it. */
async function joins(deps: Deps, call: ExecuteCall, id: string): Promise<boolean> {
  if ([...deps.ledgers.values()].every((ledger) => ledger.joins)) return true
  return ledgerOf(deps, await liveFor(store.findLive, deps.db, deps, call, id)).joins
}

/**
 * Executes commands by a delegated session, or completes what its wallet's owner has signed; the whole of it, or where
 * the ledger is a network away as much as one database transaction can hold.
 */
export async function beginExecution(deps: Deps, call: ExecuteCall, id: string, input: Execute): Promise<Begun> {
  const asked = readExecute(input)
  if ('signature' in asked) return { answer: await executeSigned(deps, call, id, asked) }
  if (asked.dryRun) return { answer: await dryRun(deps, call, id, asked) }
  if (await joins(deps, call, id)) return { answer: await executeJoined(deps, call, id, asked) }
  return receiveRemote(deps, call, id, asked)
}

/** The rest, outside any transaction. */
export async function finishExecution(deps: Deps, call: ExecuteCall, begun: Begun): Promise<Execution> {
  return 'answer' in begun ? begun.answer : continueRemote(deps, call, begun.transactionId)
}
