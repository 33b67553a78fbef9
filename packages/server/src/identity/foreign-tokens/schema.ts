import { z } from 'zod'

/** In characters: far beyond any issuer's tokens. */
const TOKEN_CHARS_MAX = 16_384

/** The names of RFC 8693, section 3. */
const TOKEN_TYPES = [
  'urn:ietf:params:oauth:token-type:jwt',
  'urn:ietf:params:oauth:token-type:id_token',
  'urn:ietf:params:oauth:token-type:access_token',
] as const

/** A token of a trusted issuer, by the field names of RFC 8693, section 2.1. */
export const subjectTokenFields = {
  subject_token: z.string().min(1).max(TOKEN_CHARS_MAX).meta({
    description: 'A JWT that one of the issuers has signed that the app trusts.',
    example: 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln',
    'x-expected': 'a JWT in its compact form',
  }),
  subject_token_type: z.enum(TOKEN_TYPES).meta({
    description: 'What the token is. `jwt` will do for all of them.',
    example: 'urn:ietf:params:oauth:token-type:jwt',
  }),
}
