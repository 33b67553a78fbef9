import type { ErrorTable } from '../../platform/http/errors.ts'

export const KEY_GENERATION_ERRORS = {
  dkg_conflict: [409, 'This key generation is not where this message belongs.'],
  dkg_expired: [410, 'This key generation is over. Begin another one.'],
} as const satisfies ErrorTable
