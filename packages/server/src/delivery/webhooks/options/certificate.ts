import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { type HttpError, invalid } from '../../../platform/http/errors.ts'
import type { ClientCertificate } from '../../engine/options/options.ts'

const KEY_TYPES: readonly unknown[] = ['ec', 'ed25519', 'rsa', 'rsa-pss']
/** Each handshake signs with it, and other deliveries wait meanwhile. */
const RSA_BITS_MAX = 4_096

function parsed<T>(parse: () => T, refusal: () => HttpError): T {
  try {
    return parse()
  } catch {
    throw refusal()
  }
}

function isSupported({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  return KEY_TYPES.includes(asymmetricKeyType) && (asymmetricKeyDetails?.modulusLength ?? 0) <= RSA_BITS_MAX
}

/** A client certificate that can be used: of one pair with its key, not expired. @throws validation_failed, naming the field */
export function readCertificate(
  { certificate, privateKey }: { certificate: string; privateKey: string },
  now: Date,
): ClientCertificate {
  const refuse = (field: string, message: string, code?: string) => invalid(`clientCertificate.${field}`, message, code)
  const x509 = parsed(
    () => new X509Certificate(certificate),
    () => refuse('certificate', 'Must be a certificate as PEM text, with its chain below it, if it has one.'),
  )
  const key = parsed(
    () => createPrivateKey(privateKey),
    () => refuse('privateKey', 'Must be a private key as PEM text, without a password.'),
  )
  if (!isSupported(key))
    throw refuse('privateKey', `Must be an EC, Ed25519 or RSA key. RSA keys may have at most ${RSA_BITS_MAX} bits.`)
  if (!x509.checkPrivateKey(key))
    throw refuse('privateKey', 'Does not belong to the first certificate in `certificate`.', 'key_mismatch')
  if (x509.validToDate <= now)
    throw refuse('certificate', `Expired on ${x509.validToDate.toISOString()}.`, 'certificate_expired')
  parsed(
    () => createSecureContext({ cert: certificate, key: privateKey }),
    () => refuse('certificate', 'TLS cannot use this certificate or its chain. Check every certificate in it.'),
  )
  return {
    certificate,
    privateKey,
    subject: x509.subject.replaceAll('\n', ', '),
    fingerprint: x509.fingerprint256,
    expiresAt: x509.validToDate.toISOString(),
  }
}
