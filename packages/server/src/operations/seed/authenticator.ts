import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isoCBOR } from '@simplewebauthn/server/helpers'
import type { Body, LoginChallenge, RegistrationChallenge } from '../../../../sdk/src/index.ts'

/** Flags of the authenticator data (WebAuthn L3, section 6.1): user present, user verified, attested credential data. */
const UP = 0x01
const UV = 0x04
const AT = 0x40

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()
const base64url = (data: Uint8Array) => Buffer.from(data).toString('base64url')
const cbor = (members: [string | number, unknown][]) =>
  isoCBOR.encode(new Map(members) as Parameters<typeof isoCBOR.encode>[0])

/** A software passkey for sample users. Its key lives as long as the object. */
export interface SamplePasskey {
  /** Responds to registration options, without attestation. */
  create(options: RegistrationChallenge['publicKey']): Body<'/auth/passkey/register-verify', 'post'>['credential']
  /** Responds to login options. Call `create` first. */
  get(options: LoginChallenge['publicKey']): Body<'/auth/passkey/login-verify', 'post'>['credential']
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
  const credential = <Response>(response: Response) => ({
    id: base64url(id),
    rawId: base64url(id),
    type: 'public-key' as const,
    authenticatorAttachment: 'platform',
    clientExtensionResults: {},
    response,
  })
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
      const clientDataJSON = base64url(clientData('webauthn.create', challenge))
      return credential({
        clientDataJSON,
        attestationObject: base64url(attestationObject),
        transports: ['internal'],
      })
    },
    get({ challenge, rpId }) {
      const client = clientData('webauthn.get', challenge)
      const data = authData(rpId, UP | UV)
      const signature = base64url(sign('sha256', Buffer.concat([data, sha256(client)]), privateKey))
      return credential({
        clientDataJSON: base64url(client),
        authenticatorData: base64url(data),
        signature,
        userHandle,
      })
    },
  }
}
