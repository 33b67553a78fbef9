import { openPrepared, wrapPrepared } from '../../../keys/src/canton/index.ts'
import { encodeModel, type LfCreate, type LfExercise, type Model } from '../../../keys/test/canton/model.ts'
import type { PartyToParticipantModel } from '../../../keys/test/canton/topology-model.ts'
import { PARTICIPANT } from './participant.ts'
import { multiHash, topologyOf } from './topology.ts'

/*
 * What a service that is in league with its participant would hand to a client: bytes that say something else than was asked for, in
 * their right form, and the hash that belongs to them.
 */

const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Of a contract that nobody asked for. */
export const NEW_ID = `00${'fe'.repeat(32)}`
export const EVE = `eve::1220${'e0'.repeat(32)}`

/** The root of a model, and the first contract that it makes. */
export const nodeOf = <T>({ nodes }: Model['transaction'], at: number): T => (nodes[at] as { v1: unknown }).v1 as T
export const rootOf = ({ transaction }: Model) => nodeOf<{ exercise: LfExercise }>(transaction, 0).exercise
export const madeBy = ({ transaction }: Model) => nodeOf<{ create: LfCreate }>(transaction, 1).create

/** Sets a field of a record. */
export function set(value: object, label: string, to: object): void {
  const { fields } = (value as { record: { fields: { label: string; value: object }[] } }).record
  for (const field of fields) if (field.label === label) field.value = to
}

/** Puts one more node below the root. */
export function addBelow(model: Model, node: Model['transaction']['nodes'][number]['v1']): void {
  model.transaction.nodes.push({ node_id: '9', v1: node })
  model.transaction.node_seeds.push({ node_id: 9, seed: '77'.repeat(32) })
  rootOf(model).children.push('9')
}

/** Another transaction in place of a prepared one. `model`: what the participant prepared. */
export function forgedTransaction(
  request: { preparedTransaction: string; digest: string },
  model: Model,
  lie: (model: Model) => unknown,
  scheme: 'V2' | 'V3' = 'V3',
): void {
  const other = structuredClone(model)
  lie(other)
  const prepared = encodeModel(other)
  const { commandId, since } = JSON.parse(Buffer.from(request.preparedTransaction, 'base64').toString())
  const envelope = Buffer.from(wrapPrepared({ scheme, prepared })).toString('base64')
  request.preparedTransaction = base64(JSON.stringify({ commandId, envelope, since }))
  request.digest = Buffer.from(openPrepared(prepared, scheme).hash).toString('hex')
}

/** Another topology in place of the one that a wallet's key has to sign. `key`: raw, the wallet's or another. */
export function forgedOnboarding(
  waiting: { partyId: string; prepared: string | null; toSign: { payload: string }[] },
  key: Buffer,
  lie: ((hosting: PartyToParticipantModel) => void) | null,
): void {
  const of = { party: waiting.partyId, key, participant: PARTICIPANT, release: '3.5' as const }
  const transactions = topologyOf(of, lie)
  const { expiresAt } = JSON.parse(Buffer.from(waiting.prepared ?? '', 'base64').toString())
  const listed = transactions.map((each) => each.toString('base64'))
  waiting.prepared = base64(JSON.stringify({ expiresAt, transactions: listed }))
  for (const each of waiting.toSign) each.payload = multiHash(transactions).toString('hex')
}
