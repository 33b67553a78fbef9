import { createHash, generateKeyPairSync, type JsonWebKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'
import { type Credential, ORIGIN } from '../../../test/harness/authenticator.ts'

/** Authenticator data flags (WebAuthn L3, section 6.1). */
export const UP = 1
export const UV = 4
export const BE = 8
export const BS = 16
const AT = 64

type Cbor = Parameters<typeof isoCBOR.encode>[0]
type Member = number | string | Uint8Array | Map<number | string, Member> | Member[]

/** CBOR of integers, texts, bytes, maps and lists. */
export const cbor = (value: Member): Buffer => Buffer.from(isoCBOR.encode(value as Cbor))

/** A credential in the hands of an attacker, who can make it say anything. */
export interface Forger {
  id: Buffer
  cose: Map<number, Member>
  privateKey: KeyObject
  signCount: number
}

const part = (jwk: JsonWebKey, name: 'x' | 'y' | 'n' | 'e') =>
  new Uint8Array(Buffer.from(jwk[name] as string, 'base64url'))

/** A new credential of an algorithm. */
export function newForger(algorithm: 'ES256' | 'EdDSA' | 'RS256' = 'ES256', idBytes = 32): Forger {
  const parts = { id: randomBytes(idBytes), signCount: 0 }
  if (algorithm === 'RS256') {
    const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const jwk = publicKey.export({ format: 'jwk' })
    const cose = new Map<number, Member>([
      [1, 3],
      [3, -257],
      [-1, part(jwk, 'n')],
      [-2, part(jwk, 'e')],
    ])
    return { ...parts, cose, privateKey }
  }
  if (algorithm === 'EdDSA') {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const jwk = publicKey.export({ format: 'jwk' })
    return {
      ...parts,
      cose: new Map<number, Member>([
        [1, 1],
        [3, -8],
        [-1, 6],
        [-2, part(jwk, 'x')],
      ]),
      privateKey,
    }
  }
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = publicKey.export({ format: 'jwk' })
  const cose = new Map<number, Member>([
    [1, 2],
    [3, -7],
    [-1, 1],
    [-2, part(jwk, 'x')],
    [-3, part(jwk, 'y')],
  ])
  return { ...parts, cose, privateKey }
}

/** What of an answer is to be other than right. */
export interface Lies {
  type?: string
  challenge?: string
  origin?: string
  /** Further members of the client data. */
  clientData?: Record<string, unknown>
  rpId?: string
  flags?: number
  signCount?: number
  userHandle?: string | null
  id?: Buffer
  rawId?: Buffer
  /** The credential id within the attestation. */
  attestedId?: Buffer
  cose?: Map<number, Member>
  attestationObject?: Buffer
  fmt?: string
  attStmt?: Map<string, Member>
  authenticatorData?: Buffer
  signature?: Buffer
}

const text = (bytes: Buffer) => bytes.toString('base64url')
const hash = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest()

function clientData(type: string, challenge: string, lies: Lies): Buffer {
  return Buffer.from(
    JSON.stringify({
      type: lies.type ?? type,
      challenge: lies.challenge ?? challenge,
      origin: lies.origin ?? ORIGIN,
      crossOrigin: false,
      ...lies.clientData,
    }),
  )
}

function head(rpId: string, flags: number, signCount: number): Buffer {
  const tail = Buffer.alloc(5)
  tail.writeUInt8(flags, 0)
  tail.writeUInt32BE(signCount, 1)
  return Buffer.concat([hash(rpId), tail])
}

/** Answers creation options. */
// biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
export function forgeCreation(by: Forger, publicKey: any, lies: Lies = {}): Credential {
  const attestedId = lies.attestedId ?? by.id
  const length = Buffer.alloc(2)
  length.writeUInt16BE(attestedId.length)
  const flags = (lies.flags ?? UP | UV) | AT
  const authData = Buffer.concat([
    head(lies.rpId ?? publicKey.rp.id, flags, lies.signCount ?? by.signCount),
    Buffer.alloc(16),
    length,
    attestedId,
    cbor(lies.cose ?? by.cose),
  ])
  const attestation = new Map<string, Member>([
    ['fmt', lies.fmt ?? 'none'],
    ['attStmt', lies.attStmt ?? new Map()],
    ['authData', new Uint8Array(authData)],
  ])
  return {
    id: text(lies.id ?? by.id),
    rawId: text(lies.rawId ?? lies.id ?? by.id),
    type: 'public-key',
    response: {
      clientDataJSON: text(clientData('webauthn.create', publicKey.challenge, lies)),
      attestationObject: text(lies.attestationObject ?? cbor(attestation)),
      transports: ['internal'],
    },
    clientExtensionResults: {},
  }
}

/** Answers request options, in the name of a user. The counter counts by itself only where it has begun to. */
// biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
export function forgeAssertion(by: Forger, publicKey: any, userId: string | null, lies: Lies = {}): Credential {
  if (by.signCount > 0 && lies.signCount === undefined) by.signCount += 1
  const client = clientData('webauthn.get', publicKey.challenge, lies)
  const data =
    lies.authenticatorData ?? head(lies.rpId ?? publicKey.rpId, lies.flags ?? UP | UV, lies.signCount ?? by.signCount)
  const algorithm = by.privateKey.asymmetricKeyType === 'ed25519' ? null : 'sha256'
  const signature = lies.signature ?? sign(algorithm, Buffer.concat([data, hash(client)]), by.privateKey)
  const userHandle = lies.userHandle === undefined ? userId && text(Buffer.from(userId)) : lies.userHandle
  return {
    id: text(lies.id ?? by.id),
    rawId: text(lies.rawId ?? lies.id ?? by.id),
    type: 'public-key',
    response: {
      clientDataJSON: text(client),
      authenticatorData: text(data),
      signature: text(signature),
      ...(userHandle === null ? {} : { userHandle }),
    },
    clientExtensionResults: {},
  }
}
