import { type Bytes, toHex } from '../bytes.ts'
import { Hasher } from './encoding.ts'
import { CantonError } from './errors.ts'
import {
  type Mapping,
  type NamespaceDelegation,
  type PartyToParticipant,
  readTopology,
  type SigningKey,
} from './topology-messages.ts'

/** What Canton's hashes begin with, so that a hash for one purpose is none for another. */
const PURPOSE = { topologyTransaction: 11, fingerprint: 12, multiHash: 55 } as const
/** Multihash: SHA-256, 32 bytes. */
const MULTIHASH_PREFIX = Uint8Array.of(0x12, 0x20)
const KEY_BYTES = 32
/** Uses of a key: namespace, protocol, proof of ownership. A key of a party that we make has no others. */
const USAGES = [1, 4, 5]

/** A participant that hosts the party. */
export interface Host {
  /** `<name>::<fingerprint>` of the participant. */
  readonly uid: string
  readonly permission: 'confirmation' | 'observation'
}

/** What the owner of a key wants to be true of the party, and nothing else. */
export interface ExpectedOnboarding {
  /** `<hint>::<fingerprint of publicKey>` */
  readonly party: string
  /** The raw Ed25519 key: of the namespace and of the party's signatures. */
  readonly publicKey: Uint8Array
  readonly hosts: readonly Host[]
  /** How many confirming hosts must confirm a transaction. */
  readonly threshold: number
}

/** The fingerprint of an Ed25519 key: `1220` and 64 hexadecimal digits. It is the namespace of the key's parties. */
export function fingerprintOf(publicKey: Uint8Array): string {
  if (publicKey.length !== KEY_BYTES) throw new CantonError('malformed', 'an Ed25519 key has 32 bytes')
  return toHex(cantonHash(PURPOSE.fingerprint, publicKey))
}

/** The hash of a serialized topology transaction: 34 bytes. */
export const topologyHash = (transaction: Uint8Array): Bytes => cantonHash(PURPOSE.topologyTransaction, transaction)

/** The 34 bytes that are signed for several topology transactions at once: their order does not matter. */
export function multiHashOf(transactions: readonly Uint8Array[]): Bytes {
  const hashes = transactions.map((transaction) => toHex(topologyHash(transaction))).sort()
  const to = new Hasher().int32(PURPOSE.multiHash)
  return withPrefix(to.many(hashes, (hash) => to.hex(hash)).digest())
}

/**
 * Checks what `generate-topology` answered, before it is signed. The transactions must say exactly what is expected: this party in the
 * namespace of this key, signing with this key alone, on these participants with these permissions and this threshold. Canton
 * 3.5 says it in one transaction, 3.3 and 3.4 in three; both are read, and nothing may be missing or added.
 *
 * @param transactions the answer's `topologyTransactions`, as bytes
 * @returns the multi-hash that the key signs, computed from these bytes
 * @throws CantonError `topology_mismatch` if they say something else; `malformed`, `unsupported` or `too_large` if they cannot be read
 */
export function checkOnboarding(transactions: readonly Uint8Array[], expected: ExpectedOnboarding): Bytes {
  const namespace = fingerprintOf(expected.publicKey)
  const [hint, owner] = [expected.party.slice(0, -namespace.length - 2), expected.party.slice(-namespace.length - 2)]
  if (hint === '' || hint.includes('::') || owner !== `::${namespace}`)
    mismatch('the party is not in the namespace of its key')
  if (transactions.length > 3) mismatch('there are more transactions than an onboarding has')
  const read = transactions.map(readTopology)
  if (read.some(({ serial }) => serial !== 1)) mismatch('a transaction is not the first of its kind')
  const mappings = read.map(({ mapping }) => mapping)
  const hosting = only(mappings, 'partyToParticipant')
  if (hosting === undefined) mismatch('the party has no participant')
  checkHosting(hosting, expected)
  const [delegation, keys] = [only(mappings, 'namespaceDelegation'), only(mappings, 'partyToKey')]
  if (mappings.length !== 1 && (mappings.length !== 3 || delegation === undefined || keys === undefined))
    mismatch('the transactions are not those of an onboarding')
  if (delegation !== undefined) checkDelegation(delegation, namespace, expected)
  const signing = keys === undefined ? hosting.signingKeys : hosting.signingKeys === undefined ? keys : undefined
  if (signing === undefined || signing.threshold !== 1 || signing.keys.length !== 1)
    mismatch('the party does not sign with one key alone')
  for (const key of signing.keys) checkKey(key, expected)
  if (keys !== undefined && keys.party !== expected.party) mismatch('the keys are those of another party')
  return multiHashOf(transactions)
}

/**
 * The participants that topology transactions name for their party, so that a person can be asked about them: `checkOnboarding` says
 * whether the transactions do nothing else. @throws CantonError `topology_mismatch`, `malformed`, `unsupported`, `too_large`
 */
export function hostsIn(transactions: readonly Uint8Array[]): Host[] {
  const mappings = transactions.map((each) => readTopology(each).mapping)
  const hosting = only(mappings, 'partyToParticipant') ?? mismatch('the party has no participant')
  return hosting.participants.map(({ uid, permission }) =>
    permission === 'confirmation' || permission === 'observation'
      ? { uid, permission }
      : mismatch('a participant may act for the party by itself'),
  )
}

function checkHosting(hosting: PartyToParticipant, expected: ExpectedOnboarding): void {
  const { party, hosts, threshold } = expected
  if (hosting.party !== party) mismatch('the transactions are about another party')
  if (hosting.threshold !== threshold) mismatch(`the threshold is ${hosting.threshold}, not ${threshold}`)
  const confirming = hosts.filter(({ permission }) => permission === 'confirmation').length
  if (threshold < 1 || threshold > confirming) mismatch('fewer participants confirm than the threshold demands')
  const said = hosting.participants.map(({ uid, permission }) => `${permission} ${uid}`).sort()
  const wanted = hosts.map(({ uid, permission }) => `${permission} ${uid}`).sort()
  if (said.length !== wanted.length || said.some((line, at) => line !== wanted[at]))
    mismatch('the participants or their permissions are others')
  if (new Set(hosts.map(({ uid }) => uid)).size < hosts.length) mismatch('a participant is there twice')
}

function checkDelegation(delegation: NamespaceDelegation, namespace: string, expected: ExpectedOnboarding): void {
  if (delegation.namespace !== namespace || !delegation.isRoot) mismatch('the namespace is another one')
  checkKey(delegation.targetKey, expected)
}

function checkKey({ publicKey, usage }: SigningKey, expected: ExpectedOnboarding): void {
  if (toHex(publicKey) !== toHex(expected.publicKey)) mismatch('a key is another one')
  const isOurs = usage.length > 0 && new Set(usage).size === usage.length && usage.every((use) => USAGES.includes(use))
  if (!isOurs) mismatch('a key has another use')
}

/** The one mapping of its kind. */
function only<K extends Mapping['kind']>(mappings: readonly Mapping[], kind: K) {
  const found = mappings.filter((mapping): mapping is Extract<Mapping, { readonly kind: K }> => mapping.kind === kind)
  if (found.length > 1) mismatch('a transaction is there twice')
  return found[0]
}

const cantonHash = (purpose: number, content: Uint8Array): Bytes =>
  withPrefix(new Hasher().int32(purpose).raw(content).digest())

function withPrefix(digest: Uint8Array): Bytes {
  const bytes = new Uint8Array(MULTIHASH_PREFIX.length + digest.length)
  bytes.set(MULTIHASH_PREFIX)
  bytes.set(digest, MULTIHASH_PREFIX.length)
  return bytes
}

function mismatch(message: string): never {
  throw new CantonError('topology_mismatch', message)
}
