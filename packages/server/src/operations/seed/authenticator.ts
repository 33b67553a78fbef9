import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

/** Flags of the authenticator data (WebAuthn L3, section 6.1): user present, user verified, attested credential data. */
const UP = 0x01
const UV = 0x04
const AT = 0x40

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()
const base64url = (data: Buffer | string) => Buffer.from(data).toString('base64url')

/** A CBOR byte string (RFC 8949, section 3.1). */
const bytesOf = (data: Buffer) => Buffer.concat([Buffer.from([0x58, data.length]), data])
const textOf = (text: string) => Buffer.concat([Buffer.from([0x60 + text.length]), Buffer.from(text)])

/** An ES256 key as COSE has it (RFC 9053, section 7.1.1). */
function coseKey(key: KeyObject): Buffer {
  const { x = '', y = '' } = key.export({ format: 'jwk' })
  const coordinate = (label: number, value: string) =>
    Buffer.concat([Buffer.from([label]), bytesOf(Buffer.from(value, 'base64url'))])
  return Buffer.concat([
    Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01]),
    coordinate(0x21, x),
    coordinate(0x22, y),
  ])
}

/** `none` attestation (WebAuthn L3, section 8.7). */
function attestationObject(authData: Buffer): Buffer {
  const [head, length] = [Buffer.from([0xa3]), Buffer.alloc(2)]
  length.writeUInt16BE(authData.length)
  return Buffer.concat([
    head,
    textOf('fmt'),
    textOf('none'),
    textOf('attStmt'),
    Buffer.from([0xa0]),
    textOf('authData'),
    Buffer.from([0x59]),
    length,
    authData,
  ])
}

/** A passkey in software, for people who exist nowhere: its key lives as long as the object. */
export interface SamplePasskey {
  /** Answers registration options. */
  create(publicKey: { challenge: string; rp: { id: string }; user: { id: string } }): object
  /** Answers login options. Only after `create`. */
  get(publicKey: { challenge: string; rpId: string }): object
}

/** @param origin where the page would be; its host is the relying party's, or below it */
export function createSamplePasskey(origin: string): SamplePasskey {
  const { publicKey: key, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const id = randomBytes(32)
  let userHandle = ''
  let counter = 0
  const clientData = (type: string, challenge: string) =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  const authData = (rpId: string, flags: number, more = Buffer.alloc(0)) => {
    const count = Buffer.alloc(4)
    counter += 1
    count.writeUInt32BE(counter)
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), count, more])
  }
  const credential = (response: object) => ({
    id: base64url(id),
    rawId: base64url(id),
    type: 'public-key',
    authenticatorAttachment: 'platform',
    clientExtensionResults: {},
    response,
  })
  return {
    create({ challenge, rp, user }) {
      userHandle = user.id
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, id.length]), id, coseKey(key)])
      const data = authData(rp.id, UP | UV | AT, attested)
      return credential({
        clientDataJSON: base64url(clientData('webauthn.create', challenge)),
        attestationObject: base64url(attestationObject(data)),
        transports: ['internal'],
      })
    },
    get({ challenge, rpId }) {
      const client = clientData('webauthn.get', challenge)
      const data = authData(rpId, UP | UV)
      const signature = sign('sha256', Buffer.concat([data, sha256(client)]), privateKey)
      return credential({
        clientDataJSON: base64url(client),
        authenticatorData: base64url(data),
        signature: base64url(signature),
        userHandle,
      })
    },
  }
}
