import { type ErrorTable, failures, type HttpError } from '../../platform/http/errors.ts'
import { ShareError } from '../../platform/security/threshold/threshold.ts'

export const CUSTODY_ERRORS = {
  share_invalid: [400, 'These shares, or what goes with them, are not what the commitments say.'],
  shares_insufficient: [400, 'These are fewer shares than the threshold.'],
  seal_invalid: [400, 'What was sealed does not open.'],
  protocol_violated: [400, 'These messages do not fit what was said before.'],
  custody_unsupported: [400, 'This is not to be had with this custody.'],
  custody_violation: [
    409,
    'The service must never have, or give out in this way, what makes the key with what else it could open.',
  ],
  share_would_be_lost: [409, 'Nothing could open this share any more.'],
  share_missing: [409, 'The service has no share of this key any more.'],
} as const satisfies ErrorTable

export const fail = failures(CUSTODY_ERRORS)

/** A refusal by the arithmetic as an answer; other errors unchanged. `field` is the part of the body that it concerns. */
export function asRefusal(error: unknown, field: string): unknown {
  if (!(error instanceof ShareError)) return error
  const detail = { field, code: error.code, message: error.message, indices: [...error.indices] }
  return error.code === 'sharing_invalid' ? fail('validation_failed', [detail]) : fail(error.code, [detail])
}

/** A refusal of proofs, shares or messages. The detail names their indices. */
export function shareInvalid(field: string, message: string, wrong: readonly { index: number }[]): HttpError {
  const indices = wrong.map(({ index }) => index)
  return fail('share_invalid').about(field, message, { indices })
}
