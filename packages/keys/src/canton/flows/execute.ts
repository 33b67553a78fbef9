import { fromHex, toHex, utf8 } from '../../bytes.ts'
import { canonicalJson } from '../../canonical-json.ts'
import { commitNonces } from '../../cosign.ts'
import type { WireCommitments, WireExecution } from '../../flows/api.ts'
import { signTogether, wireCommitments } from '../../flows/execute.ts'
import { namespaceOf } from '../../flows/held-share.ts'
import { CantonError } from '../errors.ts'
import type { HashingScheme } from '../hash.ts'
import { type AlsoAllowed, requireAsked } from './asked.ts'
import { isShare, type WalletKey } from './key.ts'
import { type CantonTransaction, readCantonTransaction } from './transaction.ts'

/** The response to a call of execute, as far as it is read here. */
export interface CantonWireExecution extends WireExecution {
  signingRequest: (NonNullable<WireExecution['signingRequest']> & { digest: string }) | null
}

/** The calls of a delegate, with the session's token. A client of `@halfkey/sdk` has them. */
export interface CantonDelegateApi<Command, Execution extends CantonWireExecution = CantonWireExecution> {
  delegatedSessions: {
    execute(
      id: string,
      body:
        | { commandId: string; commands: Command[]; commitments?: WireCommitments }
        | { signingRequestId: string; signature: string },
    ): Promise<Execution>
  }
}

type Committed = ReturnType<typeof commitNonces>

/** What to execute on Canton. */
export interface CantonExecution<Command> {
  /** The delegated session whose token the client has. */
  sessionId: string
  key: WalletKey
  /** One command. */
  commands: Command[]
  /** Random by default. */
  commandId?: string
  /** What the transaction may do besides, such as choices that the command's choice exercises. */
  also?: AlsoAllowed
  /** Id of the synchronizer, known from elsewhere than this service. */
  synchronizer?: string
  /** How the ledger hashes. Only V3 signs the end of the transaction's time: without it, the service chooses. */
  hashVersion?: HashingScheme
  /** Asks the person, and throws to refuse. It is called after everything was checked: see `wordsOf`. */
  approve?(transaction: CantonTransaction): void | Promise<void>
}

/**
 * Executes a command of a wallet on Canton, signed by a share and the service, or by the user's own key. The transaction is read from
 * its bytes, hashed and checked here before it is signed, so that neither the service nor the participant can have another one
 * signed: exactly this command, and no consequences but those that it names or `also` allows.
 * @throws CantonError `not_asked` for another transaction, `hash_mismatch`, and what reading throws; ShareError for an invalid part of
 * the service; what `approve` and the calls throw
 */
export async function executeOnCanton<Command, Execution extends CantonWireExecution>(
  api: CantonDelegateApi<Command, Execution>,
  of: CantonExecution<Command>,
): Promise<Execution> {
  const { sessionId, key, commands, commandId = crypto.randomUUID(), approve } = of
  const { also, synchronizer, hashVersion } = of
  const mine = isShare(key)
    ? commitNonces(key.share, [utf8(canonicalJson({ sessionId, commandId, commands }))])
    : undefined
  const asked = await api.delegatedSessions.execute(sessionId, {
    commandId,
    commands,
    ...(mine !== undefined && { commitments: wireCommitments(mine.commitments) }),
  })
  const request = asked.signingRequest
  if (asked.status !== 'signature_required' || request === null) return asked
  const transaction = readCantonTransaction(request.preparedTransaction)
  const { hash } = transaction.view
  requireAsked(transaction, {
    commandId: `${sessionId}/${commandId}`,
    commands,
    namespace: namespaceOf(fromHex(key.publicKey)),
    synchronizer,
    hashVersion,
    also,
    now: Date.now(),
  })
  if (request.digest !== toHex(hash))
    throw new CantonError('hash_mismatch', 'the service names another hash than that of the transaction')
  await approve?.(transaction)
  const signature = isShare(key) ? signTogether(key, mine as Committed, request, hash) : toHex(await key.sign(hash))
  return api.delegatedSessions.execute(sessionId, { signingRequestId: request.id, signature })
}
