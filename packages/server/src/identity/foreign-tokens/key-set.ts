import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { z } from 'zod'

/** More keys than any issuer publishes. */
const KEYS_MAX = 100
/** Of RSA, in bits: RFC 7518, section 3.3, and as many as still verify in well under a millisecond. */
const RSA_BITS = { min: 2048, max: 8192 }
/** As base64url: 32 bits. An exponent beyond that only makes verifying slow. */
const EXPONENT_CHARS_MAX = 6

/** What a key must be for an algorithm: its type and, of a curve, which one (RFC 7518, section 3.1; RFC 8037; RFC 9864). */
const FITS: Readonly<Record<string, { kty: string; crv?: string }>> = {
  RS256: { kty: 'RSA' },
  RS384: { kty: 'RSA' },
  RS512: { kty: 'RSA' },
  PS256: { kty: 'RSA' },
  PS384: { kty: 'RSA' },
  PS512: { kty: 'RSA' },
  ES256: { kty: 'EC', crv: 'P-256' },
  ES384: { kty: 'EC', crv: 'P-384' },
  ES512: { kty: 'EC', crv: 'P-521' },
  EdDSA: { kty: 'OKP', crv: 'Ed25519' },
  Ed25519: { kty: 'OKP', crv: 'Ed25519' },
}

/** The members that a public key may have (RFC 7517, section 4; RFC 7518, section 6). Others are not even looked at. */
const Jwk = z.object({
  kty: z.enum(['RSA', 'EC', 'OKP']),
  kid: z.string().max(512).optional(),
  alg: z.string().max(32).optional(),
  use: z.string().max(32).optional(),
  key_ops: z.array(z.string().max(32)).max(10).optional(),
  n: z.string().optional(),
  e: z.string().max(EXPONENT_CHARS_MAX).optional(),
  crv: z.string().max(32).optional(),
  x: z.string().max(200).optional(),
  y: z.string().max(200).optional(),
})
type Jwk = z.infer<typeof Jwk>

const JwkSet = z.object({ keys: z.array(z.unknown()).max(KEYS_MAX) })

/** A public key of an issuer, and what it may be used for. */
export interface IssuerKey {
  kid: string | undefined
  kty: string
  crv: string | undefined
  /** The only algorithm it is for; undefined if the issuer does not say. */
  alg: string | undefined
  key: KeyObject
}

const isForSignatures = ({ use, key_ops: operations }: Jwk) =>
  (use === undefined || use === 'sig') && (operations === undefined || operations.includes('verify'))

/** One key; undefined for one that is not for signatures, that no algorithm uses or that is no key. */
function readKey(value: unknown): IssuerKey | undefined {
  const { data: jwk } = Jwk.safeParse(value)
  if (jwk === undefined || !isForSignatures(jwk)) return undefined
  const { kid, alg, kty, crv, n, e, x, y } = jwk
  try {
    const key = createPublicKey({ key: { kty, crv, n, e, x, y } as JsonWebKey, format: 'jwk' })
    const bits = key.asymmetricKeyDetails?.modulusLength
    if (bits !== undefined && (bits < RSA_BITS.min || bits > RSA_BITS.max)) return undefined
    return { kid, kty, crv, alg, key }
  } catch {
    return undefined
  }
}

/**
 * The usable keys of a JWK Set (RFC 7517, section 5: keys that are not understood are passed over). Symmetric keys are none.
 * @returns null if it is no JWK Set, or has no usable key
 */
export function readKeySet(value: unknown): readonly IssuerKey[] | null {
  const { data } = JwkSet.safeParse(value)
  if (data === undefined) return null
  const keys = data.keys.map(readKey).filter((key) => key !== undefined)
  return keys.length === 0 ? null : keys
}

/**
 * The key for a token. `kid` is compared as a name and nothing else. A token without one is only accepted if a single key
 * fits. Of several keys with one name, the one that fits the algorithm counts.
 */
export function keyFor(keys: readonly IssuerKey[], { alg, kid }: { alg: string; kid: string | undefined }) {
  const wanted = FITS[alg]
  const fitting = keys.filter(
    (key) =>
      wanted !== undefined &&
      key.kty === wanted.kty &&
      (wanted.crv === undefined || key.crv === wanted.crv) &&
      (key.alg === undefined || key.alg === alg) &&
      (kid === undefined || key.kid === kid),
  )
  return fitting.length === 1 ? fitting[0]?.key : undefined
}
