import type { Bytes } from '../bytes.ts'
import { CantonError, malformed, unsupported } from './errors.ts'
import { checkContractId, checkMicros, type Identifier, readIdentifier, readValue, type Value } from './value.ts'
import { type Fields, type Limits, readMessage } from './wire.ts'

/*
 * `com.daml.ledger.api.v2.interactive.PreparedTransaction` and what it consists of: the definitions are in the public
 * repository digital-asset/canton, community/ledger-api-proto/src/main/protobuf/com/daml/ledger/api/v2/interactive. The numbers are
 * those of the fields there.
 */

/** What is read at most. A participant takes requests of 10 MB by default; a transfer has some 10 kB. */
export const PREPARED_LIMITS: Limits = { bytes: 4 << 20, fields: 100_000, depth: 400 }
const MAX_NODES = 10_000
const MAX_NODE_DEPTH = 500
const MAX_MEDIATOR_GROUP = 2 ** 31 - 1
const SEED_BYTES = 32
/** Java's form of a UUID, which is what is hashed. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const NODE_ID = /^(?:0|[1-9]\d{0,9})$/

export interface GlobalKey {
  readonly templateId: Identifier
  readonly packageName: string
  readonly key: Value
  readonly hash: Bytes
  readonly maintainers: readonly string[]
}

/** What nodes about a contract have in common. */
interface OfContract {
  /** Version of Daml's serialization: `2.1`, `2`. */
  readonly lfVersion: string
  readonly contractId: string
  readonly packageName: string
  readonly templateId: Identifier
  readonly signatories: readonly string[]
  readonly stakeholders: readonly string[]
  readonly key: GlobalKey | undefined
}

export interface Create extends OfContract {
  readonly kind: 'create'
  readonly argument: Value
}

export interface Fetch extends OfContract {
  readonly kind: 'fetch'
  readonly interfaceId: Identifier | undefined
  readonly actingParties: readonly string[]
  readonly byKey: boolean
}

export interface Exercise extends OfContract {
  readonly kind: 'exercise'
  readonly interfaceId: Identifier | undefined
  readonly actingParties: readonly string[]
  readonly byKey: boolean
  readonly choice: string
  readonly chosenValue: Value
  readonly consuming: boolean
  readonly children: readonly string[]
  readonly result: Value | undefined
  readonly choiceObservers: readonly string[]
}

interface Rollback {
  readonly kind: 'rollback'
  readonly children: readonly string[]
}

export interface QueryByKey {
  readonly kind: 'queryByKey'
  readonly lfVersion: string
  readonly packageName: string
  readonly templateId: Identifier
  readonly exhaustive: boolean
  readonly key: GlobalKey
  readonly result: readonly string[]
}

export type Node = Create | Fetch | Exercise | Rollback | QueryByKey

export interface InputContract {
  readonly create: Create
  /** Microseconds since 1970. */
  readonly createdAt: bigint
  /** What the participant stores of the contract. No version hashes it. */
  readonly eventBlob: Bytes
}

export interface Metadata {
  readonly actAs: readonly string[]
  readonly commandId: string
  readonly synchronizerId: string
  readonly mediatorGroup: number
  readonly transactionUuid: string
  /** All times: microseconds since 1970. */
  readonly preparationTime: bigint
  readonly minLedgerTime: bigint | undefined
  readonly maxLedgerTime: bigint | undefined
  readonly maxRecordTime: bigint | undefined
  readonly inputContracts: readonly InputContract[]
}

/** A prepared transaction whose nodes form trees: each is the root or child of exactly one place. */
export interface Prepared {
  readonly version: string
  readonly roots: readonly string[]
  readonly nodes: ReadonlyMap<string, Node>
  readonly seeds: ReadonlyMap<string, Bytes>
  readonly metadata: Metadata
}

/** Reads the bytes of a `PreparedTransaction`, strictly. @throws CantonError */
export function readPrepared(bytes: Uint8Array): Prepared {
  return readMessage(bytes, PREPARED_LIMITS, (fields) => ({
    ...fields.message(1, transaction),
    metadata: fields.message(2, metadata),
  }))
}

function transaction(fields: Fields): Omit<Prepared, 'metadata'> {
  const version = fields.string(1)
  const roots = fields.strings(2)
  const listed = fields.messages(3, (node) => [
    node.string(1),
    node.oneof('a node', { 1000: (at) => node.message(at, versionedNode) }),
  ]) as [string, Node][]
  const seeded = fields.messages(4, (seed) => [String(seed.int32(1)), seed.bytes(2)]) as [string, Bytes][]
  if (listed.length > MAX_NODES) throw new CantonError('too_large', `there are more than ${MAX_NODES} nodes`)
  if (roots.length === 0) malformed('the transaction has no root')
  const nodes = new Map(listed)
  const seeds = new Map(seeded)
  if (nodes.size < listed.length || seeds.size < seeded.length) malformed('a node or seed is there twice')
  for (const id of nodes.keys()) if (!NODE_ID.test(id)) malformed('a node has no valid id')
  for (const [id, seed] of seeds)
    if (!nodes.has(id) || seed.length !== SEED_BYTES) malformed('a seed has the wrong length or no node')
  checkTrees(roots, nodes)
  return { version, roots, nodes, seeds }
}

/** The ids of a node's children, in order. */
const childrenOf = (node: Node | undefined): readonly string[] =>
  node?.kind === 'exercise' || node?.kind === 'rollback' ? node.children : []

/**
 * Every node in exactly one place. One that no root leads to would not be hashed, and one that several places share could make a
 * small message take for ever.
 */
function checkTrees(roots: readonly string[], nodes: ReadonlyMap<string, Node>): void {
  const places = [...roots]
  for (const node of nodes.values()) for (const child of childrenOf(node)) places.push(child)
  if (new Set(places).size < places.length) malformed('a node is in two places')
  for (const id of places) if (!nodes.has(id)) malformed('a node is missing')
  if (places.length < nodes.size) malformed('a node is in no place')
  // As many places as nodes, all different. What no root reaches can now only be a circle.
  let reached = 0
  let level = roots
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth === MAX_NODE_DEPTH) throw new CantonError('too_large', `nodes have more than ${MAX_NODE_DEPTH} levels`)
    reached += level.length
    level = level.flatMap((id) => childrenOf(nodes.get(id)))
  }
  if (reached < nodes.size) malformed('nodes form a circle')
}

const versionedNode = (fields: Fields): Node =>
  fields.oneof<Node>('a node', {
    1: (at) => fields.message(at, create),
    2: (at) => fields.message(at, fetch),
    3: (at) => fields.message(at, exercise),
    4: (at) => fields.message(at, (part) => ({ kind: 'rollback', children: part.strings(1) })),
    5: (at) => fields.message(at, queryByKey),
  })

function create(fields: Fields): Create {
  return {
    kind: 'create',
    ...contractOf(fields),
    argument: fields.message(5, readValue),
    signatories: parties(fields.strings(6)),
    stakeholders: parties(fields.strings(7)),
    key: fields.optional(8, globalKey),
  }
}

function fetch(fields: Fields): Fetch {
  return {
    kind: 'fetch',
    ...contractOf(fields),
    signatories: parties(fields.strings(5)),
    stakeholders: parties(fields.strings(6)),
    actingParties: parties(fields.strings(7)),
    interfaceId: fields.optional(8, readIdentifier),
    key: fields.optional(9, globalKey),
    byKey: fields.bool(10),
  }
}

function exercise(fields: Fields): Exercise {
  if (fields.has(17)) unsupported('results of external calls are not hashed before V4')
  return {
    kind: 'exercise',
    ...contractOf(fields),
    signatories: parties(fields.strings(5)),
    stakeholders: parties(fields.strings(6)),
    actingParties: parties(fields.strings(7)),
    interfaceId: fields.optional(8, readIdentifier),
    choice: fields.string(9) || malformed('an exercise has no choice'),
    chosenValue: fields.message(10, readValue),
    consuming: fields.bool(11),
    children: fields.strings(12),
    result: fields.optional(13, readValue),
    choiceObservers: parties(fields.strings(14)),
    key: fields.optional(15, globalKey),
    byKey: fields.bool(16),
  }
}

const queryByKey = (fields: Fields): QueryByKey => ({
  kind: 'queryByKey',
  lfVersion: fields.string(1),
  packageName: fields.string(2),
  templateId: fields.message(3, readIdentifier),
  exhaustive: fields.bool(4),
  key: fields.message(5, globalKey),
  result: fields.strings(6).map(checkContractId),
})

const contractOf = (fields: Fields) => ({
  lfVersion: fields.string(1),
  contractId: checkContractId(fields.string(2)),
  packageName: fields.string(3),
  templateId: fields.message(4, readIdentifier),
})

function globalKey(fields: Fields): GlobalKey {
  const key = fields.message(1, (part) => ({
    templateId: part.message(1, readIdentifier),
    packageName: part.string(2),
    key: part.message(3, readValue),
    hash: part.bytes(4),
  }))
  if (key.hash.length !== 32) malformed('the hash of a key has the wrong length')
  return { ...key, maintainers: parties(fields.strings(2)) }
}

/** A set of parties: the participant's set has each once, whatever the message says. */
function parties(names: readonly string[]): readonly string[] {
  if (names.includes('') || new Set(names).size < names.length)
    malformed('a set of parties has one twice, or an empty one')
  return names
}

function metadata(fields: Fields): Metadata {
  // Deprecated and always empty: what stood here would not be signed.
  if (fields.has(8)) unsupported('the metadata have a key mapping')
  const submitter = fields.message(2, (part) => ({ actAs: parties(part.strings(1)), commandId: part.string(2) }))
  const times = [fields.uint64(6), fields.optionalUint64(9), fields.optionalUint64(10), fields.optionalUint64(11)]
  const [preparationTime, minLedgerTime, maxLedgerTime, maxRecordTime] = times.map((time) =>
    time === undefined ? undefined : checkMicros(time),
  )
  const read = {
    ...submitter,
    synchronizerId: fields.string(3),
    mediatorGroup: fields.uint32(4),
    transactionUuid: fields.string(5),
    preparationTime: preparationTime ?? 0n,
    minLedgerTime,
    maxLedgerTime,
    maxRecordTime,
    inputContracts: fields.messages(7, inputContract),
  }
  if (read.actAs.length === 0 || read.commandId === '' || read.synchronizerId === '')
    malformed('the metadata name no submitter, command or synchronizer')
  if (!UUID.test(read.transactionUuid)) malformed('the transaction has no UUID')
  if (read.mediatorGroup > MAX_MEDIATOR_GROUP) malformed('there is no such mediator group')
  const ids = read.inputContracts.map((input) => input.create.contractId)
  if (new Set(ids).size < ids.length) malformed('an input contract is there twice')
  return read
}

const inputContract = (fields: Fields): InputContract => ({
  create: fields.oneof('an input contract', { 1: (at) => fields.message(at, create) }),
  createdAt: checkMicros(fields.uint64(1000)),
  eventBlob: fields.bytes(1002),
})
