import { encodeMessage } from './protobuf.ts'

/** What a participant answers to `generate-topology`, as plain objects: names as in the public protobuf definitions. */
export interface KeyModel {
  format: number
  public_key: string
  scheme?: number
  usage: number[]
  key_spec: number
}

interface HostModel {
  participant_uid: string
  permission: number
  onboarding?: object
}

export interface PartyToParticipantModel {
  party: string
  threshold: number
  participants: HostModel[]
  party_signing_keys?: { keys: KeyModel[]; threshold: number }
}

export type MappingModel =
  | { party_to_participant: PartyToParticipantModel }
  | {
      namespace_delegation: {
        namespace: string
        target_key: KeyModel
        is_root_delegation?: boolean
        can_sign_all_mappings?: object
      }
    }
  | { party_to_key_mapping: { party: string; threshold: number; signing_keys: KeyModel[] } }

/** An Ed25519 key as Canton writes it: X.509, for namespace, proof of ownership and protocol. `publicKey`: 32 bytes, hexadecimal. */
const keyModel = (publicKey: string): KeyModel => ({
  format: 4,
  public_key: `302a300506032b6570032100${publicKey}`,
  usage: [1, 5, 4],
  key_spec: 1,
})

/** A serialized topology transaction in its version's wrapper. */
export function encodeTopology(
  mapping: object,
  changes: { operation?: number; serial?: number; version?: number } = {},
): Buffer {
  const { operation = 1, serial = 1, version = 30 } = changes
  const data = encodeMessage('TopologyTransaction', { operation, serial, mapping })
  return encodeMessage('UntypedVersionedMessage', { data: data.toString('hex'), version })
}

/** An external party's topology in one transaction, as releases from 3.5 on write it. */
export const singleTopology = (hosting: PartyToParticipantModel, publicKey: string): MappingModel[] => [
  { party_to_participant: { ...hosting, party_signing_keys: { keys: [keyModel(publicKey)], threshold: 1 } } },
]

/** The same in three, as releases 3.3 and 3.4 write it. */
export const tripleTopology = (hosting: PartyToParticipantModel, publicKey: string): MappingModel[] => [
  {
    namespace_delegation: {
      namespace: hosting.party.slice(hosting.party.indexOf('::') + 2),
      target_key: keyModel(publicKey),
      can_sign_all_mappings: {},
    },
  },
  { party_to_key_mapping: { party: hosting.party, threshold: 1, signing_keys: [keyModel(publicKey)] } },
  { party_to_participant: hosting },
]
