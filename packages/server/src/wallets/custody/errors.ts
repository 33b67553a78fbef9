import { type ErrorTable, failures, type HttpError } from '../../platform/http/errors.ts'
import { ShareError } from '../../platform/security/threshold/threshold.ts'

export const CUSTODY_ERRORS = {
  share_invalid: [400, 'A share, proof or partial signature does not match the commitments.'],
  shares_insufficient: [400, 'Fewer shares were sent than the threshold requires.'],
  seal_invalid: [400, 'The sealed data could not be opened. Read GET /mpc/config again and seal it again.'],
  protocol_violated: [400, 'These messages contradict the earlier messages. Start again.'],
  custody_unsupported: [400, "This operation is not available for the wallet's custody."],
  custody_violation: [
    409,
    'This would let the service sign alone, or release enough to make the key together with shares that it could open.',
  ],
  share_would_be_lost: [409, 'After this change, nobody could open this share.'],
  share_missing: [409, 'The service no longer has a share of this key.'],
} as const satisfies ErrorTable

export const fail = failures(CUSTODY_ERRORS)

/**
 * Turns a `ShareError` into an HTTP error; returns other errors unchanged. `field` is the part of the body that caused
 * it.
 */
export function asRefusal(error: unknown, field: string): unknown {
  if (!(error instanceof ShareError)) return error
  const detail = { field, code: error.code, message: error.message, indices: [...error.indices] }
  return error.code === 'sharing_invalid' ? fail('validation_failed', [detail]) : fail(error.code, [detail])
}

/** The error for invalid proofs, shares or messages. The detail has their indices. */
export function shareInvalid(field: string, message: string, wrong: readonly { index: number }[]): HttpError {
  const indices = wrong.map(({ index }) => index)
  return fail('share_invalid').about(field, message, { indices })
}
