import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { type Bytes, fromHex, toHex, utf8 } from '../bytes.ts'
import { canonicalJson } from '../canonical-json.ts'
import { aggregate, commitNonces, signShare } from '../cosign.ts'
import { ShareError } from '../errors.ts'
import { HOLDER_INDEX } from '../protocol.ts'
import type { DelegateApi, WireCommitments, WireExecution } from './api.ts'
import type { HeldShare } from './held-share.ts'

const DIGEST_TAG = utf8('halfkey/transaction-digest/v1\0')

/** The bytes of a prepared transaction, from base64. */
function bytesOf(base64: string): Bytes {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
}

/** The digest that is signed for a prepared transaction of the embedded ledger, 32 bytes. */
export function transactionDigest(prepared: Uint8Array): Uint8Array {
  return sha256(concatBytes(DIGEST_TAG, prepared))
}

/** FROST's commitments in the form of the API. */
export const wireCommitments = ({
  index,
  hiding,
  binding,
}: {
  index: number
  hiding: Uint8Array
  binding: Uint8Array
}) => ({
  index,
  hiding: toHex(hiding),
  binding: toHex(binding),
})

/** FROST's commitments from the API. */
export const readCommitments = ({ index, hiding, binding }: WireCommitments) => ({
  index,
  hiding: fromHex(hiding),
  binding: fromHex(binding),
})

/** What to execute with a share and the service. */
export interface SharedExecution<Command> {
  /** The delegated session whose token the client has. */
  sessionId: string
  /** The delegate's share: the device share or the recovery share. */
  held: HeldShare
  commands: Command[]
  /** Random by default. */
  commandId?: string
  /**
   * Checks the prepared transaction before it is signed, and throws to refuse. Read its bytes, which are all that is
   * signed, with the SDK's `readPreparedTransaction`. Without `approve`, the transaction must have exactly the given
   * commands, this session and this command id.
   */
  approve?(preparedTransaction: string): void | Promise<void>
  /** Computes the digest to sign if the ledger is not the embedded one. It requires `approve`. */
  digestOf?(prepared: Uint8Array): Uint8Array | Promise<Uint8Array>
}

interface PreparedText {
  commandId?: unknown
  commands?: unknown
}

/** A command with the defaults that the service fills in. */
function filledIn(command: object): object {
  return Object.fromEntries(
    Object.entries(command).map(([kind, what]: [string, object]) => [kind, { arguments: {}, ...what }]),
  )
}

/**
 * Checks that a prepared transaction of the embedded ledger has exactly these commands.
 * @throws ShareError protocol_violated
 */
export function requireAsked(
  bytes: Uint8Array,
  asked: { sessionId: string; commandId: string; commands: unknown[] },
): void {
  const refuse = () =>
    new ShareError('protocol_violated', 'The service prepared another transaction than the requested one.')
  let said: PreparedText
  try {
    said = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    throw refuse()
  }
  const commands = asked.commands.map((command) => filledIn(command as object))
  if (
    said.commandId !== `${asked.sessionId}/${asked.commandId}` ||
    canonicalJson(said.commands) !== canonicalJson(commands)
  )
    throw refuse()
}

/**
 * Executes commands on a `shared` wallet. The service signs with its share within the session's policy, this side signs
 * with `held`, and both parts make one Ed25519 signature. Every answer of the service is checked, and the digest is
 * computed from the bytes. @throws ShareError share_invalid with index 1 if the service's part is invalid, and errors
 * of the calls
 */
export async function executeShared<Command, Execution extends WireExecution>(
  api: DelegateApi<Command, Execution>,
  { sessionId, held, commands, commandId = crypto.randomUUID(), approve, digestOf }: SharedExecution<Command>,
): Promise<Execution> {
  if (digestOf !== undefined && approve === undefined)
    throw new ShareError(
      'protocol_violated',
      '`digestOf` requires `approve`: give a function that checks what is signed.',
    )
  const { share, sharing } = held
  const { nonces, commitments } = commitNonces(share)
  const asked = await api.delegatedSessions.execute(sessionId, {
    commandId,
    commands,
    commitments: wireCommitments(commitments),
  })
  const request = asked.signingRequest
  if (asked.status !== 'signature_required' || request === null) return asked
  const { serverCommitments, serverSignatureShare } = request
  if (serverCommitments === null || serverSignatureShare === null || serverCommitments.index !== HOLDER_INDEX.server)
    throw new ShareError('protocol_violated', 'The service returned no part of the signature.')
  const bytes = bytesOf(request.preparedTransaction)
  if (approve === undefined) requireAsked(bytes, { sessionId, commandId, commands })
  else await approve(request.preparedTransaction)
  const message = await (digestOf ?? transactionDigest)(bytes)
  const signing = { sharing, commitments: [readCommitments(serverCommitments), commitments], message }
  const mine = signShare(signing, share, nonces)
  const theirs = { index: serverCommitments.index, value: fromHex(serverSignatureShare) }
  const signature = toHex(aggregate(signing, [theirs, mine]))
  return api.delegatedSessions.execute(sessionId, { signingRequestId: request.id, signature })
}
