import { createHash } from 'node:crypto'
import type { Id, Key, LfCreate, LfMetadata, LfNode, LfTransaction, LfValue, Model } from './model.ts'

/*
 * The hash of a prepared transaction, written a second time after the published Python reference (digital-asset/canton,
 * community/app/src/pack/examples/08-interactive-submission): by concatenation, over model.ts, with OpenSSL. It shares no code with what is
 * tested, and is itself compared with the reference (reference.test.ts) and with published vectors.
 */

type Scheme = 'V2' | 'V3'

const sha = (...parts: Uint8Array[]): Buffer => createHash('sha256').update(Buffer.concat(parts)).digest()
const byte = (value: number) => Buffer.from([value])
const flag = (value: boolean | undefined) => byte(value ? 1 : 0)
const PURPOSE = Buffer.from('00000030', 'hex')

function int(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function long(value: string): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(BigInt(value))
  return bytes
}

const sized = (bytes: Buffer) => Buffer.concat([int(bytes.length), bytes])
const str = (text: string) => sized(Buffer.from(text, 'utf8'))
const hex = (text: string) => sized(Buffer.from(text, 'hex'))
const list = <T>(values: readonly T[], one: (value: T) => Buffer) =>
  Buffer.concat([int(values.length), ...values.map(one)])
const maybe = <T>(value: T | undefined, one: (value: T) => Buffer) =>
  value === undefined ? byte(0) : Buffer.concat([byte(1), one(value)])
const id = (of: Id) =>
  Buffer.concat([str(of.package_id), list(of.module_name.split('.'), str), list(of.entity_name.split('.'), str)])

export function valueBytes(value: LfValue): Buffer {
  const tag = (number: number, ...rest: Buffer[]) => Buffer.concat([byte(number), ...rest])
  if ('unit' in value) return tag(0)
  if ('bool' in value) return tag(1, flag(value.bool))
  if ('int64' in value) return tag(2, long(value.int64))
  if ('numeric' in value) return tag(3, str(value.numeric))
  if ('timestamp' in value) return tag(4, long(value.timestamp))
  if ('date' in value) return tag(5, int(value.date))
  if ('party' in value) return tag(6, str(value.party))
  if ('text' in value) return tag(7, str(value.text))
  if ('contract_id' in value) return tag(8, hex(value.contract_id))
  if ('optional' in value) return tag(9, maybe(value.optional.value, valueBytes))
  if ('list' in value) return tag(10, list(value.list.elements, valueBytes))
  if ('text_map' in value)
    return tag(
      11,
      list(value.text_map.entries, (entry) => Buffer.concat([str(entry.key), valueBytes(entry.value)])),
    )
  if ('record' in value) {
    const { record_id, fields } = value.record
    const field = (of: (typeof fields)[number]) => Buffer.concat([maybe(of.label, str), valueBytes(of.value)])
    return tag(12, maybe(record_id, id), list(fields, field))
  }
  if ('variant' in value) {
    const { variant_id, constructor: chosen, value: inner } = value.variant
    return tag(13, maybe(variant_id, id), str(chosen), valueBytes(inner))
  }
  if ('enum' in value) return tag(14, maybe(value.enum.enum_id, id), str(value.enum.constructor))
  return tag(
    15,
    list(value.gen_map.entries, (of) => Buffer.concat([valueBytes(of.key), valueBytes(of.value)])),
  )
}

const keyBytes = ({ key, maintainers }: Key) =>
  Buffer.concat([
    str(key.package_name),
    id(key.template_id),
    valueBytes(key.key),
    Buffer.from(key.hash, 'hex'),
    list(maintainers, str),
  ])

function createBytes(node: LfCreate, seed: string | undefined, scheme: Scheme): Buffer {
  return Buffer.concat([
    ...(scheme === 'V2' ? [byte(1)] : []),
    str(node.lf_version),
    byte(0),
    maybe(seed, (text) => Buffer.from(text, 'hex')),
    hex(node.contract_id),
    str(node.package_name),
    id(node.template_id),
    valueBytes(node.argument),
    list(node.signatories, str),
    list(node.stakeholders, str),
    ...(scheme === 'V3' ? [maybe(node.key, keyBytes)] : []),
  ])
}

/** The hash of one node and all below it. */
export function nodeOpinion(transaction: LfTransaction, nodeId: string, scheme: Scheme): Buffer {
  const node = transaction.nodes.find((one) => one.node_id === nodeId)?.v1 as LfNode
  const seed = transaction.node_seeds.find((one) => String(one.node_id) === nodeId)?.seed
  const child = (childId: string) => nodeOpinion(transaction, childId, scheme)
  const version = scheme === 'V2' ? [byte(1)] : []
  if ('create' in node) return sha(createBytes(node.create, seed, scheme))
  if ('rollback' in node) return sha(...version, byte(3), list(node.rollback.children, child))
  if ('query_by_key' in node) {
    const { lf_version, package_name, template_id, exhaustive, key, result } = node.query_by_key
    return sha(
      str(lf_version),
      byte(4),
      str(package_name),
      id(template_id),
      flag(exhaustive),
      keyBytes(key),
      list(result, hex),
    )
  }
  if ('fetch' in node) {
    const { fetch: of } = node
    const start = [
      ...version,
      str(of.lf_version),
      byte(2),
      hex(of.contract_id),
      str(of.package_name),
      id(of.template_id),
    ]
    const parties = [list(of.signatories, str), list(of.stakeholders, str)]
    const end = [maybe(of.interface_id, id), list(of.acting_parties, str)]
    return sha(...start, ...parties, ...end, ...(scheme === 'V3' ? [flag(of.by_key), maybe(of.key, keyBytes)] : []))
  }
  const { exercise: of } = node
  return sha(
    ...version,
    str(of.lf_version),
    byte(1),
    Buffer.from(seed as string, 'hex'),
    hex(of.contract_id),
    str(of.package_name),
    id(of.template_id),
    list(of.signatories, str),
    list(of.stakeholders, str),
    list(of.acting_parties, str),
    maybe(of.interface_id, id),
    str(of.choice_id),
    valueBytes(of.chosen_value),
    flag(of.consuming),
    maybe(of.exercise_result, valueBytes),
    list(of.choice_observers, str),
    ...(scheme === 'V3' ? [flag(of.by_key), maybe(of.key, keyBytes)] : []),
    list(of.children, child),
  )
}

export const transactionOpinion = (transaction: LfTransaction, scheme: Scheme): Buffer =>
  sha(
    PURPOSE,
    str(transaction.version),
    list(transaction.roots, (root) => nodeOpinion(transaction, root, scheme)),
  )

export function metadataOpinion(metadata: LfMetadata, scheme: Scheme): Buffer {
  const input = (of: LfMetadata['input_contracts'][number]) =>
    Buffer.concat([long(of.created_at), sha(createBytes(of.v1, undefined, scheme))])
  return sha(
    PURPOSE,
    ...(scheme === 'V2' ? [byte(1)] : []),
    list(metadata.submitter_info.act_as, str),
    str(metadata.submitter_info.command_id),
    str(metadata.transaction_uuid),
    int(metadata.mediator_group),
    str(metadata.synchronizer_id),
    maybe(metadata.min_ledger_effective_time, long),
    maybe(metadata.max_ledger_effective_time, long),
    long(metadata.preparation_time),
    list(metadata.input_contracts, input),
    ...(scheme === 'V3' ? [maybe(metadata.max_record_time, long)] : []),
  )
}

/** The 32 bytes that are signed. */
export const secondOpinion = ({ transaction, metadata }: Model, scheme: Scheme): Buffer =>
  sha(
    PURPOSE,
    byte(scheme === 'V2' ? 2 : 3),
    transactionOpinion(transaction, scheme),
    metadataOpinion(metadata, scheme),
  )
