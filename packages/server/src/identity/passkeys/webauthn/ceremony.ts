import {
  type AuthenticationResponseJSON,
  type RegistrationResponseJSON,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server'
import { decodeAttestationObject, generateChallenge, isoBase64URL, isoCBOR } from '@simplewebauthn/server/helpers'
import type { Call } from '../../../platform/http/route.ts'
import type { Logger } from '../../../platform/observability/log.ts'
import type { LoginVerify, Passkey, RegisterVerify } from '../schema.ts'
import { ALGORITHMS, isUsableKey } from './cose-key.ts'

/** What an answer is verified against. The challenge stores it. */
export interface Ceremony {
  /** base64url */
  challenge: string
  rpId: string
  /** The origin that requested the options. Null if unknown: the request came from a server, or was a GET of the same origin. */
  origin: string | null
  userVerification: 'required' | 'preferred' | 'discouraged'
}

/** A ceremony with a new challenge. Browsers must answer from the origin that requested it. */
export async function newCeremony(
  { caller, origin }: Call,
  of: Pick<Ceremony, 'rpId' | 'userVerification'>,
): Promise<Ceremony> {
  return {
    challenge: isoBase64URL.fromBuffer(await generateChallenge()),
    rpId: of.rpId,
    origin: caller.keyType === 'publishable' ? origin.webOrigin : null,
    userVerification: of.userVerification,
  }
}

/** What verification needs in addition to the answer. */
export interface Expected {
  ceremony: Ceremony
  /** Whether browsers may now use the app from this origin. */
  isAllowedOrigin(origin: string): boolean
  log: Logger
}

/** A verified credential, not stored yet. */
export interface NewCredential {
  credentialId: Buffer
  /** COSE key (RFC 9052). */
  publicKey: Buffer
  signCount: number
  aaguid: string
  deviceType: Passkey['deviceType']
  backedUp: boolean
  userVerified: boolean
}

/** The data of a verified assertion. */
export interface Assertion {
  signCount: number
  backedUp: boolean
  userVerified: boolean
}

/** The credential that verifies an assertion. */
export interface StoredCredential {
  publicKey: Buffer
  signCount: number
  deviceType: Passkey['deviceType']
}

/** The origin in the client data. @throws Error if it is not an allowed one */
function originOf(clientDataJSON: string, { ceremony, isAllowedOrigin }: Expected): string {
  const { origin, crossOrigin, topOrigin } = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString()) as Record<
    string,
    unknown
  >
  if (typeof origin !== 'string' || !isAllowedOrigin(origin)) throw new Error('origin not allowed')
  if (ceremony.origin !== null && origin !== ceremony.origin) throw new Error('not the origin of the challenge')
  // In a frame of another site, users cannot see to which site they sign in (WebAuthn L3, section 13.4.2).
  if ((crossOrigin !== undefined && crossOrigin !== false) || topOrigin !== undefined)
    throw new Error('cross-origin frame')
  return origin
}

/** IANA's attestation statement formats, except `none`. */
const STATEMENT_FORMATS = new Set([
  'packed',
  'tpm',
  'android-key',
  'android-safetynet',
  'fido-u2f',
  'apple',
  'compound',
])

/**
 * The attestation object without a statement about the authenticator's maker. We request no statement and use none, so an
 * unrequested one (above all, its certificates) is not parsed. Self attestation stays: it proves the credential's key.
 */
function withoutStatement(attestationObject: string): string {
  const decoded = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject))
  const format = decoded.get('fmt') as string
  const isSelf = format === 'packed' && decoded.get('attStmt').get('x5c') === undefined
  if (isSelf || !STATEMENT_FORMATS.has(format)) return attestationObject
  const bare = new Map<string, unknown>([
    ['fmt', 'none'],
    ['attStmt', new Map()],
    ['authData', decoded.get('authData')],
  ])
  return isoBase64URL.fromBuffer(new Uint8Array(isoCBOR.encode(bare as never)))
}

/** Null for an invalid answer, also one that cannot be decoded. The debug log has the reason. */
async function orNull<T>(log: Logger, ceremony: string, verify: () => Promise<T>): Promise<T | null> {
  try {
    return await verify()
  } catch (error) {
    log.debug({ reason: (error as Error).message.slice(0, 200) }, `passkey ${ceremony} refused`)
    return null
  }
}

/** Verifies the answer to a registration challenge (WebAuthn L3, section 7.1). Null if it is not valid. */
export function verifyAttestation(
  credential: RegisterVerify['credential'],
  expected: Expected,
): Promise<NewCredential | null> {
  return orNull(expected.log, 'registration', async () => {
    const { ceremony } = expected
    const { clientDataJSON, attestationObject } = credential.response
    const response: RegistrationResponseJSON = {
      id: credential.id,
      rawId: credential.rawId,
      type: credential.type,
      response: { clientDataJSON, attestationObject: withoutStatement(attestationObject) },
      clientExtensionResults: {},
    }
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: ceremony.challenge,
      expectedOrigin: originOf(clientDataJSON, expected),
      expectedRPID: ceremony.rpId,
      requireUserVerification: ceremony.userVerification === 'required',
      supportedAlgorithmIDs: ALGORITHMS,
    })
    if (!verified || registrationInfo === undefined) throw new Error('attestation not verified')
    const { credential: made } = registrationInfo
    // The library uses the id inside the attestation and does not compare it with the one outside.
    if (made.id !== credential.id) throw new Error('credential id differs from the attested one')
    if (!isUsableKey(made.publicKey)) throw new Error('public key not usable')
    return {
      credentialId: Buffer.from(made.id, 'base64url'),
      publicKey: Buffer.from(made.publicKey),
      signCount: made.counter,
      aaguid: registrationInfo.aaguid,
      deviceType: registrationInfo.credentialDeviceType,
      backedUp: registrationInfo.credentialBackedUp,
      userVerified: registrationInfo.userVerified,
    }
  })
}

/**
 * Verifies the answer to a login challenge (WebAuthn L3, section 7.2) with a stored credential. Null if it is not valid.
 * The caller checks the credential's owner, and that its counter has not changed since it was read.
 */
export function verifyAssertion(
  credential: LoginVerify['credential'],
  expected: Expected,
  stored: StoredCredential,
): Promise<Assertion | null> {
  return orNull(expected.log, 'login', async () => {
    const { ceremony } = expected
    const { clientDataJSON, authenticatorData, signature } = credential.response
    const response: AuthenticationResponseJSON = {
      id: credential.id,
      rawId: credential.rawId,
      type: credential.type,
      response: { clientDataJSON, authenticatorData, signature },
      clientExtensionResults: {},
    }
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: ceremony.challenge,
      expectedOrigin: originOf(clientDataJSON, expected),
      expectedRPID: ceremony.rpId,
      requireUserVerification: ceremony.userVerification === 'required',
      credential: { id: credential.id, publicKey: new Uint8Array(stored.publicKey), counter: stored.signCount },
    })
    if (!verified) throw new Error('signature not verified')
    // WebAuthn L3, section 7.2, step 19: backup eligibility is fixed when a credential is created.
    if (authenticationInfo.credentialDeviceType !== stored.deviceType) throw new Error('backup eligibility changed')
    return {
      signCount: authenticationInfo.newCounter,
      backedUp: authenticationInfo.credentialBackedUp,
      userVerified: authenticationInfo.userVerified,
    }
  })
}
