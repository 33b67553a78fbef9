import type { Bytes } from '../bytes.ts'
import { Hasher } from './encoding.ts'
import { malformed, unsupported } from './errors.ts'
import type {
  Create,
  Exercise,
  Fetch,
  GlobalKey,
  InputContract,
  Metadata,
  Node,
  Prepared,
  QueryByKey,
} from './prepared.ts'

/** Version of the algorithm. V3 needs protocol version 35; participants prepare with V2 unless asked for another. */
export type HashingScheme = 'V2' | 'V3'

/** First in everything that is hashed for a prepared transaction. */
const PURPOSE = 0x30
const SCHEMES = {
  V2: { byte: 2, lfVersions: ['2.1'] },
  V3: { byte: 3, lfVersions: ['2.1', '2'] },
} as const
/** V2 says the version of the node's and metadata's protobuf, V3 no longer does. The algorithm's page still does in V3; its published vectors do not. */
const ENCODING_VERSION = 0x01

/**
 * The 32 bytes that are signed for a prepared transaction.
 *
 * @throws CantonError `unsupported` if this version of the algorithm leaves something out that the transaction has
 */
export function hashOf(prepared: Prepared, scheme: HashingScheme): Bytes {
  return new Hasher()
    .int32(PURPOSE)
    .byte(SCHEMES[scheme].byte)
    .raw(transactionHash(prepared, scheme))
    .raw(metadataHash(prepared.metadata, scheme))
    .digest()
}

export function transactionHash(prepared: Omit<Prepared, 'metadata'>, scheme: HashingScheme): Bytes {
  const { version, roots } = prepared
  checkVersion(version, version, scheme)
  const to = new Hasher().int32(PURPOSE).text(version)
  return to.many(roots, (id) => to.raw(nodeHash(prepared, id, scheme))).digest()
}

export function metadataHash(metadata: Metadata, scheme: HashingScheme): Bytes {
  const to = new Hasher().int32(PURPOSE)
  if (scheme === 'V2') to.byte(ENCODING_VERSION)
  const time = (micros: bigint) => to.int64(micros)
  to.texts(metadata.actAs)
    .text(metadata.commandId)
    .text(metadata.transactionUuid)
    .int32(metadata.mediatorGroup)
    .text(metadata.synchronizerId)
    .optional(metadata.minLedgerTime, time)
    .optional(metadata.maxLedgerTime, time)
    .int64(metadata.preparationTime)
    .many(metadata.inputContracts, (input) => inputContract(to, input, scheme))
  if (scheme === 'V3') to.optional(metadata.maxRecordTime, time)
  return to.digest()
}

/** The hash of one node with everything below it. */
export function nodeHash(prepared: Omit<Prepared, 'metadata'>, id: string, scheme: HashingScheme): Bytes {
  const node = prepared.nodes.get(id) ?? malformed('a node is missing')
  const seed = prepared.seeds.get(id)
  const to = nodeHasher(scheme)
  if (node.kind !== 'rollback') checkNode(node, prepared.version, scheme)
  switch (node.kind) {
    case 'create':
      // The seed is optional where an input contract is hashed, and never in the transaction.
      create(to, node, seed ?? malformed('a create has no seed'), scheme)
      break
    case 'fetch':
      fetch(to, node, scheme)
      break
    case 'exercise':
      exercise(to, node, seed ?? malformed('an exercise has no seed'), scheme)
      break
    case 'rollback':
      to.byte(0x03)
      break
    case 'queryByKey':
      queryByKey(to, node)
  }
  if (node.kind === 'exercise' || node.kind === 'rollback')
    to.many(node.children, (child) => to.raw(nodeHash(prepared, child, scheme)))
  return to.digest()
}

const nodeHasher = (scheme: HashingScheme): Hasher =>
  scheme === 'V2' ? new Hasher().byte(ENCODING_VERSION) : new Hasher()

function inputContract(to: Hasher, { create: node, createdAt }: InputContract, scheme: HashingScheme): void {
  checkNode(node, node.lfVersion, scheme)
  const contract = nodeHasher(scheme)
  create(contract, node, undefined, scheme)
  to.int64(createdAt).raw(contract.digest())
}

function create(to: Hasher, node: Create, seed: Bytes | undefined, scheme: HashingScheme): void {
  to.text(node.lfVersion)
    .byte(0x00)
    .optional(seed, (bytes) => to.raw(bytes))
    .hex(node.contractId)
    .text(node.packageName)
    .identifier(node.templateId)
    .value(node.argument)
    .texts(node.signatories)
    .texts(node.stakeholders)
  if (scheme === 'V3') to.optional(node.key, (key) => globalKey(to, key))
}

function fetch(to: Hasher, node: Fetch, scheme: HashingScheme): void {
  to.text(node.lfVersion)
    .byte(0x02)
    .hex(node.contractId)
    .text(node.packageName)
    .identifier(node.templateId)
    .texts(node.signatories)
    .texts(node.stakeholders)
    .optional(node.interfaceId, (id) => to.identifier(id))
    .texts(node.actingParties)
  if (scheme === 'V3') to.bool(node.byKey).optional(node.key, (key) => globalKey(to, key))
}

/** All of an exercise but its children. */
function exercise(to: Hasher, node: Exercise, seed: Bytes, scheme: HashingScheme): void {
  to.text(node.lfVersion)
    .byte(0x01)
    .raw(seed)
    .hex(node.contractId)
    .text(node.packageName)
    .identifier(node.templateId)
    .texts(node.signatories)
    .texts(node.stakeholders)
    .texts(node.actingParties)
    .optional(node.interfaceId, (id) => to.identifier(id))
    .text(node.choice)
    .value(node.chosenValue)
    .bool(node.consuming)
    .optional(node.result, (result) => to.value(result))
    .texts(node.choiceObservers)
  if (scheme === 'V3') to.bool(node.byKey).optional(node.key, (key) => globalKey(to, key))
}

function queryByKey(to: Hasher, node: QueryByKey): void {
  to.text(node.lfVersion).byte(0x04).text(node.packageName).identifier(node.templateId).bool(node.exhaustive)
  globalKey(to, node.key)
  to.many(node.result, (contractId) => to.hex(contractId))
}

const globalKey = (to: Hasher, key: GlobalKey): Hasher =>
  to.text(key.packageName).identifier(key.templateId).value(key.key).raw(key.hash).texts(key.maintainers)

/** Refuses nodes of which this version would hash only a part. */
function checkNode(node: Exclude<Node, { kind: 'rollback' }>, version: string, scheme: HashingScheme): void {
  checkVersion(node.lfVersion, version, scheme)
  // Contract keys came with `2`. V2 hashes none of this, so that it must not be there.
  const usesKeys = node.key !== undefined || ('byKey' in node && node.byKey)
  if (usesKeys && (scheme === 'V2' || node.lfVersion === '2.1'))
    unsupported('contract keys need V3 and nodes of version 2')
}

/** A transaction has no node of a later version than its own. */
function checkVersion(lfVersion: string, version: string, scheme: HashingScheme): void {
  const known: readonly string[] = SCHEMES[scheme].lfVersions
  if (!known.includes(lfVersion)) unsupported(`${scheme} does not hash nodes of version ${JSON.stringify(lfVersion)}`)
  if (known.indexOf(lfVersion) > known.indexOf(version)) malformed('a node is of a later version than its transaction')
}
