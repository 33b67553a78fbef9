import { toBase64url } from '../browser/base64url.ts'
import { newUuid } from '../http.ts'

/** A public key as `boundKey` of a new delegated session takes it. */
export type DelegatePublicKey =
  | { kty: 'OKP'; crv: 'Ed25519'; x: string }
  | { kty: 'EC'; crv: 'P-256'; x: string; y: string }

type CryptoKey = Parameters<typeof crypto.subtle.sign>[1]

/** A `CryptoKeyPair` of WebCrypto. */
export interface DelegateKeyPair {
  publicKey: CryptoKey
  privateKey: CryptoKey
}

/** A request that a proof is for. */
export interface ProvenCall {
  method: string
  /** Absolute. Its query and fragment are not part of a proof. */
  url: string
  /** The session's token. */
  token: string
  /** The exact body that is sent. */
  body?: string | undefined
}

/** A delegate's key. Sessions that are bound to it are of no use to whoever has the token alone. */
export interface DelegateKey {
  /** Give it as `boundKey` to whoever creates the session. */
  readonly publicKey: DelegatePublicKey
  /** To keep it: browsers can store key pairs in IndexedDB, without seeing the private key. */
  readonly keyPair: DelegateKeyPair
  /** A proof for one request (RFC 9449, section 4.2, with `bodyHash`): the value of its `DPoP` header. */
  prove(call: ProvenCall): Promise<string>
}

const ALGORITHMS = {
  ES256: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  Ed25519: { name: 'Ed25519' },
} as const

const utf8 = (text: string) => new TextEncoder().encode(text)
const encoded = (value: object) => toBase64url(utf8(JSON.stringify(value)))
const hashOf = async (text: string) => toBase64url(new Uint8Array(await crypto.subtle.digest('SHA-256', utf8(text))))

/** The key of a stored key pair: P-256 (ECDSA) or Ed25519, for signing. @throws TypeError for any other */
export async function delegateKeyOf(keyPair: DelegateKeyPair): Promise<DelegateKey> {
  const { kty, crv, x = '', y = '' } = await crypto.subtle.exportKey('jwk', keyPair.publicKey)
  const alg = crv === 'P-256' ? 'ES256' : 'Ed25519'
  if (crv !== 'P-256' && crv !== 'Ed25519') throw new TypeError('keyPair must be a P-256 or Ed25519 key')
  const publicKey = (crv === 'P-256' ? { kty, crv, x, y } : { kty, crv, x }) as DelegatePublicKey
  const header = encoded({ typ: 'dpop+jwt', alg, jwk: publicKey })
  return {
    publicKey,
    keyPair,
    async prove({ method, url, token, body }) {
      const { origin, pathname } = new URL(url)
      const bodyHash = body === undefined ? {} : { bodyHash: await hashOf(body) }
      const iat = Math.floor(Date.now() / 1000)
      const claims = { jti: newUuid(), htm: method, htu: origin + pathname, iat, ath: await hashOf(token), ...bodyHash }
      const signed = `${header}.${encoded(claims)}`
      const signature = await crypto.subtle.sign(ALGORITHMS[alg], keyPair.privateKey, utf8(signed))
      return `${signed}.${toBase64url(new Uint8Array(signature))}`
    },
  }
}

/**
 * A new key, whose private half cannot be exported. It lasts as long as the process or page, unless you keep its `keyPair`.
 * Needs WebCrypto, which pages have over https and on localhost only.
 */
export async function createDelegateKey(algorithm: 'ES256' | 'Ed25519' = 'ES256'): Promise<DelegateKey> {
  const pair = await crypto.subtle.generateKey(ALGORITHMS[algorithm], false, ['sign', 'verify'])
  return delegateKeyOf(pair as DelegateKeyPair)
}
