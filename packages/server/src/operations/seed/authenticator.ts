import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'

/** Flags of the authenticator data (WebAuthn L3, section 6.1): user present, user verified, attested credential data. */
const UP = 0x01
const UV = 0x04
const AT = 0x40

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()
const cbor = (members: [string | number, unknown][]) =>
  isoCBOR.encode(new Map(members) as Parameters<typeof isoCBOR.encode>[0])

/** A passkey in software, for people who exist nowhere: its key lives as long as the object. */
export interface SamplePasskey {
  /** Answers registration options, without attestation. */
  create(publicKey: { challenge: string; rp: { id: string }; user: { id: string } }): object
  /** Answers login options. Only after `create`. */
  get(publicKey: { challenge: string; rpId: string }): object
}

/** @param origin of the page; its host is the relying party's, or below it */
export function createSamplePasskey(origin: string): SamplePasskey {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const id = randomBytes(32)
  let userHandle = ''
  let counter = 0
  const clientData = (type: string, challenge: string) =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  const authData = (rpId: string, flags: number, more = Buffer.alloc(0)) => {
    const head = Buffer.alloc(5)
    counter += 1
    head.writeUInt8(flags)
    head.writeUInt32BE(counter, 1)
    return Buffer.concat([sha256(rpId), head, more])
  }
  const credential = (client: Buffer, response: Record<string, Uint8Array>, more: object) => {
    const encoded = Object.entries({ clientDataJSON: client, ...response }).map(
      ([name, bytes]) => [name, Buffer.from(bytes).toString('base64url')] as const,
    )
    return {
      id: id.toString('base64url'),
      rawId: id.toString('base64url'),
      type: 'public-key',
      authenticatorAttachment: 'platform',
      clientExtensionResults: {},
      response: { ...Object.fromEntries(encoded), ...more },
    }
  }
  return {
    create({ challenge, rp, user }) {
      userHandle = user.id
      const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
      // An ES256 key in COSE (RFC 9053, section 7.1.1): EC2, ES256, P-256.
      const cose = cbor([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, new Uint8Array(Buffer.from(x, 'base64url'))],
        [-3, new Uint8Array(Buffer.from(y, 'base64url'))],
      ])
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, id.length]), id, cose])
      const attestationObject = cbor([
        ['fmt', 'none'],
        ['attStmt', new Map()],
        ['authData', new Uint8Array(authData(rp.id, UP | UV | AT, attested))],
      ])
      const client = clientData('webauthn.create', challenge)
      return credential(client, { attestationObject }, { transports: ['internal'] })
    },
    get({ challenge, rpId }) {
      const client = clientData('webauthn.get', challenge)
      const authenticatorData = authData(rpId, UP | UV)
      const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(client)]), privateKey)
      return credential(client, { authenticatorData, signature }, { userHandle })
    },
  }
}
