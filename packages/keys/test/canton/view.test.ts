import { expect, test } from 'vitest'
import { type ExerciseView, type Json, nodesOf, openPrepared } from '../../src/canton/index.ts'
import { encodeModel, type LfExercise, type LfValue, type Model } from './model.ts'
import { VECTORS } from './vectors.ts'

const [CID_1, CID_2] = VECTORS.V2.model.metadata.input_contracts.map(({ v1 }) => v1.contract_id) as [string, string]

/** What a policy sees of a value. */
function shown(value: LfValue): Json {
  const model = structuredClone(VECTORS.V2.model) as Model
  for (const { v1 } of model.transaction.nodes) if ('exercise' in v1) (v1.exercise as LfExercise).chosen_value = value
  const [, rollback] = openPrepared(encodeModel(model), 'V2').roots
  return ((rollback as { children: readonly ExerciseView[] }).children[1] as ExerciseView).arguments
}

const contract = {
  contractId: CID_1,
  packageName: 'package-name-0',
  templateId: 'package:module:name',
}
const create = {
  kind: 'create',
  ...contract,
  arguments: 'hello',
  signatories: ['alice', 'bob'],
  observers: ['charlie'],
}
const fetch = {
  kind: 'fetch',
  ...contract,
  signatories: ['alice'],
  observers: ['charlie'],
  actingParties: ['alice', 'bob'],
}
const exercise = {
  ...fetch,
  kind: 'exercise',
  interfaceId: 'package:interface_module:interface_name',
  choice: 'choice',
  arguments: '31380',
  consuming: true,
  choiceObservers: ['david'],
  result: 'result',
}

test('a prepared transaction is shown as the tree of what happens, with its metadata', () => {
  const view = openPrepared(encodeModel(VECTORS.V2.model as unknown as Model), 'V2')
  expect(view).toEqual({
    scheme: 'V2',
    hash: Uint8Array.from(Buffer.from(VECTORS.V2.full, 'hex')),
    roots: [create, { kind: 'rollback', children: [fetch, { ...exercise, children: [create, fetch] }] }],
    actAs: ['alice', 'bob'],
    commandId: 'command-id',
    synchronizerId: 'synchronizer::id',
    transactionUuid: '4c6471d3-4e09-49dd-addf-6cd90e19c583',
    preparedAt: '1970-01-01T00:00:00.000000Z',
    minLedgerTime: '1970-01-01T00:00:00.043690Z',
    maxLedgerTime: '1970-01-01T00:00:00.048059Z',
    maxRecordTime: '1970-01-31T00:00:00.000000Z',
    inputs: [CID_1, CID_2].map((contractId, at) => ({
      contractId,
      packageName: 'PkgName',
      templateId: '-dummyPkg-:DummyModule:dummyName',
      signatories: [['alice'], ['bob']][at],
      observers: [],
      arguments: '0097a092402108f5593bac7fb3c909cd316910197dd98d603042a45ab85c81e0fd',
      createdAt: ['1970-01-11T00:00:00.000000Z', '1970-01-21T00:00:00.000000Z'][at],
    })),
  })
})

test('contract keys are shown with V3', () => {
  const { roots } = openPrepared(encodeModel(VECTORS.V3.model as unknown as Model), 'V3')
  const key = { templateId: 'package:module_key:name', value: 'hello', maintainers: ['david'] }
  expect(roots[0]).toEqual({ ...create, key })
})

test('nodes are listed in the order in which they happen', () => {
  const { roots } = openPrepared(encodeModel(VECTORS.V2.model as unknown as Model), 'V2')
  const kinds = [...nodesOf(roots)].map(({ kind }) => kind)
  expect(kinds).toEqual(['create', 'rollback', 'fetch', 'exercise', 'create', 'fetch'])
})

test.each<[LfValue, Json]>([
  [{ unit: {} }, {}],
  [{ bool: false }, false],
  [{ int64: '9223372036854775807' }, '9223372036854775807'],
  [{ int64: '-9223372036854775808' }, '-9223372036854775808'],
  [{ numeric: '10.0000000000' }, '10.0000000000'],
  [{ date: 20020 }, '2024-10-24'],
  [{ date: -719_162 }, '0001-01-01'],
  [{ timestamp: '1729788226000001' }, '2024-10-24T16:43:46.000001Z'],
  [{ timestamp: '-1' }, '1969-12-31T23:59:59.999999Z'],
  [{ timestamp: '-62135596800000000' }, '0001-01-01T00:00:00.000000Z'],
  [{ timestamp: '253402300799999999' }, '9999-12-31T23:59:59.999999Z'],
  [{ party: 'alice::1220' }, 'alice::1220'],
  [{ text: '\ufeff"' }, '\ufeff"'],
  [{ contract_id: '00ab' }, '00ab'],
  [{ optional: {} }, null],
  [{ optional: { value: { int64: '1' } } }, '1'],
  [{ optional: { value: { optional: {} } } }, []],
  [{ optional: { value: { optional: { value: { bool: true } } } } }, [true]],
  [{ optional: { value: { optional: { value: { optional: {} } } } } }, [[]]],
  [{ list: { elements: [{ bool: true }, { unit: {} }] } }, [true, {}]],
  [{ text_map: { entries: [{ key: 'k', value: { bool: true } }] } }, { k: true }],
  [{ gen_map: { entries: [{ key: { int64: '1' }, value: { bool: true } }] } }, [['1', true]]],
  [{ record: { fields: [{ label: 'owner', value: { party: 'bob' } }] } }, { owner: 'bob' }],
  [{ variant: { constructor: 'Left', value: { int64: '1' } } }, { tag: 'Left', value: '1' }],
  [{ enum: { constructor: 'Red' } }, 'Red'],
])('the value %j is shown as %j', (value, json) => {
  expect(shown(value)).toStrictEqual(json)
})

test('a field named like a part of every object is a field like others', () => {
  const json = shown({ record: { fields: [{ label: '__proto__', value: { record: { fields: [] } } }] } })
  expect(Object.getPrototypeOf(json)).toBe(Object.prototype)
  expect(Object.keys(json as object)).toEqual(['__proto__'])
})
