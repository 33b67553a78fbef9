import { fail, invalid } from '../../platform/http/errors.ts'
import type { Delegate } from '../../platform/http/route.ts'
import { equalSecrets } from '../../platform/security/crypto.ts'
import { proofInvalid, proofRequired, tokenNotBound } from '../../platform/security/dpop/proof.ts'
import { hasPrimeOrder, readPublicJwk, thumbprintOf } from '../../platform/security/dpop/public-jwk.ts'
import type { CreateDelegatedSession } from '../schema.ts'
import type { SessionRow } from '../store.ts'

/**
 * The thumbprint of the key that a new session is bound to; null for none. A bound session is used by its delegate alone, so it
 * cannot have `serverExecute`. @throws validation_failed
 */
export function thumbprintFor({ boundKey, serverExecute }: CreateDelegatedSession): string | null {
  if (boundKey === undefined) return null
  if (serverExecute === true)
    throw invalid('serverExecute', 'Must be false or absent with boundKey: only the delegate executes then.')
  const read = readPublicJwk(boundKey)
  if (read === null || !hasPrimeOrder(read.jwk))
    throw invalid('boundKey', 'Must be a public Ed25519 or P-256 key as a JWK: kty, crv and x, for P-256 also y.')
  return thumbprintOf(read.jwk)
}

/**
 * The caller has the token of this session and, if it is bound, its key.
 * @throws not_found for another session's token; dpop_proof_required, dpop_proof_invalid, session_invalid
 */
export function requireDelegate(row: Pick<SessionRow, 'token_hash' | 'jkt'>, { tokenHash, jkt }: Delegate): void {
  if (!equalSecrets(tokenHash, row.token_hash)) throw fail('not_found')
  if (row.jkt === jkt) return
  if (jkt === null) throw proofRequired()
  throw row.jkt === null ? tokenNotBound() : proofInvalid('key')
}
