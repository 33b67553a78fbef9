import { createPublicKey, type KeyObject } from 'node:crypto'
import { pointOf } from '../../../../../keys/src/group.ts'
import { sha256 } from '../crypto.ts'

/** A public key that may sign proofs, without the members of a JWK that say nothing about the key. */
export type PublicJwk = { kty: 'OKP'; crv: 'Ed25519'; x: string } | { kty: 'EC'; crv: 'P-256'; x: string; y: string }

/** Members of a JWK that hold a secret (RFC 7518, section 6; RFC 8037, section 2). */
const SECRET_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

const COORDINATE_BYTES = 32

/** Whether a text is the one base64url form of 32 bytes: each key has only one thumbprint. */
function isCoordinate(text: unknown): text is string {
  if (typeof text !== 'string' || text.length > 64) return false
  const bytes = Buffer.from(text, 'base64url')
  return bytes.length === COORDINATE_BYTES && bytes.toString('base64url') === text
}

function membersOf(jwk: object): PublicJwk | null {
  const { kty, crv, x, y } = jwk as Record<string, unknown>
  if (!isCoordinate(x)) return null
  if (kty === 'OKP' && crv === 'Ed25519' && y === undefined) return { kty, crv, x }
  return kty === 'EC' && crv === 'P-256' && isCoordinate(y) ? { kty, crv, x, y } : null
}

/**
 * Reads a public key: Ed25519 (RFC 8037) or P-256 (RFC 7518). Null for every other JWK, and for one with a private member. That a
 * point has prime order is looked at when a session is bound to it (`hasPrimeOrder`): it takes a millisecond.
 */
export function readPublicJwk(jwk: unknown): { jwk: PublicJwk; key: KeyObject } | null {
  if (typeof jwk !== 'object' || jwk === null) return null
  if (SECRET_MEMBERS.some((member) => Object.hasOwn(jwk, member))) return null
  const read = membersOf(jwk)
  if (read === null) return null
  try {
    // For P-256, OpenSSL checks that the point is on the curve.
    return { jwk: read, key: createPublicKey({ key: read, format: 'jwk' }) }
  } catch {
    return null
  }
}

/** Whether a key is a point of prime order: anybody could sign for some that are not. The curve P-256 has no other. */
export function hasPrimeOrder(jwk: PublicJwk): boolean {
  if (jwk.kty === 'EC') return true
  try {
    pointOf(Buffer.from(jwk.x, 'base64url'))
    return true
  } catch {
    return false
  }
}

/** A key's thumbprint: base64url of SHA-256 (RFC 7638, section 3; for Ed25519, RFC 8037, appendix A.3). */
export function thumbprintOf(jwk: PublicJwk): string {
  const members: Record<string, string> = { ...jwk }
  const sorted = Object.keys(members).sort()
  return sha256(JSON.stringify(members, sorted)).toString('base64url')
}
