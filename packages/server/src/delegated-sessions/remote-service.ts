import type { Deps } from '../core/deps.ts'
import { failures } from '../core/errors.ts'
import type { ExecuteCall } from './execute-service.ts'
import type { AskedCommands } from './request.ts'
import type { Execution } from './schema.ts'
import { DELEGATED_SESSION_ERRORS } from './service.ts'

const fail = failures(DELEGATED_SESSION_ERRORS)

/** Placeholder until the two-transaction path is there. */
export async function receiveRemote(
  _deps: Deps,
  _call: ExecuteCall,
  _id: string,
  _asked: AskedCommands,
): Promise<{ transactionId: string }> {
  throw fail('ledger_unavailable')
}

export async function continueRemote(_deps: Deps, _call: ExecuteCall, _id: string): Promise<Execution> {
  throw fail('ledger_unavailable')
}
