import { createHash, randomBytes } from 'node:crypto'
import { formatAmount } from '../../platform/ports/amount.ts'
import type { Effect, Prepared } from '../../platform/ports/ledger.ts'
import { canonicalJson } from '../../platform/security/canonical-json.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import type { TransactionRow } from '../../wallets/transactions/service.ts'
import type { Payment } from '../policy/payment.ts'
import type { ApprovalReason } from '../policy/require-approval.ts'
import type { Quorum } from './approvers/quorum.ts'

/** What the owner alone approves. */
const FOR_OWNER = 'halfkey/approval/v1'
/** What has `approvers`: a page that cannot show them does not know this version, and signs nothing. */
const FOR_APPROVERS = 'halfkey/approval/v2'
const NONCE_BYTES = 32

/**
 * What an owner or other users approve. All of them sign the same document. Prepared bytes expire before people decide, so this stands for them: what is signed later must do
 * exactly what is written here.
 */
export interface ApprovalDocument {
  version: typeof FOR_OWNER | typeof FOR_APPROVERS
  tenantId: string
  appId: string
  userId: string
  walletId: string
  partyId: string
  delegatedSessionId: string
  transactionId: string
  commandId: string
  /** SHA-256 of the commands after RFC 8785, hex. */
  commandsHash: string
  /** The same of the effects, without the ids that new contracts happen to get. */
  effectsHash: string
  /** What it costs of each asset. Amounts are decimal text. */
  costs: { asset: { issuer: string; symbol: string }; amount: string }[]
  /** The parties that gain something, in the order of the alphabet. */
  recipients: string[]
  /** The rules that ask. */
  rules: Pick<ApprovalReason, 'rule' | 'message'>[]
  /** Who has to approve: all of these quorums. Absent: the owner. */
  approvers?: Quorum[]
  expiresAt: string
  /** 32 random bytes, hex. */
  nonce: string
}

/** The hash of what a transaction does. A new contract's id follows from random bytes, so its place stands for it. */
function effectsHashOf(effects: readonly Effect[]): string {
  const made = new Map<string, string>()
  for (const { type, contractId } of effects) if (type === 'created') made.set(contractId, `new contract ${made.size}`)
  const settled = effects.map((effect) => ({ ...effect, contractId: made.get(effect.contractId) ?? effect.contractId }))
  return sha256(canonicalJson(settled)).toString('hex')
}

/** What of a document follows from the prepared bytes. */
export function meaningOf(
  commandsHash: Buffer,
  prepared: Pick<Prepared, 'effects'>,
  { costs, recipients }: Payment,
): Pick<ApprovalDocument, 'commandsHash' | 'effectsHash' | 'costs' | 'recipients'> {
  return {
    commandsHash: commandsHash.toString('hex'),
    effectsHash: effectsHashOf(prepared.effects),
    costs: costs.map(({ asset: { issuer, symbol }, units }) => ({
      asset: { issuer, symbol },
      amount: formatAmount(units),
    })),
    recipients,
  }
}

/** A new document. */
export function newDocument(
  row: TransactionRow,
  meaning: ReturnType<typeof meaningOf>,
  { rules, quorums }: { rules: readonly ApprovalReason[]; quorums: Quorum[] | null },
  expiresAt: Date,
): ApprovalDocument {
  return {
    version: quorums === null ? FOR_OWNER : FOR_APPROVERS,
    tenantId: row.tenant_id,
    appId: row.app_id,
    userId: row.user_id,
    walletId: row.wallet_id,
    partyId: row.party_id,
    delegatedSessionId: row.delegated_session_id,
    transactionId: row.id,
    commandId: row.command_id,
    ...meaning,
    rules: rules.map(({ rule, message }) => ({ rule, message })),
    ...(quorums === null ? {} : { approvers: quorums }),
    expiresAt: expiresAt.toISOString(),
    nonce: randomBytes(NONCE_BYTES).toString('hex'),
  }
}

/** Whether a transaction that was prepared anew does what the document says. */
export function isMeant(document: ApprovalDocument, meaning: ReturnType<typeof meaningOf>): boolean {
  const { commandsHash, effectsHash, costs, recipients } = document
  return canonicalJson({ commandsHash, effectsHash, costs, recipients }) === canonicalJson(meaning)
}

/**
 * The challenge of each approver's assertion: SHA-256 over a domain tag, which separates it from all else that a key signs, and
 * the document after RFC 8785.
 */
export function challengeOf(document: ApprovalDocument): Buffer {
  return createHash('sha256').update(`${document.version}\0`).update(canonicalJson(document)).digest()
}
