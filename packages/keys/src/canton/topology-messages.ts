import type { Bytes } from '../bytes.ts'
import { malformed, unsupported } from './errors.ts'
import { type Fields, type Limits, readMessage } from './wire.ts'

/*
 * Topology transactions, as far as a party's onboarding needs them: `com.digitalasset.canton.protocol.v30` and `…crypto.v30` in the
 * public repository digital-asset/canton, community/base/src/main/protobuf. The numbers are those of the fields and enumerations there.
 */

const LIMITS: Limits = { bytes: 64 << 10, fields: 2_000, depth: 12 }
/** Version of the message inside the wrapper. */
const PROTO_VERSION = 30

type Permission = 'submission' | 'confirmation' | 'observation'

/** A public key with which somebody signs. Only Ed25519 is read. */
export interface SigningKey {
  /** The raw 32 bytes, whichever format they came in. */
  readonly publicKey: Bytes
  readonly usage: readonly number[]
}

interface SigningKeys {
  readonly keys: readonly SigningKey[]
  readonly threshold: number
}

/** Where a party is hosted, and with which keys it signs. */
export interface PartyToParticipant {
  readonly kind: 'partyToParticipant'
  readonly party: string
  /** How many of the confirming participants must confirm. */
  readonly threshold: number
  readonly participants: readonly { readonly uid: string; readonly permission: Permission }[]
  readonly signingKeys: SigningKeys | undefined
}

/** Who may sign in a namespace. */
export interface NamespaceDelegation {
  readonly kind: 'namespaceDelegation'
  readonly namespace: string
  readonly targetKey: SigningKey
  readonly isRoot: boolean
}

/** A party's signing keys, as 3.3 and 3.4 write them; 3.5 has them in `PartyToParticipant`. */
interface PartyToKey extends SigningKeys {
  readonly kind: 'partyToKey'
  readonly party: string
}

export type Mapping = PartyToParticipant | NamespaceDelegation | PartyToKey

/** A transaction that adds or replaces one mapping. */
export interface TopologyTransaction {
  readonly serial: number
  readonly mapping: Mapping
}

/** Reads a serialized topology transaction in its version's wrapper, strictly. @throws CantonError */
export function readTopology(bytes: Uint8Array): TopologyTransaction {
  const wrapper = readMessage(bytes, LIMITS, (fields) => ({ data: fields.bytes(1), version: fields.int32(2) }))
  if (wrapper.version !== PROTO_VERSION) unsupported(`topology of protobuf version ${wrapper.version}`)
  return readMessage(wrapper.data, LIMITS, (fields) => {
    const operation = fields.int32(1)
    if (operation !== 1) unsupported('a topology transaction that adds or replaces nothing')
    return { serial: fields.uint32(2), mapping: fields.message(3, mapping) }
  })
}

const mapping = (fields: Fields): Mapping =>
  fields.oneof<Mapping>('a topology mapping', {
    1: (at) => fields.message(at, namespaceDelegation),
    9: (at) => fields.message(at, partyToParticipant),
    16: (at) =>
      fields.message(at, (part) => ({
        kind: 'partyToKey',
        party: part.string(1),
        threshold: part.uint32(3),
        keys: part.messages(4, signingKey),
      })),
  })

function partyToParticipant(fields: Fields): PartyToParticipant {
  return {
    kind: 'partyToParticipant',
    party: fields.string(1),
    threshold: fields.uint32(2),
    participants: fields.messages(3, (part) => {
      // "Being onboarded" suspends the participant's confirmations.
      if (part.has(3)) unsupported('a participant that the party is still being moved to')
      return { uid: part.string(1), permission: permission(part.int32(2)) }
    }),
    signingKeys: fields.optional(6, (part) => ({ keys: part.messages(1, signingKey), threshold: part.uint32(2) })),
  }
}

function namespaceDelegation(fields: Fields): NamespaceDelegation {
  const namespace = fields.string(1)
  const targetKey = fields.message(2, signingKey)
  const isRoot = fields.bool(3)
  // What releases write today; the flag is what they wrote before, with the same meaning.
  const signsAll = fields.optional(4, () => true) ?? false
  if (fields.has(5) || fields.has(6)) unsupported('a namespace delegation with restrictions')
  return { kind: 'namespaceDelegation', namespace, targetKey, isRoot: isRoot || signsAll }
}

const FORMAT = { raw: 3, spki: 4 } as const
const CURVE25519 = 1
const SCHEMES = [0, 1]
/** What precedes the raw key in an Ed25519 SubjectPublicKeyInfo (RFC 8410). */
const SPKI_PREFIX = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00)
const KEY_BYTES = 32

function signingKey(fields: Fields): SigningKey {
  const format = fields.int32(2)
  const bytes = fields.bytes(3)
  const scheme = fields.int32(4)
  const usage = fields.int32s(5)
  if (fields.int32(6) !== CURVE25519 || !SCHEMES.includes(scheme)) unsupported('a signing key that is not Ed25519')
  const isSpki = format === FORMAT.spki && SPKI_PREFIX.every((byte, at) => bytes[at] === byte)
  if (!isSpki && format !== FORMAT.raw) unsupported('a signing key in another format')
  const publicKey = isSpki ? bytes.slice(SPKI_PREFIX.length) : bytes
  if (publicKey.length !== KEY_BYTES) malformed('an Ed25519 key has 32 bytes')
  return { publicKey, usage }
}

function permission(value: number): Permission {
  const names: readonly Permission[] = ['submission', 'confirmation', 'observation']
  return names[value - 1] ?? unsupported(`permission ${value} of a participant`)
}
