import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { type Bytes, fromHex, toHex, utf8 } from '../bytes.ts'
import { canonicalJson } from '../canonical-json.ts'
import { aggregate, commitNonces, signShare } from '../cosign.ts'
import { ShareError } from '../errors.ts'
import { HOLDER_INDEX } from '../protocol.ts'
import type { DelegateApi, WireCommitments, WireExecution } from './api.ts'
import { type HeldShare, namespaceOf } from './held-share.ts'

const DIGEST_TAG = utf8('halfkey/transaction-digest/v1\0')

/** The bytes of base64. @throws DOMException `InvalidCharacterError` */
export function bytesOf(base64: string): Bytes {
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

/** The service's part of a signature, as the API writes it: hex. */
interface WirePart {
  serverCommitments: WireCommitments | null
  serverSignatureShare: string | null
}

/**
 * Makes a whole signature of this side's share and the service's part, hex. @throws ShareError share_invalid with index 1 if the
 * service's part is invalid, protocol_violated if there is none
 */
export function signTogether(
  { share, sharing }: HeldShare,
  { nonces, commitments }: ReturnType<typeof commitNonces>,
  { serverCommitments, serverSignatureShare }: WirePart,
  message: Uint8Array,
): string {
  if (serverCommitments === null || serverSignatureShare === null || serverCommitments.index !== HOLDER_INDEX.server)
    throw new ShareError('protocol_violated', 'The service returned no part of the signature.')
  const signing = { sharing, commitments: [readCommitments(serverCommitments), commitments], message }
  const mine = signShare(signing, share, nonces)
  const theirs = { index: serverCommitments.index, value: fromHex(serverSignatureShare) }
  return toHex(aggregate(signing, [theirs, mine]))
}

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
   * commands and their effects, this session, command id, tenant and wallet, and expire within minutes.
   */
  approve?(preparedTransaction: string): void | Promise<void>
  /** Computes the digest to sign if the ledger is not the embedded one. It requires `approve`. */
  digestOf?(prepared: Uint8Array): Uint8Array | Promise<Uint8Array>
}

/** How long after now a prepared transaction may expire. The service allows two minutes; the rest is for wrong clocks. */
const EXPIRY_MAX_MS = 10 * 60_000

interface PreparedText {
  tenantId: unknown
  commandId: unknown
  actAs: string
  commands: unknown[]
  effects: {
    type: string
    command: number
    contractId: string
    templateId: string
    choice: string | null
    arguments: Record<string, unknown>
  }[]
  expiresAt: string
}

/** What a prepared transaction must be. */
interface Asked {
  sessionId: string
  commandId: string
  commands: unknown[]
  /** Of the wallet, hex. */
  publicKey: string
  /** Checked where it is known. */
  tenantId?: string | undefined
}

/** A command with the defaults that the service fills in. */
function filledIn(command: object): FilledIn {
  return Object.fromEntries(
    Object.entries(command).map(([kind, what]: [string, object]) => [kind, { arguments: {}, ...what }]),
  )
}

interface FilledIn {
  create?: { templateId: string; arguments: object }
  exercise?: { templateId: string; contractId: string; choice: string; arguments: object }
}

type SaidEffect = PreparedText['effects'][number]

/** The ledger writes amounts in their shortest form. */
function shortest(value: unknown): unknown {
  const [, whole, fraction = ''] = (typeof value === 'string' && /^0*(\d+)(?:\.(\d*?)0*)?$/.exec(value)) || []
  if (whole === undefined) return value
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** Whether an effect is what a command asks for itself, as against its consequences. */
function isRoot({ create, exercise }: FilledIn, effect: SaidEffect): boolean {
  const asked = create ?? exercise
  const hasArguments = Object.entries(asked?.arguments ?? {}).every(
    ([name, value]) => canonicalJson(shortest(effect.arguments[name])) === canonicalJson(shortest(value)),
  )
  if (!hasArguments || effect.templateId !== asked?.templateId) return false
  if (exercise === undefined) return effect.type === 'created'
  return effect.type === 'exercised' && effect.contractId === exercise.contractId && effect.choice === exercise.choice
}

const TOKEN = 'Token:Holding'

/** Whether tokens that a command moves stay with the wallet's party, or go to the receiver that the command names. */
function staysAmong(effect: SaidEffect, { create, exercise }: FilledIn, party: string): boolean {
  if (effect.type !== 'created' || effect.templateId !== TOKEN || create !== undefined) return true
  const { receiver } = (exercise?.templateId === TOKEN ? exercise.arguments : {}) as { receiver?: unknown }
  return effect.arguments.owner === party || (receiver !== undefined && effect.arguments.owner === receiver)
}

/**
 * Whether each command has its effect, once, and every other effect belongs to a command: it consumes only what that
 * command names, and gives tokens to nobody that it does not name.
 */
function followsFrom(effects: readonly SaidEffect[], commands: readonly FilledIn[], party: string): boolean {
  const named = ({ exercise }: FilledIn) => [exercise?.contractId, ...Object.values(exercise?.arguments ?? {}).flat()]
  const fits = (effect: SaidEffect, command: FilledIn | undefined) =>
    command !== undefined &&
    staysAmong(effect, command, party) &&
    (effect.type === 'archived'
      ? named(command).includes(effect.contractId)
      : isRoot(command, effect) || (effect.type === 'created' && command.create === undefined))
  return (
    effects.every((effect) => fits(effect, commands[effect.command])) &&
    commands.every(
      (command, at) => effects.filter((effect) => effect.command === at && isRoot(command, effect)).length === 1,
    )
  )
}

/** @throws Error for what is no prepared transaction of the embedded ledger */
function isAsked(bytes: Uint8Array, asked: Asked): boolean {
  const said: PreparedText = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  const commands = asked.commands.map((command) => filledIn(command as object))
  return (
    said.commandId === `${asked.sessionId}/${asked.commandId}` &&
    canonicalJson(said.commands) === canonicalJson(commands) &&
    said.actAs.split('::')[1] === namespaceOf(fromHex(asked.publicKey)) &&
    (asked.tenantId === undefined || said.tenantId === asked.tenantId) &&
    Date.parse(said.expiresAt) <= Date.now() + EXPIRY_MAX_MS &&
    followsFrom(said.effects, commands, said.actAs)
  )
}

/**
 * Checks that a prepared transaction of the embedded ledger is the requested one: exactly these commands with no effects
 * but theirs, by the party of this key, in this tenant, and that it expires soon. @throws ShareError protocol_violated
 */
export function requireAsked(bytes: Uint8Array, asked: Asked): void {
  let agrees = false
  try {
    agrees = isAsked(bytes, asked)
  } catch {
    // Not a transaction.
  }
  if (!agrees)
    throw new ShareError('protocol_violated', 'The service prepared another transaction than the requested one.')
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
  const { nonces, commitments } = commitNonces(held.share, [utf8(canonicalJson({ sessionId, commandId, commands }))])
  const asked = await api.delegatedSessions.execute(sessionId, {
    commandId,
    commands,
    commitments: wireCommitments(commitments),
  })
  const request = asked.signingRequest
  if (asked.status !== 'signature_required' || request === null) return asked
  const bytes = bytesOf(request.preparedTransaction)
  const { publicKey, tenantId } = held
  if (approve === undefined) requireAsked(bytes, { sessionId, commandId, commands, publicKey, tenantId })
  else await approve(request.preparedTransaction)
  const message = await (digestOf ?? transactionDigest)(bytes)
  const signature = signTogether(held, { nonces, commitments }, request, message)
  return api.delegatedSessions.execute(sessionId, { signingRequestId: request.id, signature })
}
