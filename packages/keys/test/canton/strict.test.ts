import { describe, expect, test } from 'vitest'
import { toHex } from '../../src/bytes.ts'
import { openPrepared } from '../../src/canton/index.ts'
import { encodeModel, type LfCreate, type LfExercise, type LfNode, type LfValue, type Model } from './model.ts'
import { encodeMessage, rawField } from './protobuf.ts'
import { refusal } from './support.ts'
import { VECTORS } from './vectors.ts'

type Scheme = 'V2' | 'V3'

const modelOf = (scheme: Scheme): Model => structuredClone(VECTORS[scheme].model) as Model
const refused = (scheme: Scheme, change: (model: Model) => void) => {
  const model = modelOf(scheme)
  change(model)
  return refusal(() => openPrepared(encodeModel(model), scheme))
}
const nodeOf = (model: Model, id: string) =>
  model.transaction.nodes.find(({ node_id }) => node_id === id) as { v1: LfNode }
const exerciseOf = (model: Model) => (nodeOf(model, '4').v1 as { exercise: LfExercise }).exercise
const withArgument = (value: LfValue) => (model: Model) => {
  exerciseOf(model).chosen_value = value
}
/** A value inside so many lists. */
const nested = (levels: number): LfValue =>
  Array.from({ length: levels }).reduce<LfValue>((inner) => ({ list: { elements: [inner] } }), { unit: {} })

describe.each(['V2', 'V3'] as const)('with %s', (scheme) => {
  test('a field that is not known is refused, wherever it is', () => {
    const extra = (field: number) => rawField(field, Buffer.from('x'))
    const model = modelOf(scheme)
    const transaction = encodeMessage('DamlTransaction', model.transaction)
    const metadata = encodeMessage('Metadata', model.metadata)
    for (const bytes of [
      Buffer.concat([encodeModel(model), extra(3)]),
      Buffer.concat([rawField(1, Buffer.concat([transaction, extra(5)])), rawField(2, metadata)]),
      Buffer.concat([rawField(1, transaction), rawField(2, Buffer.concat([metadata, extra(1)]))]),
      Buffer.concat([rawField(1, transaction), rawField(2, Buffer.concat([metadata, extra(12)]))]),
    ])
      expect(refusal(() => openPrepared(bytes, scheme))).toBe('unsupported')
  })

  test('a version, kind of node or kind of value that is not known is refused', () => {
    expect(refused(scheme, ({ transaction }) => (transaction.version = '3'))).toBe('unsupported')
    expect(refused(scheme, ({ transaction }) => (transaction.version = 'dev'))).toBe('unsupported')
    expect(refused(scheme, (model) => (exerciseOf(model).lf_version = 'dev'))).toBe('unsupported')
    const model = modelOf(scheme)
    const transaction = encodeMessage('DamlTransaction', model.transaction)
    const metadata = rawField(2, encodeMessage('Metadata', model.metadata))
    for (const [what, node] of [
      ['version of a node', rawField(1001, Buffer.alloc(0))],
      ['kind of a node', rawField(1000, rawField(6, Buffer.alloc(0)))],
      ['no kind at all', rawField(1000, Buffer.alloc(0))],
    ] as const) {
      const added = rawField(3, Buffer.concat([rawField(1, Buffer.from('99')), node]))
      const bytes = Buffer.concat([rawField(1, Buffer.concat([transaction, added])), metadata])
      expect(
        refusal(() => openPrepared(bytes, scheme)),
        what,
      ).toBe('unsupported')
    }
    expect(refused(scheme, withArgument({} as LfValue))).toBe('unsupported')
    expect(refused(scheme, (model) => (exerciseOf(model).external_call_results = [{}]))).toBe('unsupported')
    expect(refused(scheme, ({ metadata }) => (metadata.global_key_mapping = [{}]))).toBe('unsupported')
  })

  test('a field that is there twice is refused: readers disagree on which one counts', () => {
    const { transaction, metadata } = modelOf(scheme)
    const parts = [
      rawField(1, encodeMessage('DamlTransaction', transaction)),
      rawField(2, encodeMessage('Metadata', metadata)),
    ] as const
    for (const again of parts)
      expect(refusal(() => openPrepared(Buffer.concat([...parts, again]), scheme))).toBe('malformed')
    const other = Buffer.concat([encodeMessage('Metadata', metadata), rawField(3, Buffer.from('other::id'))])
    expect(refusal(() => openPrepared(Buffer.concat([parts[0], rawField(2, other)]), scheme))).toBe('malformed')
  })

  test('each node stands in one place', () => {
    expect(refused(scheme, ({ transaction }) => transaction.roots.push('0'))).toBe('malformed')
    expect(refused(scheme, ({ transaction }) => transaction.roots.pop())).toBe('malformed')
    expect(refused(scheme, (model) => exerciseOf(model).children.push('2'))).toBe('malformed')
    expect(refused(scheme, (model) => exerciseOf(model).children.push('99'))).toBe('malformed')
    expect(
      refused(scheme, ({ transaction }) => transaction.nodes.push({ ...nodeOf(modelOf(scheme), '0'), node_id: '9' })),
    ).toBe('malformed')
    const circle = { rollback: { children: ['10'] } }
    expect(
      refused(scheme, ({ transaction }) =>
        transaction.nodes.push({ node_id: '9', v1: circle }, { node_id: '10', v1: { rollback: { children: ['9'] } } }),
      ),
    ).toBe('malformed')
    expect(
      refused(scheme, ({ transaction }) => transaction.nodes.push({ ...nodeOf(modelOf(scheme), '0'), node_id: '0' })),
    ).toBe('malformed')
    expect(refused(scheme, ({ transaction }) => (transaction.roots = []))).toBe('malformed')
  })

  test('seeds: one of 32 bytes for each create and exercise, and none without a node', () => {
    for (const id of [0, 4])
      expect(
        refused(scheme, ({ transaction }) => {
          transaction.node_seeds = transaction.node_seeds.filter(({ node_id }) => node_id !== id)
        }),
      ).toBe('malformed')
    expect(refused(scheme, ({ transaction }) => (transaction.node_seeds[0]!.seed = 'ab'.repeat(31)))).toBe('malformed')
    expect(
      refused(scheme, ({ transaction }) => transaction.node_seeds.push({ node_id: 99, seed: 'ab'.repeat(32) })),
    ).toBe('malformed')
    expect(refused(scheme, ({ transaction }) => transaction.node_seeds.push(transaction.node_seeds[0]!))).toBe(
      'malformed',
    )
  })

  test('a value that has two forms is refused in all but one', () => {
    for (const numeric of ['01.0', '1', '-0.0', '+1.0', '1e5', '1.0 ', '', `1.${'0'.repeat(38)}`, `${'9'.repeat(39)}.`])
      expect(refused(scheme, withArgument({ numeric })), numeric).toBe('malformed')
    for (const contract_id of ['00AB', '00a', '', '0x00', '00gg'])
      expect(refused(scheme, withArgument({ contract_id })), contract_id).toBe('malformed')
    const twice = [
      { label: 'a', value: { unit: {} } },
      { label: 'a', value: { bool: true } },
    ]
    expect(refused(scheme, withArgument({ record: { fields: twice } }))).toBe('malformed')
    expect(refused(scheme, withArgument({ record: { fields: [{ label: '', value: { unit: {} } }] } }))).toBe(
      'malformed',
    )
    const entries = twice.map(({ label, value }) => ({ key: label, value }))
    expect(refused(scheme, withArgument({ text_map: { entries } }))).toBe('malformed')
    expect(refused(scheme, (model) => exerciseOf(model).acting_parties.push('alice'))).toBe('malformed')
    expect(refused(scheme, ({ metadata }) => metadata.submitter_info.act_as.push('bob'))).toBe('malformed')
    expect(refused(scheme, ({ metadata }) => metadata.input_contracts.push(metadata.input_contracts[0]!))).toBe(
      'malformed',
    )
    expect(
      refused(scheme, ({ metadata }) => (metadata.transaction_uuid = metadata.transaction_uuid.toUpperCase())),
    ).toBe('malformed')
  })

  test('numbers out of their range are refused', () => {
    expect(refused(scheme, ({ metadata }) => (metadata.mediator_group = 2 ** 31))).toBe('malformed')
    expect(refused(scheme, ({ metadata }) => (metadata.mediator_group = 2 ** 32))).toBe('malformed')
    expect(refused(scheme, ({ metadata }) => (metadata.preparation_time = String(2n ** 63n)))).toBe('malformed')
    expect(refused(scheme, ({ metadata }) => (metadata.max_record_time = String(2n ** 62n)))).toBe('malformed')
    expect(refused(scheme, withArgument({ timestamp: String(2n ** 62n) }))).toBe('malformed')
    expect(refused(scheme, withArgument({ date: 2 ** 30 }))).toBe('malformed')
  })

  test('bytes that are no strict protobuf are refused', () => {
    const bytes = encodeModel(modelOf(scheme))
    for (const end of [1, 2, 100, bytes.length - 1])
      expect(['malformed', 'unsupported']).toContain(refusal(() => openPrepared(bytes.subarray(0, end), scheme)))
    expect(refusal(() => openPrepared(new Uint8Array(0), scheme))).toBe('malformed')
    const { transaction, metadata } = modelOf(scheme)
    const withMetadata = (extra: Uint8Array) =>
      Buffer.concat([
        rawField(1, encodeMessage('DamlTransaction', transaction)),
        rawField(2, Buffer.concat([encodeMessage('Metadata', { ...metadata, mediator_group: 0 }), extra])),
      ])
    // The mediator group, field 4, in writings that other readers accept.
    for (const [what, group] of [
      ['in a longer form', Buffer.of(0x20, 0x81, 0x00)],
      ['of more than 64 bits', Buffer.of(0x20, ...Array.from({ length: 9 }, () => 0xff), 0x02)],
      ['without an end', Buffer.of(0x20, 0x80)],
      ['as 32 fixed bits', Buffer.of(0x25, 1, 0, 0, 0)],
      ['as a group', Buffer.of(0x23, 0x24)],
      ['as bytes', Buffer.of(0x22, 0x01, 0x01)],
    ] as const)
      expect(
        refusal(() => openPrepared(withMetadata(group), scheme)),
        what,
      ).toBe('malformed')
    expect(openPrepared(withMetadata(Buffer.of(0x20, 0x01)), scheme).hash).toHaveLength(32)
    // A synchronizer (field 3) that is no UTF-8, and a field number of 0.
    const { synchronizer_id: _, ...rest } = metadata
    const named = (name: Uint8Array) =>
      Buffer.concat([
        rawField(1, encodeMessage('DamlTransaction', transaction)),
        rawField(2, Buffer.concat([encodeMessage('Metadata', rest), rawField(3, name)])),
      ])
    expect(refusal(() => openPrepared(named(Buffer.of(0xc0, 0x80)), scheme))).toBe('malformed')
    expect(refusal(() => openPrepared(Buffer.concat([bytes, Buffer.of(0x00, 0x01)]), scheme))).toBe('malformed')
  })

  test('deep and huge input is bounded', () => {
    expect(refused(scheme, withArgument(nested(100)))).toBe('too_large')
    const model = modelOf(scheme)
    withArgument(nested(99))(model)
    expect(openPrepared(encodeModel(model), scheme).hash).toHaveLength(32)
    expect(refused(scheme, withArgument({ text: 'x'.repeat(4 << 20) }))).toBe('too_large')
    const withValue = (value: Uint8Array) => {
      const { argument: _, ...rest } = (nodeOf(modelOf(scheme), '0').v1 as { create: LfCreate }).create
      const create = Buffer.concat([encodeMessage('Create', rest), rawField(5, value)])
      const node = Buffer.concat([rawField(1, Buffer.from('9')), rawField(1000, rawField(1, create))])
      return refusal(() => openPrepared(rawField(1, rawField(3, node)), scheme))
    }
    // Elements of four bytes, and values within each other beyond what a stack holds.
    expect(withValue(rawField(11, Buffer.from('0a020a00'.repeat(50_000), 'hex')))).toBe('too_large')
    let bomb: Uint8Array = Buffer.alloc(0)
    for (let level = 0; level < 5_000; level += 1) bomb = rawField(11, rawField(1, bomb))
    expect(withValue(bomb)).toBe('too_large')
    expect(refused(scheme, chain(501))).toBe('too_large')
  })

  test('a long chain of nodes is read and hashed', () => {
    const long = modelOf(scheme)
    chain(400)(long)
    expect(openPrepared(encodeModel(long), scheme).hash).toHaveLength(32)
  })
})

describe('what V2 does not hash of contract keys must not be there', () => {
  test('a key, a use by key, a query', () => {
    const { key } = (nodeOf(modelOf('V3'), '0').v1 as { create: { key: LfExercise['key'] } }).create
    expect(refused('V2', (model) => (exerciseOf(model).key = key!))).toBe('unsupported')
    expect(refused('V2', (model) => (exerciseOf(model).by_key = true))).toBe('unsupported')
    expect(refused('V2', ({ metadata }) => (metadata.input_contracts[0]!.v1.key = key!))).toBe('unsupported')
    expect(refusal(() => openPrepared(encodeModel(modelOf('V3')), 'V2'))).toBe('unsupported')
  })

  test('nor in a node of version 2.1 with V3', () => {
    expect(refused('V3', (model) => (exerciseOf(model).lf_version = '2.1'))).toBe('unsupported')
  })

  test('a node is not of a later version than its transaction', () => {
    expect(refused('V3', ({ transaction }) => (transaction.version = '2.1'))).toBe('malformed')
  })
})

test('V3 covers the last time at which the transaction may be recorded, V2 does not', () => {
  const later = (scheme: Scheme) => {
    const model = modelOf(scheme)
    const before = toHex(openPrepared(encodeModel(model), scheme).hash)
    model.metadata.max_record_time = '9592000000000'
    return before === toHex(openPrepared(encodeModel(model), scheme).hash)
  }
  expect([later('V2'), later('V3')]).toEqual([true, false])
})

/** So many rollbacks within each other. */
const chain = (levels: number) => (model: Model) => {
  const ids = Array.from({ length: levels }, (_, at) => String(1000 + at))
  model.transaction.roots.push('1000')
  for (const [at, id] of ids.entries())
    model.transaction.nodes.push({ node_id: id, v1: { rollback: { children: ids.slice(at + 1, at + 2) } } })
}
