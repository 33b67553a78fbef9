import { type Sharing, toHex } from '../../platform/security/threshold/threshold.ts'
import { fail } from './errors.ts'
import type { Recover, Recovery } from './schema.ts'

/** The fields of a body that belong to some steps only. */
type Field = Exclude<keyof Recover, 'walletId' | 'mode'>

const FIELDS: readonly Field[] = [
  'challengeId',
  'generation',
  'proofs',
  'recipientPublicKey',
  'shares',
  'set',
  'participants',
  'dealings',
  'commitments',
  'reshareId',
  'signature',
]

/** A body that certainly has these fields. */
export type With<K extends Field> = Recover & { [F in K]: NonNullable<Recover[F]> }

/** A body with all fields that a step needs, and none of another step. @throws validation_failed */
export function fieldsOf<K extends Field>(
  input: Recover,
  needed: readonly K[],
  optional: readonly Field[] = [],
): With<K> {
  const known: readonly Field[] = [...needed, ...optional]
  const missing = needed.filter((field) => input[field] === undefined)
  const others = FIELDS.filter((field) => input[field] !== undefined && !known.includes(field))
  const wrong = [
    ...missing.map((field) => ({ field, code: 'required', message: `"${field}" is required for this step.` })),
    ...others.map((field) => ({ field, code: 'not_allowed', message: 'Must be absent for this step.' })),
  ]
  if (wrong.length > 0) throw fail('validation_failed', wrong)
  return input as With<K>
}

/** The response to a step. `more` has the fields of the step; all other fields are null. */
export function replyOf(
  mode: Recovery['mode'],
  wallet: { id: string; public_key: Buffer },
  generation: number,
  { threshold, total, commitments }: Sharing,
  more: Partial<Recovery>,
): Recovery {
  return {
    mode,
    walletId: wallet.id,
    publicKey: wallet.public_key.toString('hex'),
    generation,
    threshold,
    total,
    commitments: commitments.map(toHex),
    index: null,
    holder: null,
    sealedShare: null,
    sealedKey: null,
    reshareId: null,
    dealings: null,
    transcriptHash: null,
    serverCommitments: null,
    serverSignatureShare: null,
    expiresAt: null,
    shares: null,
    ...more,
  }
}
