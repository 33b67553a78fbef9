import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { cose, decodeCredentialPublicKey } from '@simplewebauthn/server/helpers'

/** Signature algorithms that we offer (IANA COSE registry), the preferred one first. */
export const ALGORITHMS: number[] = [cose.COSEALG.EdDSA, cose.COSEALG.ES256, cose.COSEALG.RS256]

const MODULUS_BITS_MIN = 2_048
/** With a larger modulus or exponent, one verification takes milliseconds: an attacker could use it to exhaust the CPU. */
const MODULUS_BITS_MAX = 4_608
const EXPONENT_BYTES_MAX = 4

const text = (value: Uint8Array | undefined) => Buffer.from(value ?? []).toString('base64url')

function jwkOf(publicKey: Uint8Array<ArrayBuffer>): JsonWebKey | null {
  const key = decodeCredentialPublicKey(publicKey)
  const alg = key.get(cose.COSEKEYS.alg)
  if (cose.isCOSEPublicKeyOKP(key) && alg === cose.COSEALG.EdDSA) {
    if (key.get(cose.COSEKEYS.crv) !== cose.COSECRV.ED25519) return null
    return { kty: 'OKP', crv: 'Ed25519', x: text(key.get(cose.COSEKEYS.x)) }
  }
  if (cose.isCOSEPublicKeyEC2(key) && alg === cose.COSEALG.ES256) {
    if (key.get(cose.COSEKEYS.crv) !== cose.COSECRV.P256) return null
    return { kty: 'EC', crv: 'P-256', x: text(key.get(cose.COSEKEYS.x)), y: text(key.get(cose.COSEKEYS.y)) }
  }
  if (cose.isCOSEPublicKeyRSA(key) && alg === cose.COSEALG.RS256) {
    const exponent = key.get(cose.COSEKEYS.e)
    if (exponent === undefined || exponent.length > EXPONENT_BYTES_MAX) return null
    return { kty: 'RSA', n: text(key.get(cose.COSEKEYS.n)), e: text(exponent) }
  }
  return null
}

/**
 * Whether a credential's COSE key (RFC 9052) can sign in later: an offered algorithm with its curve, a point on that curve,
 * an RSA modulus within bounds. The library checks this only when it verifies a signature.
 */
export function isUsableKey(publicKey: Uint8Array<ArrayBuffer>): boolean {
  const jwk = jwkOf(publicKey)
  if (jwk === null) return false
  const { asymmetricKeyDetails } = createPublicKey({ key: jwk, format: 'jwk' })
  const bits = asymmetricKeyDetails?.modulusLength
  return bits === undefined || (bits >= MODULUS_BITS_MIN && bits <= MODULUS_BITS_MAX)
}
