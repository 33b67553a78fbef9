import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { fromHex, toHex } from '../../src/bytes.ts'
import {
  checkOnboarding,
  type ExpectedOnboarding,
  fingerprintOf,
  multiHashOf,
  topologyHash,
} from '../../src/canton/index.ts'
import { flips } from '../support.ts'
import { refusal } from './support.ts'
import {
  encodeTopology,
  type MappingModel,
  type PartyToParticipantModel,
  singleTopology,
  tripleTopology,
} from './topology-model.ts'

const KEY = 'fa8ba321f279863edd57e97a08f197d18760f77a8cddec782c63f69b85b44d7b'
const OTHER_KEY = '3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c'
const FINGERPRINT = '1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441'
const NODE = `node1::1220${'11'.repeat(32)}`
const OTHER_NODE = `node2::1220${'22'.repeat(32)}`
const PARTY = `alice::${FINGERPRINT}`

const HOSTING: PartyToParticipantModel = {
  party: PARTY,
  threshold: 1,
  participants: [{ participant_uid: NODE, permission: 2 }],
}
const EXPECTED: ExpectedOnboarding = {
  party: PARTY,
  publicKey: fromHex(KEY),
  hosts: [{ uid: NODE, permission: 'confirmation' }],
  threshold: 1,
}

/** The same computed by hand. */
const canton = (purpose: number, content: Uint8Array) => {
  const sized = Buffer.alloc(4)
  sized.writeUInt32BE(purpose)
  return Buffer.concat([Buffer.from('1220', 'hex'), createHash('sha256').update(sized).update(content).digest()])
}
const bytesOf = (mappings: readonly MappingModel[]) => mappings.map((mapping) => encodeTopology(mapping))

test('the fingerprint of a key is the published one', () => {
  expect(fingerprintOf(fromHex(KEY))).toBe(FINGERPRINT)
  expect(refusal(() => fingerprintOf(fromHex(KEY.slice(2))))).toBe('malformed')
})

test('hash and multi-hash: purposes 11 and 55, in any order of the transactions', () => {
  const transactions = [Uint8Array.of(1), Uint8Array.of(2), Uint8Array.of(3)]
  const hashes = transactions.map((transaction) => canton(11, transaction))
  expect(transactions.map((transaction) => toHex(topologyHash(transaction)))).toEqual(hashes.map(toHex))
  const sorted = [...hashes].sort(Buffer.compare)
  const content = Buffer.concat([Buffer.of(0, 0, 0, 3), ...sorted.flatMap((hash) => [Buffer.of(0, 0, 0, 34), hash])])
  expect(toHex(multiHashOf(transactions))).toBe(toHex(canton(55, content)))
  expect(multiHashOf([...transactions].reverse())).toEqual(multiHashOf(transactions))
})

describe.each([
  ['one transaction', singleTopology],
  ['three transactions', tripleTopology],
] as const)('an onboarding in %s', (_, topologyOf) => {
  const mappings = (change: (hosting: PartyToParticipantModel) => void = () => undefined, key = KEY) => {
    const hosting = structuredClone(HOSTING)
    change(hosting)
    return topologyOf(hosting, key)
  }
  const refused = (change: (hosting: PartyToParticipantModel) => void, key = KEY) =>
    refusal(() => checkOnboarding(bytesOf(mappings(change, key)), EXPECTED))

  test('is accepted if it says what was expected, and gives the multi-hash of its bytes', () => {
    const bytes = bytesOf(mappings())
    expect(checkOnboarding(bytes, EXPECTED)).toEqual(multiHashOf(bytes))
  })

  test('several hosts are accepted in any order', () => {
    const hosts = [
      { uid: OTHER_NODE, permission: 'observation' },
      { uid: NODE, permission: 'confirmation' },
    ] as const
    const both = mappings((hosting) => hosting.participants.push({ participant_uid: OTHER_NODE, permission: 3 }))
    expect(checkOnboarding(bytesOf(both), { ...EXPECTED, hosts })).toHaveLength(34)
    expect(refusal(() => checkOnboarding(bytesOf(both), EXPECTED))).toBe('topology_mismatch')
    expect(refusal(() => checkOnboarding(bytesOf(mappings()), { ...EXPECTED, hosts }))).toBe('topology_mismatch')
  })

  test('another key, party, participant, permission or threshold is refused', () => {
    expect(refused(() => undefined, OTHER_KEY)).toBe('topology_mismatch')
    for (const change of [
      (hosting: PartyToParticipantModel) => (hosting.party = `bob::${FINGERPRINT}`),
      (hosting: PartyToParticipantModel) => (hosting.party = `alice::${fingerprintOf(fromHex(OTHER_KEY))}`),
      (hosting: PartyToParticipantModel) => (hosting.participants = []),
      (hosting: PartyToParticipantModel) => (hosting.participants[0]!.participant_uid = OTHER_NODE),
      (hosting: PartyToParticipantModel) => hosting.participants.push({ participant_uid: OTHER_NODE, permission: 2 }),
      (hosting: PartyToParticipantModel) => hosting.participants.push(hosting.participants[0]!),
      (hosting: PartyToParticipantModel) => (hosting.participants[0]!.permission = 1),
      (hosting: PartyToParticipantModel) => (hosting.participants[0]!.permission = 3),
      (hosting: PartyToParticipantModel) => (hosting.threshold = 0),
      (hosting: PartyToParticipantModel) => (hosting.threshold = 2),
    ])
      expect(refused(change), change.toString()).toBe('topology_mismatch')
    expect(refused((hosting) => (hosting.participants[0]!.onboarding = {}))).toBe('unsupported')
    expect(refused((hosting) => (hosting.participants[0]!.permission = 4))).toBe('unsupported')
  })

  test('every changed bit is refused', () => {
    const bytes = bytesOf(mappings())
    for (const [at, transaction] of bytes.entries())
      for (const flipped of flips(transaction)) {
        const changed: Uint8Array[] = [...bytes]
        changed[at] = flipped
        expect(() => checkOnboarding(changed, EXPECTED)).toThrow()
      }
  })

  test('a transaction more, less or twice is refused', () => {
    const bytes = bytesOf(mappings())
    const first = bytes[0]!
    for (const others of [[], bytes.slice(1), [...bytes, first], [...bytes, ...bytes]])
      expect(refusal(() => checkOnboarding(others, EXPECTED))).toBe('topology_mismatch')
    const vetting = encodeTopology({ vetted_packages: {} })
    expect(['unsupported', 'topology_mismatch']).toContain(
      refusal(() => checkOnboarding([...bytes, vetting], EXPECTED)),
    )
  })

  test('a removal, a later serial and another version are refused', () => {
    for (const [changes, code] of [
      [{ operation: 2 }, 'unsupported'],
      [{ serial: 2 }, 'topology_mismatch'],
      [{ version: 31 }, 'unsupported'],
    ] as const)
      expect(
        refusal(() =>
          checkOnboarding(
            mappings().map((mapping) => encodeTopology(mapping, changes)),
            EXPECTED,
          ),
        ),
      ).toBe(code)
  })

  test('an expectation that makes no sense is refused', () => {
    const bytes = bytesOf(mappings())
    for (const changes of [
      { threshold: 0 },
      { threshold: 2 },
      { hosts: [] },
      { party: `::${FINGERPRINT}` },
      { party: `a::b::${FINGERPRINT}` },
      { party: 'alice' },
      { publicKey: fromHex(OTHER_KEY) },
    ])
      expect(refusal(() => checkOnboarding(bytes, { ...EXPECTED, ...changes }))).toBe('topology_mismatch')
  })
})

describe('the keys of an onboarding', () => {
  const refusedKeys = (change: (keys: NonNullable<PartyToParticipantModel['party_signing_keys']>) => void) => {
    const [mapping] = singleTopology(structuredClone(HOSTING), KEY) as [
      { party_to_participant: PartyToParticipantModel },
    ]
    change(mapping.party_to_participant.party_signing_keys!)
    return refusal(() => checkOnboarding([encodeTopology(mapping)], EXPECTED))
  }

  test('are one, with a threshold of one, for our uses', () => {
    expect(refusedKeys((keys) => keys.keys.push(keys.keys[0]!))).toBe('topology_mismatch')
    expect(refusedKeys((keys) => (keys.keys = []))).toBe('topology_mismatch')
    expect(refusedKeys((keys) => (keys.threshold = 2))).toBe('topology_mismatch')
    expect(refusedKeys((keys) => (keys.keys[0]!.usage = [1, 4, 3]))).toBe('topology_mismatch')
    expect(refusedKeys((keys) => (keys.keys[0]!.usage = []))).toBe('topology_mismatch')
    expect(refusedKeys((keys) => (keys.keys[0]!.key_spec = 2))).toBe('unsupported')
    expect(refusedKeys((keys) => (keys.keys[0]!.format = 2))).toBe('unsupported')
    expect(refusedKeys((keys) => (keys.keys[0]!.public_key += '00'))).toBe('malformed')
  })

  test('may be raw', () => {
    const [mapping] = singleTopology(structuredClone(HOSTING), KEY) as [
      { party_to_participant: PartyToParticipantModel },
    ]
    const [key] = mapping.party_to_participant.party_signing_keys!.keys
    Object.assign(key!, { format: 3, public_key: KEY })
    expect(checkOnboarding([encodeTopology(mapping)], EXPECTED)).toHaveLength(34)
  })

  test('are said once: in the hosting or in their own transaction', () => {
    const [delegation, keys] = tripleTopology(HOSTING, KEY)
    const [hosting] = singleTopology(HOSTING, KEY)
    for (const mappings of [
      [delegation, keys, hosting],
      [keys, hosting],
      [delegation, hosting],
    ])
      expect(refusal(() => checkOnboarding(bytesOf(mappings as MappingModel[]), EXPECTED))).toBe('topology_mismatch')
  })

  test('a delegation that is restricted, or of another namespace, is refused', () => {
    const [delegation, keys, hosting] = tripleTopology(HOSTING, KEY) as [
      { namespace_delegation: object },
      MappingModel,
      MappingModel,
    ]
    const changed = (changes: object) => [
      encodeTopology({ namespace_delegation: { ...delegation.namespace_delegation, ...changes } }),
      ...bytesOf([keys, hosting]),
    ]
    const check = (changes: object) => checkOnboarding(changed(changes), EXPECTED)
    expect(check({ is_root_delegation: true, can_sign_all_mappings: undefined })).toHaveLength(34)
    expect(refusal(() => check({ can_sign_all_mappings: undefined }))).toBe('topology_mismatch')
    expect(refusal(() => check({ namespace: fingerprintOf(fromHex(OTHER_KEY)) }))).toBe('topology_mismatch')
    expect(refusal(() => check({ can_sign_all_but_namespace_delegations: {} }))).toBe('unsupported')
  })
})
