import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes } from '@noble/hashes/utils.js'
import { fromHex, toBase64Url, utf8 } from '../bytes.ts'
import { canonicalJson } from '../canonical-json.ts'
import { isSignature } from '../group.ts'
import { HPKE_SUITE } from '../hpke.ts'
import type { ServiceConfig } from './api.ts'

/** How this side recognises the service that shares are sent to. */
export interface ServiceTrust {
  /** `hk_pin_…`: what `halfkey keys pin` prints. Part of your app, not read over the network. */
  pin?: string | undefined
  /**
   * Without a pin: accept the first service that answers, and set `pin` to its pin. Whoever relays that first answer can
   * put their own key in its place and learn shares.
   */
  trustOnFirstUse?: boolean | undefined
}

/** A service that is not recognised: nothing was sent to it. */
export class ServicePinError extends Error {
  /** `pin_required`: no pin was given. `service_unverified`: the answer is not from the pinned service, or has expired. */
  readonly code: 'pin_required' | 'service_unverified'

  constructor(code: ServicePinError['code'], message: string) {
    super(message)
    this.name = 'ServicePinError'
    this.code = code
  }
}

const PIN = /^hk_pin_[A-Za-z0-9_-]{43}$/
const TAG = utf8('halfkey/v1/identity-pin\0')

/** The pin of an identity key (raw Ed25519, 32 bytes): a domain-separated SHA-256 of it. */
export function servicePinOf(publicKey: Uint8Array): string {
  return `hk_pin_${toBase64Url(sha256(concatBytes(TAG, publicKey)))}`
}

const unverified = (message: string) => new ServicePinError('service_unverified', message)

/** Whether a key (hex) signed a statement for a purpose. False for text that is not hex. */
function isSigned(signature: string, publicKey: string, purpose: string, statement: object): boolean {
  try {
    const message = utf8(canonicalJson({ ...statement, purpose: `halfkey/v1/${purpose}` }))
    return isSignature(fromHex(signature), message, fromHex(publicKey))
  } catch {
    return false
  }
}

const hasPin = (publicKey: string, pin: string) => {
  try {
    return servicePinOf(fromHex(publicKey)) === pin
  } catch {
    return false
  }
}

/** Whether the pin is that of the identity key, or of the one that this key replaced and that signed it. */
function isPinned({ publicKey, previous }: NonNullable<ServiceConfig['identity']>, pin: string): boolean {
  if (hasPin(publicKey, pin)) return true
  if (!previous || !hasPin(previous.publicKey, pin)) return false
  return isSigned(previous.signature, previous.publicKey, 'identity-rotation', {
    from: previous.publicKey,
    to: publicKey,
  })
}

const isOver = (notAfter: string) => !(Date.parse(notAfter) > Date.now())

/** The pin to check against: the given one, or with `trustOnFirstUse` that of the answer. @throws ServicePinError */
function pinFor(trust: ServiceTrust | undefined, publicKey: string): string {
  const { pin, trustOnFirstUse } = trust ?? {}
  if (pin === undefined && trustOnFirstUse === true) return servicePinOf(fromHex(publicKey))
  if (pin === undefined)
    throw new ServicePinError(
      'pin_required',
      'No pin of the service was given, so a relay could read the shares that are sent. Give `pin`, which `halfkey keys pin` prints, or `trustOnFirstUse: true`.',
    )
  if (!PIN.test(pin))
    throw new ServicePinError('pin_required', 'A pin must be `hk_pin_` and 43 characters of base64url.')
  return pin
}

/**
 * Checks an answer of `GET /mpc/config` against the pin: its identity key, that key's signature over suite, tenant, keys
 * and `notAfter`, and that it has not expired. With `trustOnFirstUse` and no pin yet, `trust.pin` is set to the answer's.
 * @returns the newest key to seal to that has not expired
 * @throws ServicePinError
 */
export function verifyServiceConfig(
  config: ServiceConfig,
  trust: ServiceTrust | undefined,
): { kid: string; publicKey: string; tenantId: string } {
  const { identity, suite, tenantId, keys } = config
  const pin = pinFor(trust, identity?.publicKey ?? '')
  if (!identity) throw unverified('The service is too old: it has no identity key.')
  if (!isPinned(identity, pin))
    throw unverified(
      'The identity key of the service is not the pinned one. Either somebody relays the connection, or the service has a new key: compare with `halfkey keys pin` on its machine.',
    )
  const { publicKey: by, signature, notAfter } = identity
  if (!isSigned(signature, by, 'mpc-config', { suite, tenantId, keys, notAfter }))
    throw unverified('The keys to seal to are not signed by the identity key of the service.')
  const key = keys.find((each) => !isOver(each.notAfter))
  if (isOver(notAfter) || key === undefined)
    throw unverified('The signature of the keys to seal to has expired. Check the clock of this device.')
  if (suite !== HPKE_SUITE) throw unverified(`The service uses another suite than ${HPKE_SUITE}.`)
  if (trust?.trustOnFirstUse === true) trust.pin ??= pin
  return { kid: key.kid, publicKey: key.publicKey, tenantId }
}

/** The service's key to seal to. @throws ServicePinError unless it is the pinned service's */
export async function serviceKey(api: {
  mpc: { readonly trust?: ServiceTrust | undefined; config(): Promise<ServiceConfig> }
}): Promise<{ kid: string; publicKey: string; tenantId: string }> {
  // Before the call: what is refused without a pin is refused whatever the service answers.
  if (api.mpc.trust?.trustOnFirstUse !== true) pinFor(api.mpc.trust, '')
  return verifyServiceConfig(await api.mpc.config(), api.mpc.trust)
}

/** Checks that the service speaks of the tenant that its key was verified for. @throws ServicePinError */
export function requireTenant(tenantId: string, service: { tenantId: string }): void {
  if (tenantId !== service.tenantId) throw unverified('The service answered for another tenant than it signed for.')
}
