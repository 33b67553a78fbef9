import { compactVerify, decodeProtectedHeader, errors } from 'jose'
import { type Config, publicUrl } from '../../config.ts'
import { type ErrorDetail, fail, type HttpError } from '../../http/errors.ts'
import { sha256 } from '../crypto.ts'
import { readPublicJwk, thumbprintOf } from './public-jwk.ts'

/** How old a proof may be. */
const AGE_MS_MAX = 60_000
/** How far the clock of a caller may be ahead. */
const AHEAD_MS_MAX = 5_000
const PROOF_CHARS_MAX = 4_096
const JTI_CHARS_MAX = 200
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** By type of key. `EdDSA` is the older name of `Ed25519` (RFC 9864). */
const ALGORITHMS = { OKP: ['Ed25519', 'EdDSA'], EC: ['ES256'] }
const ALL_ALGORITHMS = Object.values(ALGORITHMS).flat().join(' ')

/** base64url of SHA-256 of no bytes. */
const NO_BODY_HASH = sha256('').toString('base64url')

/** What a proof must say: the request that it came with. */
export interface ProvenRequest {
  method: string
  /** As received, without the query. */
  path: string
  /** base64url of SHA-256 of the body as received; null without a body. */
  bodyHash: string | null
  /** The header, as Node reads it: several are joined with commas. */
  proof: string | string[] | undefined
  /** What callers may take for the service's address: see `addressesOf`. */
  isOurs(address: string): boolean
}

/** A proof that is valid for its request. Whether it was used before, and is by the right key, is yet to be decided. */
export interface Proof {
  /** Thumbprint of the key that made it (RFC 7638). */
  jkt: string
  /** SHA-256 of its `jti`. */
  jtiHash: Buffer
  /** From then on its `iat` is refused. */
  expiresAt: Date
}

type Reason =
  | 'missing'
  | 'scheme'
  | 'malformed'
  | 'typ'
  | 'alg'
  | 'jwk'
  | 'signature'
  | 'htm'
  | 'htu'
  | 'iat'
  | 'jti'
  | 'ath'
  | 'body_hash'
  | 'key'
  | 'replayed'

const WORDS: Record<Reason, string> = {
  missing: 'The `DPoP` header is missing. Send a proof (RFC 9449) with every request.',
  scheme: 'A `DPoP` header needs `Authorization: DPoP <token>`. Without a proof, send `Authorization: Bearer <token>`.',
  malformed: `The \`DPoP\` header must hold one signed JWT in compact form, of at most ${PROOF_CHARS_MAX} characters and without \`crit\`.`,
  typ: 'Its `typ` must be `dpop+jwt`.',
  alg: `Its \`alg\` must be that of its key: ${ALL_ALGORITHMS}.`,
  jwk: 'Its `jwk` must be a public Ed25519 or P-256 key, without private members.',
  signature: 'Its signature is not valid for its `jwk`.',
  htm: 'Its `htm` must be the method of the request.',
  htu: 'Its `htu` must be the public address of the service (HALFKEY_PUBLIC_URL) with the path of the request, spelled as in the request, without query and fragment.',
  iat: `Its \`iat\` must be at most ${AGE_MS_MAX / 1000} seconds ago and at most ${AHEAD_MS_MAX / 1000} seconds ahead. Check the clock.`,
  jti: `Its \`jti\` must be a text of 1 to ${JTI_CHARS_MAX} characters.`,
  ath: 'Its `ath` must be the base64url SHA-256 of the token.',
  body_hash: 'Its `bodyHash` must be the base64url SHA-256 of the exact bytes of the body.',
  key: 'The session is bound to another key.',
  replayed: 'This proof was used before. Make a new one for every request, also to repeat one.',
}

const challenge = (error: string) => ({ 'www-authenticate': `DPoP error="${error}", algs="${ALL_ALGORITHMS}"` })

/** The refusal of a proof, with its reason for the developer (RFC 9449, section 7.1). */
export function proofInvalid(reason: Reason): HttpError {
  const detail: ErrorDetail = { field: 'dpop', code: `proof_${reason}`, message: WORDS[reason] }
  return fail('dpop_proof_invalid', [detail], challenge('invalid_dpop_proof'))
}

/** The refusal of a token that is bound to a key, without a proof by that key. */
export const proofRequired = (): HttpError => fail('dpop_proof_required', [], challenge('invalid_token'))

/** The refusal of a proof for a token that is bound to no key. */
export const tokenNotBound = (): HttpError =>
  fail('session_invalid', [], challenge('invalid_token')).about(
    'authorization',
    'This session is not bound to a key. Send its token as `Authorization: Bearer`, without a `DPoP` header.',
  )

const LOOPBACK = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/

/**
 * An address with its scheme and host as RFC 3986, section 6.2, normalises them: lower case, no default port. A path stays as it is
 * spelled. Null for more than scheme, host and path.
 */
function normalised(address: string): string | null {
  const [, host = '', path = ''] = /^(https?:\/\/[\w.:[\]-]+)((?:\/[^?#\\\s]+)?)$/i.exec(address) ?? []
  const url = URL.parse(host)
  return url === null || path.endsWith('/') ? null : url.origin + path
}

/**
 * What callers may take for the service's address: HALFKEY_PUBLIC_URL, the verified custom domains of the key's app, and in
 * development any on loopback. Never what the `Host` header says: a relay writes it.
 */
export function addressesOf(config: Config, domainOrigins: readonly string[] = []): (address: string) => boolean {
  const known = [publicUrl(config), ...domainOrigins].map((address) => {
    const { origin, pathname } = new URL(address)
    return origin + pathname.replace(/\/+$/, '')
  })
  return (address) => known.includes(address) || (config.env === 'development' && LOOPBACK.test(address))
}

/** Whether a `htu` names this request. Its path is compared byte for byte: two spellings are two addresses. */
function isAddressOf(htu: unknown, { path, isOurs }: ProvenRequest): boolean {
  if (typeof htu !== 'string' || !htu.endsWith(path)) return false
  const address = normalised(htu.slice(0, htu.length - path.length))
  return address !== null && isOurs(address)
}

function readCompact(header: ProvenRequest['proof']): string {
  if (header === undefined) throw proofInvalid('missing')
  if (typeof header !== 'string' || header.length > PROOF_CHARS_MAX || !COMPACT.test(header))
    throw proofInvalid('malformed')
  return header
}

/** The claims of a proof whose signature is valid for the key in its header. @throws dpop_proof_invalid */
async function readClaims(proof: string): Promise<{ claims: Record<string, unknown>; jkt: string }> {
  let header: ReturnType<typeof decodeProtectedHeader>
  try {
    header = decodeProtectedHeader(proof)
  } catch {
    throw proofInvalid('malformed')
  }
  if (header.typ !== 'dpop+jwt') throw proofInvalid('typ')
  if ('crit' in header || 'b64' in header) throw proofInvalid('malformed')
  const read = readPublicJwk(header.jwk)
  if (read === null) throw proofInvalid('jwk')
  const algorithms = ALGORITHMS[read.jwk.kty]
  if (typeof header.alg !== 'string' || !algorithms.includes(header.alg)) throw proofInvalid('alg')
  try {
    const { payload } = await compactVerify(proof, read.key, { algorithms })
    const claims: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload))
    if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) throw proofInvalid('malformed')
    return { claims: claims as Record<string, unknown>, jkt: thumbprintOf(read.jwk) }
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) throw proofInvalid('signature')
    if (error instanceof errors.JOSEError || error instanceof SyntaxError || error instanceof TypeError)
      throw proofInvalid('malformed')
    throw error
  }
}

/**
 * Verifies a proof of possession (RFC 9449, section 4.3) and that it is for this request and token. `bodyHash` is a claim of
 * Halfkey: without it, whoever is in between could send another body. @throws dpop_proof_invalid, which names what is wrong
 */
export async function verifyProof(request: ProvenRequest, token: string, now: Date): Promise<Proof> {
  const { claims, jkt } = await readClaims(readCompact(request.proof))
  const { htm, htu, iat, jti, ath, bodyHash } = claims
  if (htm !== request.method) throw proofInvalid('htm')
  if (!isAddressOf(htu, request)) throw proofInvalid('htu')
  if (typeof iat !== 'number') throw proofInvalid('iat')
  const ageMs = now.getTime() - iat * 1000
  if (!(ageMs <= AGE_MS_MAX && ageMs >= -AHEAD_MS_MAX)) throw proofInvalid('iat')
  if (typeof jti !== 'string' || jti === '' || jti.length > JTI_CHARS_MAX) throw proofInvalid('jti')
  if (ath !== sha256(token).toString('base64url')) throw proofInvalid('ath')
  if ((bodyHash ?? NO_BODY_HASH) !== (request.bodyHash ?? NO_BODY_HASH)) throw proofInvalid('body_hash')
  return { jkt, jtiHash: sha256(jti), expiresAt: new Date(iat * 1000 + AGE_MS_MAX) }
}
