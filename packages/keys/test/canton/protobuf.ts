/**
 * Writes the messages of a participant from plain objects whose names are those of the public definitions. It shares nothing with what
 * is tested: numbers and types are transcribed a second time, and it writes where that reads.
 */

/** `[number, type, rule]`. `many`: repeated. `set`: written whenever it is there, also with its default (optional, oneof). */
type FieldOf = readonly [number: number, type: string, rule?: 'many' | 'set' | 'packed']
type MessageOf = Readonly<Record<string, FieldOf>>

const MESSAGES: Readonly<Record<string, MessageOf>> = {
  PreparedTransaction: { transaction: [1, 'DamlTransaction'], metadata: [2, 'Metadata'] },
  DamlTransaction: {
    version: [1, 'string'],
    roots: [2, 'string', 'many'],
    nodes: [3, 'TransactionNode', 'many'],
    node_seeds: [4, 'NodeSeed', 'many'],
  },
  NodeSeed: { node_id: [1, 'int32'], seed: [2, 'bytes'] },
  TransactionNode: { node_id: [1, 'string'], v1: [1000, 'Node'] },
  Node: {
    create: [1, 'Create'],
    fetch: [2, 'Fetch'],
    exercise: [3, 'Exercise'],
    rollback: [4, 'Rollback'],
    query_by_key: [5, 'QueryByKey'],
  },
  Create: {
    lf_version: [1, 'string'],
    contract_id: [2, 'string'],
    package_name: [3, 'string'],
    template_id: [4, 'Identifier'],
    argument: [5, 'Value'],
    signatories: [6, 'string', 'many'],
    stakeholders: [7, 'string', 'many'],
    key: [8, 'GlobalKeyWithMaintainers'],
  },
  Fetch: {
    lf_version: [1, 'string'],
    contract_id: [2, 'string'],
    package_name: [3, 'string'],
    template_id: [4, 'Identifier'],
    signatories: [5, 'string', 'many'],
    stakeholders: [6, 'string', 'many'],
    acting_parties: [7, 'string', 'many'],
    interface_id: [8, 'Identifier'],
    key: [9, 'GlobalKeyWithMaintainers'],
    by_key: [10, 'bool'],
  },
  Exercise: {
    lf_version: [1, 'string'],
    contract_id: [2, 'string'],
    package_name: [3, 'string'],
    template_id: [4, 'Identifier'],
    signatories: [5, 'string', 'many'],
    stakeholders: [6, 'string', 'many'],
    acting_parties: [7, 'string', 'many'],
    interface_id: [8, 'Identifier'],
    choice_id: [9, 'string'],
    chosen_value: [10, 'Value'],
    consuming: [11, 'bool'],
    children: [12, 'string', 'many'],
    exercise_result: [13, 'Value'],
    choice_observers: [14, 'string', 'many'],
    key: [15, 'GlobalKeyWithMaintainers'],
    by_key: [16, 'bool'],
    external_call_results: [17, 'Empty', 'many'],
  },
  Rollback: { children: [1, 'string', 'many'] },
  QueryByKey: {
    lf_version: [1, 'string'],
    package_name: [2, 'string'],
    template_id: [3, 'Identifier'],
    exhaustive: [4, 'bool'],
    key: [5, 'GlobalKeyWithMaintainers'],
    result: [6, 'string', 'many'],
  },
  GlobalKeyWithMaintainers: { key: [1, 'GlobalKey'], maintainers: [2, 'string', 'many'] },
  GlobalKey: { template_id: [1, 'Identifier'], package_name: [2, 'string'], key: [3, 'Value'], hash: [4, 'bytes'] },
  Metadata: {
    submitter_info: [2, 'SubmitterInfo'],
    synchronizer_id: [3, 'string'],
    mediator_group: [4, 'uint32'],
    transaction_uuid: [5, 'string'],
    preparation_time: [6, 'uint64'],
    input_contracts: [7, 'InputContract', 'many'],
    global_key_mapping: [8, 'Empty', 'many'],
    min_ledger_effective_time: [9, 'uint64', 'set'],
    max_ledger_effective_time: [10, 'uint64', 'set'],
    max_record_time: [11, 'uint64', 'set'],
  },
  SubmitterInfo: { act_as: [1, 'string', 'many'], command_id: [2, 'string'] },
  InputContract: { v1: [1, 'Create'], created_at: [1000, 'uint64'], event_blob: [1002, 'bytes'] },
  Identifier: { package_id: [1, 'string'], module_name: [2, 'string'], entity_name: [3, 'string'] },
  Value: {
    unit: [1, 'Empty', 'set'],
    bool: [2, 'bool', 'set'],
    int64: [3, 'sint64', 'set'],
    date: [4, 'int32', 'set'],
    timestamp: [5, 'sfixed64', 'set'],
    numeric: [6, 'string', 'set'],
    party: [7, 'string', 'set'],
    text: [8, 'string', 'set'],
    contract_id: [9, 'string', 'set'],
    optional: [10, 'Optional'],
    list: [11, 'List'],
    text_map: [12, 'TextMap'],
    gen_map: [13, 'GenMap'],
    record: [14, 'Record'],
    variant: [15, 'Variant'],
    enum: [16, 'Enum'],
  },
  Empty: {},
  Optional: { value: [1, 'Value'] },
  List: { elements: [1, 'Value', 'many'] },
  TextMap: { entries: [1, 'TextMapEntry', 'many'] },
  TextMapEntry: { key: [1, 'string'], value: [2, 'Value'] },
  GenMap: { entries: [1, 'GenMapEntry', 'many'] },
  GenMapEntry: { key: [1, 'Value'], value: [2, 'Value'] },
  Record: { record_id: [1, 'Identifier'], fields: [2, 'RecordField', 'many'] },
  RecordField: { label: [1, 'string'], value: [2, 'Value'] },
  Variant: { variant_id: [1, 'Identifier'], constructor: [2, 'string'] as FieldOf, value: [3, 'Value'] },
  Enum: { enum_id: [1, 'Identifier'], constructor: [2, 'string'] as FieldOf },

  UntypedVersionedMessage: { data: [1, 'bytes', 'set'], version: [2, 'int32'] },
  TopologyTransaction: { operation: [1, 'int32'], serial: [2, 'uint32'], mapping: [3, 'TopologyMapping'] },
  TopologyMapping: {
    namespace_delegation: [1, 'NamespaceDelegation'],
    vetted_packages: [8, 'Empty'],
    party_to_participant: [9, 'PartyToParticipant'],
    party_to_key_mapping: [16, 'PartyToKeyMapping'],
  },
  NamespaceDelegation: {
    namespace: [1, 'string'],
    target_key: [2, 'SigningPublicKey'],
    is_root_delegation: [3, 'bool'],
    can_sign_all_mappings: [4, 'Empty', 'set'],
    can_sign_all_but_namespace_delegations: [5, 'Empty', 'set'],
  },
  PartyToParticipant: {
    party: [1, 'string'],
    threshold: [2, 'uint32'],
    participants: [3, 'HostingParticipant', 'many'],
    party_signing_keys: [6, 'SigningKeysWithThreshold'],
  },
  HostingParticipant: { participant_uid: [1, 'string'], permission: [2, 'int32'], onboarding: [3, 'Empty', 'set'] },
  PartyToKeyMapping: { party: [1, 'string'], threshold: [3, 'uint32'], signing_keys: [4, 'SigningPublicKey', 'many'] },
  SigningKeysWithThreshold: { keys: [1, 'SigningPublicKey', 'many'], threshold: [2, 'uint32'] },
  SigningPublicKey: {
    format: [2, 'int32'],
    public_key: [3, 'bytes'],
    scheme: [4, 'int32'],
    usage: [5, 'int32', 'packed'],
    key_spec: [6, 'int32'],
  },
}

const VARINTS = new Set(['bool', 'int32', 'uint32', 'uint64', 'sint64'])

/** Sees each message that is written, inner ones first, with the names of the fields it got, and may change its bytes. */
export type Tap = (type: string, bytes: Buffer, names: readonly string[]) => Buffer

/** All that a message and those in it can have, as `Message.field`. */
export function fieldsWithin(type: string, found = new Set<string>()): Set<string> {
  for (const [name, [, inner]] of Object.entries(MESSAGES[type] ?? {})) {
    if (found.has(`${type}.${name}`)) continue
    found.add(`${type}.${name}`)
    fieldsWithin(inner, found)
  }
  return found
}

/** A message's bytes. Bytes are hexadecimal texts, 64-bit numbers texts. Names that the message does not have are an error of the test. */
export function encodeMessage(type: string, message: object, tap: Tap = (_type, bytes) => bytes): Buffer {
  const fields = MESSAGES[type]
  if (fields === undefined) throw new Error(`there is no message ${type}`)
  for (const name of Object.keys(message)) if (!(name in fields)) throw new Error(`${type} has no field ${name}`)
  const values = message as Record<string, unknown>
  const names: string[] = []
  const parts = Object.entries(fields).flatMap(([name, field]) => {
    const written = Object.hasOwn(values, name) ? fieldBytes(field, values[name], tap) : []
    if (written.length > 0) names.push(name)
    return written
  })
  return tap(type, Buffer.concat(parts), names)
}

/** One field with its number, as the message has it. */
function fieldBytes([number, type, rule]: FieldOf, value: unknown, tap: Tap): Buffer[] {
  if (value === undefined) return []
  if (rule === 'many') return (value as unknown[]).map((one) => tagged(number, type, one, tap))
  if (rule === 'packed') return [rawField(number, Buffer.concat((value as number[]).map((one) => varint(BigInt(one)))))]
  const isDefault = value === '' || value === false || value === 0 || (VARINTS.has(type) && value === '0')
  return isDefault && rule !== 'set' ? [] : [tagged(number, type, value, tap)]
}

function tagged(number: number, type: string, value: unknown, tap: Tap): Buffer {
  if (type === 'string') return rawField(number, Buffer.from(value as string))
  if (type === 'bytes') return rawField(number, Buffer.from(value as string, 'hex'))
  if (type === 'sfixed64') {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value as string))
    return Buffer.concat([varint(BigInt(number * 8 + 1)), bytes])
  }
  if (VARINTS.has(type)) {
    const signed = BigInt(value as string)
    const plain = type === 'sint64' ? (signed << 1n) ^ (signed >> 63n) : signed
    return Buffer.concat([varint(BigInt(number * 8)), varint(plain)])
  }
  return rawField(number, encodeMessage(type, value as object, tap))
}

/** A field of bytes. */
export const rawField = (number: number, bytes: Uint8Array): Buffer =>
  Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(bytes.length)), bytes])

/** A number of 64 bits, negative ones in two's complement. */
export function varint(value: bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
    rest >>= 7n
  } while (rest > 0n)
  return Buffer.from(bytes)
}
