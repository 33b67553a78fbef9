import type { ErrorTable } from '../../platform/http/errors.ts'

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
