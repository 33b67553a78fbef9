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

/** A prepared transaction's bytes, out of their base64. */
function bytesOf(base64: string): Bytes {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
}

/** What is signed for a prepared transaction of the embedded ledger: 32 bytes, computed from its bytes. */
export function transactionDigest(prepared: Uint8Array): Uint8Array {
  return sha256(concatBytes(DIGEST_TAG, prepared))
}

/** FROST's commitments as the wire has them. */
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

/** The same from the wire. */
export const readCommitments = ({ index, hiding, binding }: WireCommitments) => ({
  index,
  hiding: fromHex(hiding),
  binding: fromHex(binding),
})

/** What is to be executed by a share and the service. */
export interface SharedExecution<Command> {
  /** Of the delegated session whose token the client has. */
  sessionId: string
  /** The delegate's: the device share, or the recovery share. */
  held: HeldShare
  commands: Command[]
  /** A random one, if none is given. */
  commandId?: string
  /**
   * Looks at what is to be signed before it is: the bytes of the prepared transaction, which alone count. Throws to refuse.
   * Read them with the SDK's `readPreparedTransaction`. Without it the commands in them must be those that were asked for,
   * in this session and under this command id.
   */
  approve?(preparedTransaction: string): void | Promise<void>
  /** What is signed for these bytes, where the ledger is not the embedded one; then `approve` is needed. */
  digestOf?(prepared: Uint8Array): Uint8Array | Promise<Uint8Array>
}

interface PreparedText {
  commandId?: unknown
  commands?: unknown
}

/** A command with what the service fills in where it was left out. */
function filledIn(command: object): object {
  return Object.fromEntries(
    Object.entries(command).map(([kind, what]: [string, object]) => [kind, { arguments: {}, ...what }]),
  )
}

/** That a prepared transaction of the embedded ledger is of these commands and no others. @throws ShareError protocol_violated */
export function requireAsked(
  bytes: Uint8Array,
  asked: { sessionId: string; commandId: string; commands: unknown[] },
): void {
  const refuse = () =>
    new ShareError('protocol_violated', 'The service has prepared another transaction than was asked for.')
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
 * Executes commands on a `shared` wallet: the service signs by its share within the session's policy, this signs by
 * `held`, and the two make one Ed25519 signature. What the service sends is checked; the digest is computed from the
 * bytes. @throws ShareError share_invalid naming index 1 where the service's part is wrong, and what the calls throw
 */
export async function executeShared<Command, Execution extends WireExecution>(
  api: DelegateApi<Command, Execution>,
  { sessionId, held, commands, commandId = crypto.randomUUID(), approve, digestOf }: SharedExecution<Command>,
): Promise<Execution> {
  if (digestOf !== undefined && approve === undefined)
    throw new ShareError('protocol_violated', 'Say by `approve` what may be signed on another ledger.')
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
    throw new ShareError('protocol_violated', 'The service did not do its part of the signature.')
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
