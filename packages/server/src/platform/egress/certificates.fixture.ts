// X.509 certificates for tests, made on the spot: fixtures on disk expire. DER as in X.690, the profile of RFC 5280.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** A certificate and its key, PEM, as `tls.createServer` takes them. */
export interface TestCertificate {
  cert: string
  key: string
}

/** An authority of its own, and certificates that it signed. */
export interface TestAuthority {
  /** its certificate, PEM */
  ca: string
  /** `names`: DNS names and IPv4 addresses. `expiresInMs` may be negative. */
  issue(names: string[], expiresInMs?: number): TestCertificate
  /** An authority that this one signed. */
  below(commonName: string): TestAuthority
}

const DAY_MS = 86_400_000
const ECDSA_WITH_SHA256 = der(0x30, der(0x06, Buffer.from('2a8648ce3d040302', 'hex')))

/** Makes an authority with ECDSA P-256 keys. Without `parent` it is a root. */
export function makeAuthority(commonName: string, parent?: { commonName: string; key: KeyObject }): TestAuthority {
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const isCa = extension('551d13', der(0x30, der(0x01, Buffer.from([0xff]))))
  const signer = parent ?? { commonName, key: own.privateKey }
  return {
    ca: certificate(commonName, signer.commonName, own.publicKey, signer.key, DAY_MS, isCa),
    issue(names, expiresInMs = DAY_MS) {
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
      const alternatives = extension('551d11', der(0x30, ...names.map(generalName)))
      return {
        cert: certificate(names[0] ?? '', commonName, pair.publicKey, own.privateKey, expiresInMs, alternatives),
        key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      }
    },
    below: (name) => makeAuthority(name, { commonName, key: own.privateKey }),
  }
}

/** A certificate that nobody but its own key vouches for. */
export function makeSelfSigned(name: string): TestCertificate {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const alternatives = extension('551d11', der(0x30, generalName(name)))
  return {
    cert: certificate(name, name, pair.publicKey, pair.privateKey, DAY_MS, alternatives),
    key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function certificate(
  subject: string,
  issuer: string,
  publicKey: KeyObject,
  signer: KeyObject,
  expiresInMs: number,
  extensionDer: Buffer,
): string {
  const now = Date.now()
  const body = der(
    0x30,
    der(0xa0, integer(Buffer.from([2]))),
    integer(randomBytes(8)),
    ECDSA_WITH_SHA256,
    distinguishedName(issuer),
    der(0x30, time(now - 2 * DAY_MS), time(now + expiresInMs)),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(0x30, extensionDer)),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, signer))
  const base64 = der(0x30, body, ECDSA_WITH_SHA256, signature).toString('base64')
  return `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{64}/g, '$&\n').trimEnd()}\n-----END CERTIFICATE-----\n`
}

function der(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const lengthBytes = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...lengthBytes]), content])
}

function integer(bytes: Buffer): Buffer {
  // A leading zero keeps the number positive and its encoding minimal.
  return der(0x02, bytes.length === 1 ? bytes : Buffer.concat([Buffer.from([0x01]), bytes]))
}

function time(atMs: number): Buffer {
  return der(0x17, Buffer.from(`${new Date(atMs).toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))
}

function distinguishedName(commonName: string): Buffer {
  const attribute = der(0x30, der(0x06, Buffer.from('550403', 'hex')), der(0x0c, Buffer.from(commonName)))
  return der(0x30, der(0x31, attribute))
}

function extension(oidHex: string, value: Buffer): Buffer {
  return der(0x30, der(0x06, Buffer.from(oidHex, 'hex')), der(0x04, value))
}

function generalName(name: string): Buffer {
  return isIP(name) === 4 ? der(0x87, Buffer.from(name.split('.').map(Number))) : der(0x82, Buffer.from(name))
}
