import { HalfkeyError } from '../errors.ts'
import type { MpcConfig } from '../models.ts'

/** How the client recognises the service that key shares are sent to. */
export interface ServiceTrust {
  /** As in `ClientOptions`. Set at first use with `trustOnFirstUse`. */
  pin?: string | undefined
  /** As in `ClientOptions`. */
  readonly trustOnFirstUse?: boolean | undefined
}

const refusal = (code: 'pin_required' | 'service_unverified', text: string, cause?: unknown) =>
  new HalfkeyError(text, { status: 0, code, cause })

/** @throws TypeError for an invalid pin */
export function checkedTrust({ pin, trustOnFirstUse }: ServiceTrust): ServiceTrust {
  if (pin !== undefined && !/^hk_pin_[\w-]{43}$/.test(pin))
    throw new TypeError('pin must be hk_pin_ and 43 characters, as `halfkey keys pin` prints it')
  return { pin, trustOnFirstUse }
}

const bytesOf = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))

const utf8 = (text: string) => new TextEncoder().encode(text)

/** RFC 8785 for values without numbers. */
const canonical = (value: unknown) =>
  JSON.stringify(value, (_, each: unknown) =>
    each === null || typeof each !== 'object' || Array.isArray(each)
      ? each
      : Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1))),
  )

/** The pin of an identity key (hex): a domain-separated SHA-256 of it. */
async function pinOf(publicKey: string): Promise<string> {
  const tag = utf8('halfkey/v1/identity-pin\0')
  const hash = await crypto.subtle.digest('SHA-256', Uint8Array.of(...tag, ...bytesOf(publicKey)))
  const text = btoa(String.fromCharCode(...new Uint8Array(hash)))
  return `hk_pin_${text.replaceAll('+', '-').replaceAll('/', '_').replace('=', '')}`
}

/** Whether an Ed25519 key signed a statement for a purpose. */
async function isSigned(by: { publicKey: string; signature: string }, purpose: string, statement: object) {
  const key = await crypto.subtle.importKey('raw', bytesOf(by.publicKey), 'Ed25519', false, ['verify'])
  const message = utf8(canonical({ ...statement, purpose: `halfkey/v1/${purpose}` }))
  return crypto.subtle.verify('Ed25519', key, bytesOf(by.signature), message)
}

async function isPinned({ publicKey, previous }: MpcConfig['identity'], pin: string): Promise<boolean> {
  if ((await pinOf(publicKey)) === pin) return true
  if (previous === null || (await pinOf(previous.publicKey)) !== pin) return false
  return isSigned(previous, 'identity-rotation', { from: previous.publicKey, to: publicKey })
}

const isOver = ({ notAfter }: { notAfter: string }) => !(Date.parse(notAfter) > Date.now())

/** What is wrong with an answer; undefined if it is the pinned service's. @throws errors of WebCrypto */
async function faultOf({ identity, suite, tenantId, keys }: MpcConfig, pin: string): Promise<string | undefined> {
  const { notAfter } = identity
  if (!(await isPinned(identity, pin))) return 'its identity key is not the pinned one; compare `halfkey keys pin`'
  if (!(await isSigned(identity, 'mpc-config', { suite, tenantId, keys, notAfter }))) return 'its keys are not signed'
  return isOver(identity) || keys.every(isOver) ? 'its signature has expired; check the clock here' : undefined
}

/** Refuses without a pin, before any call. @throws HalfkeyError pin_required */
export function requireTrust({ pin, trustOnFirstUse }: ServiceTrust): void {
  if (pin === undefined && trustOnFirstUse !== true)
    throw refusal(
      'pin_required',
      'Without a pin a relay could read key shares. Give `pin`, which `halfkey keys pin` prints, or `trustOnFirstUse: true`.',
    )
}

/**
 * Returns the service's keys if the pinned service signed them, and remembers its pin at first use.
 * @throws HalfkeyError service_unverified
 */
export async function verified(config: MpcConfig, trust: ServiceTrust): Promise<MpcConfig> {
  try {
    const pin = trust.pin ?? (await pinOf(config.identity.publicKey))
    const fault = await faultOf(config, pin)
    if (fault !== undefined) throw new Error(fault)
    trust.pin = pin
    return { ...config, keys: config.keys.filter((key) => !isOver(key)) }
  } catch (cause) {
    // Without HTTPS, or Ed25519 in WebCrypto, nothing can be verified.
    throw refusal('service_unverified', `The service is not verified: ${(cause as Error).message}.`, cause)
  }
}
