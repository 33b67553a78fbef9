import { isId } from '../../platform/ids.ts'
import type { OpenIdChange } from './openid-schema.ts'

/**
 * Where a user's metadata has the value of a claim: `claim:plan`. Guests may write metadata when they convert, so claims come from keys
 * that only the tenant writes (a secret key, a member, an import), whenever an app begins to use them.
 */
export const METADATA_CLAIM_PREFIX = 'claim:'

/**
 * Claims that verifiers read a meaning into that metadata cannot have: those of JWTs (RFC 7519), OpenID Connect Core (all of section
 * 5.1, too: some verifiers find users by `preferred_username`), its logout and RFC 8417 (`events` makes a token another kind of token),
 * RFC 7800 and 8693, OAuth's authority (`scope`; RFC 9068 and 9396: `roles`, `groups`, `entitlements`, `authorization_details`),
 * and those of our access tokens.
 */
export const RESERVED_CLAIMS: ReadonlySet<string> = new Set(
  `iss sub aud exp nbf iat jti azp nonce auth_time acr amr at_hash c_hash s_hash sub_jwk sub_id sid tid typ ends
  name given_name family_name middle_name nickname preferred_username profile picture website gender birthdate zoneinfo locale
  updated_at email email_verified phone_number phone_number_verified address
  events toe txn cnf act may_act scope scp client_id roles groups entitlements authorization_details
  vot vtm trust_framework verified_claims`.split(/\s+/),
)

/** What is wrong with an app's settings as an issuer; null for nothing. */
export function openidProblem({ audiences = [], claims = [] }: OpenIdChange) {
  const app = audiences.findIndex((audience) => isId('app', audience))
  if (app >= 0)
    return {
      field: `openid.audiences.${app}`,
      message: "The id of an app is not listed: an app's own id can always be asked for, and no other app's.",
    }
  const reserved = claims.findIndex((claim) => RESERVED_CLAIMS.has(claim))
  if (reserved >= 0)
    return {
      field: `openid.claims.${reserved}`,
      message: 'This claim has a meaning of its own for verifiers. Choose another name.',
    }
  return null
}
