import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import {
  encodeTopology,
  type MappingModel,
  type PartyToParticipantModel,
  singleTopology,
  tripleTopology,
} from '../../../keys/test/canton/topology-model.ts'

const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** Canton's hash for a purpose. */
const hashOf = (purpose: number, content: Buffer): Buffer => {
  const head = Buffer.alloc(4)
  head.writeInt32BE(purpose)
  return Buffer.concat([Buffer.from('1220', 'hex'), createHash('sha256').update(head).update(content).digest()])
}

export const fingerprint = (key: Buffer): string => hashOf(12, key).toString('hex')

/** What is signed for several topology transactions. */
export function multiHash(transactions: readonly Buffer[]): Buffer {
  const hashes = transactions.map((each) => hashOf(11, each)).sort(Buffer.compare)
  const count = Buffer.alloc(4)
  count.writeInt32BE(hashes.length)
  return hashOf(55, Buffer.concat([count, ...hashes.flatMap((hash) => [Buffer.from('00000022', 'hex'), hash])]))
}

const keyObject = (raw: Buffer): KeyObject =>
  createPublicKey({ key: Buffer.concat([SPKI_PREFIX, raw]), format: 'der', type: 'spki' })

/** Whether an Ed25519 signature is valid. */
export const isSigned = (key: Buffer, message: Buffer, signature: Buffer): boolean =>
  signature.length === 64 && verify(null, message, keyObject(key), signature)

/** The transactions that make a party exist. `lie` changes what they say. */
export function topologyOf(
  { party, key, participant, release }: { party: string; key: Buffer; participant: string; release: '3.4' | '3.5' },
  lie: ((hosting: PartyToParticipantModel) => void) | null,
): Buffer[] {
  const hosting: PartyToParticipantModel = {
    party,
    threshold: 1,
    participants: [{ participant_uid: participant, permission: 2 }],
  }
  lie?.(hosting)
  const mappings: MappingModel[] = (release === '3.5' ? singleTopology : tripleTopology)(hosting, key.toString('hex'))
  return mappings.map((mapping) => encodeTopology(mapping))
}
