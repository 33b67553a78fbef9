import type { Id, Key, LfCreate, LfExercise, LfFetch, LfMetadata, LfQuery, LfTransaction, LfValue } from './model.ts'

/*
 * Published test vectors of digital-asset/canton (Apache-2.0) at commit 1a7b4a8fc2c01b0ab9f5c827c7a5bb50623a7724, folder
 * community/common/src/test/scala/com/digitalasset/canton/protocol/hash: inputs from HashUtilsTest and BaseNodeHashTest, values from
 * ValueHashTest, results of V2 and V3 from v2/ and v3/NodeHashTest and MetadataHashTest. There one node stands in several places of the
 * transaction; here it is repeated under other ids, which no hash covers.
 */

const id = (module_name: string, entity_name: string, package_id = 'package'): Id => ({
  package_id,
  module_name,
  entity_name,
})

const CID_1 = '0007e7b5534931dfca8e1b485c105bae4e10808bd13ddc8e897f258015f9d921c5'
const CID_2 = '0059b59ad7a6b6066e77b91ced54b8282f0e24e7089944685cb8f22f32fcbc4e1b'
/** `hashPrivateKey("#dummyCid")` as a contract id. */
const CID_DUMMY = '0097a092402108f5593bac7fb3c909cd316910197dd98d603042a45ab85c81e0fd'
const SEEDS = {
  create: '926bbb6f341bc0092ae65d06c6e284024907148cc29543ef6bff0930f5d52c19',
  fetch: '4d2a522e9ee44e31b9bef2e3c8a07d43475db87463c6a13c4ea92f898ac8a930',
  exercise: 'a867edafa1277f46f879ab92c373a15c2d75c5d86fec741705cee1eb01ef8c9e',
}

const KEY: Key = {
  key: {
    template_id: id('module_key', 'name'),
    package_name: 'package_name_key',
    key: { text: 'hello' },
    hash: '4d1741d27564ab1f1e74873034760583a1a71edaa90dbad6be3a78c0bf3eec7c',
  },
  maintainers: ['david'],
}

/** V2's nodes are of version 2.1 and without keys, V3's of version 2 and with them. */
const versionOf = (scheme: 'V2' | 'V3') => (scheme === 'V2' ? '2.1' : '2')

function transactionOf(scheme: 'V2' | 'V3'): LfTransaction {
  const common = {
    lf_version: versionOf(scheme),
    contract_id: CID_1,
    package_name: 'package-name-0',
    template_id: id('module', 'name'),
    ...(scheme === 'V3' && { key: KEY }),
  }
  const byKey = scheme === 'V3' ? { by_key: true } : {}
  const create: LfCreate = {
    ...common,
    argument: { text: 'hello' },
    signatories: ['alice', 'bob'],
    stakeholders: ['alice', 'charlie'],
  }
  const seen = { signatories: ['alice'], stakeholders: ['charlie'], acting_parties: ['alice', 'bob'] }
  const fetch: LfFetch = { ...common, ...seen, ...byKey }
  const exercise: LfExercise = {
    ...common,
    ...seen,
    ...byKey,
    interface_id: id('interface_module', 'interface_name'),
    choice_id: 'choice',
    chosen_value: { int64: '31380' },
    consuming: true,
    children: ['6', '7'],
    exercise_result: { text: 'result' },
    choice_observers: ['david'],
  }
  return {
    version: versionOf(scheme),
    roots: ['0', '5'],
    nodes: [
      { node_id: '0', v1: { create } },
      { node_id: '2', v1: { fetch } },
      { node_id: '4', v1: { exercise } },
      { node_id: '5', v1: { rollback: { children: ['2', '4'] } } },
      { node_id: '6', v1: { create } },
      { node_id: '7', v1: { fetch } },
    ],
    node_seeds: [
      { node_id: 0, seed: SEEDS.create },
      { node_id: 2, seed: SEEDS.fetch },
      { node_id: 4, seed: SEEDS.exercise },
      { node_id: 6, seed: SEEDS.create },
      { node_id: 7, seed: SEEDS.fetch },
    ],
  }
}

function metadataOf(scheme: 'V2' | 'V3'): LfMetadata {
  const input = (contract_id: string, party: string, created_at: string, event_blob: string) => ({
    v1: {
      lf_version: versionOf(scheme),
      contract_id,
      package_name: 'PkgName',
      template_id: id('DummyModule', 'dummyName', '-dummyPkg-'),
      argument: { contract_id: CID_DUMMY },
      signatories: [party],
      stakeholders: [party],
    },
    created_at,
    event_blob,
  })
  return {
    submitter_info: { act_as: ['alice', 'bob'], command_id: 'command-id' },
    synchronizer_id: 'synchronizer::id',
    mediator_group: 0,
    transaction_uuid: '4c6471d3-4e09-49dd-addf-6cd90e19c583',
    preparation_time: '0',
    // 10 and 20 days after 1970.
    input_contracts: [input(CID_1, 'alice', '864000000000', '0010'), input(CID_2, 'bob', '1728000000000', '0050')],
    min_ledger_effective_time: String(0xaaaa),
    max_ledger_effective_time: String(0xbbbb),
    // 30 days after 1970.
    max_record_time: '2592000000000',
  }
}

export const VECTORS = {
  V2: {
    model: { transaction: transactionOf('V2'), metadata: metadataOf('V2') },
    nodes: {
      create: ['0', '6d2cfe58c2294000592034f4bdfe397fe246901bb8b63e3b9e041bb478e174b7'],
      fetch: ['2', 'c962c6098394f3d11cd6f0c795de9517d32a8e3e1979cec76cd2f66254efc610'],
      exercise: ['4', '070970eb4b2de72561dafb67017ca33850650a8103e5134e16044ba78991f48c'],
      rollback: ['5', '7264d5da2fd714427453bedc0d1cdb21f52ac7aec8d4bb5ac0598d25c5fcaed9'],
    },
    transaction: '154f334d24a8a5e4d0ce51ac87d93821b3256f885f21d3f779a1640abf481983',
    metadata: '6e89fcbcc9605179a47919b5e65a864e470e7a133f4f9f39b1e4545b223db769',
    full: '8c311c848db25d36b36fbd59f9483714a11688c2214e3c7cae3e028763520250',
  },
  V3: {
    model: { transaction: transactionOf('V3'), metadata: metadataOf('V3') },
    nodes: {
      create: ['0', '0120d370509f54c07d8209f5af2d23f7f972997deb5fc5e0ebe886354395a3bc'],
      fetch: ['2', '20437df1980bb7d4d94ad53181dc6005bae37b5990719070c48a3960e8dda3a4'],
      exercise: ['4', '516c4689acabf9d1f0087a02a7dafad884d9080c48112a57a6d20b9f72d4b697'],
      rollback: ['5', 'ea61ab05f9ab9769ab5c91493a601ccad9e784bd4c0b3bc4b7777f0da68eab4d'],
    },
    transaction: '36f0d1f4e9742a5cf54795fd1633f46b8235fafa93da006dafe10eb358d465c4',
    metadata: '5a4c6aa89bb80d0af05a3f0614ba07bc7469795fff66d7b9e87c876eb0137e0a',
    full: 'db37e4e251b83196260900fd43aacf934e1893b7ac58db4c1bfa8ced432b3b84',
  },
} as const

const QUERY: LfQuery = {
  lf_version: '2',
  package_name: 'package-name-0',
  template_id: id('module', 'name'),
  exhaustive: true,
  key: KEY,
  result: [CID_1],
}

/** A query by key, which only V3 has. */
export const QUERY_VECTOR = {
  transaction: {
    version: '2',
    roots: ['0'],
    nodes: [{ node_id: '0', v1: { query_by_key: QUERY } }],
    node_seeds: [],
  } satisfies LfTransaction,
  hash: '72c45c5a05a875621f16f2fe64d6c6db662ff41ee124d6c4f281409f5899b96c',
}

/** SHA-256 of the encoding of single values, the same in all versions. */
export const VALUE_VECTORS: readonly (readonly [LfValue, string])[] = [
  [{ unit: {} }, '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'],
  [{ bool: true }, '9dcf97a184f32623d11a73124ceb99a5709b083721e878a16d78f596718ba7b2'],
  [{ bool: false }, '47dc540c94ceb704a23875c11273e16bb0b8a87aed84de911f2133568115f254'],
  [{ text: 'hello world!' }, 'a24821b4741b3616920a37dfccf3b1e271184c82fc89377ab22e5d96d9330e5c'],
  [{ numeric: '125.1002' }, 'fd23ea3b05b8b0e1d15902cccf7c6c0e6e292f0ae3e96513c8d8cec9d4f9bda9'],
  [{ contract_id: CID_2 }, '6a3e241cebc1dc5e7574be0cf122edc9cb65ffc3fa59fb069c5ab3bbb4598414'],
  [
    { enum: { enum_id: id('module', 'name'), constructor: 'ENUM' } },
    '9c8f627c22d6871e111e1f5d1980a6a24bcc6311bbc73fd3932a4d79fa9c09f2',
  ],
  [{ int64: '10' }, 'a74730eb88baf5118934d3675ccf50eac1e4e873000ecd75b5917c78ee30ef26'],
  [
    { variant: { variant_id: id('module', 'name'), constructor: 'ENUM', value: { bool: true } } },
    'bceee77c48d80db35f237c3877c6711db19a8c135d2d0323c21f01afc2eb7612',
  ],
  [
    { list: { elements: [{ text: 'five' }, { int64: '5' }, { bool: true }] } },
    '6049408351d7be2c9d6ae7a1beecf08676fa72955c376c89571a1c5f04f272bd',
  ],
  [
    {
      text_map: {
        entries: [
          { key: 'bar', value: { text: '1284' } },
          { key: 'foo', value: { numeric: '31380.0' } },
        ],
      },
    },
    'b318100aac8cde766598a0a5bc05451feaec7c90400f75de93100d0c87ec24cf',
  ],
  [
    {
      gen_map: {
        entries: [
          { key: { int64: '5' }, value: { text: 'five' } },
          { key: { int64: '10' }, value: { text: 'ten' } },
        ],
      },
    },
    '523c5247ed42efa40dd6b0165a01c1b14dcede7b39a1f33a3590fc7defc4a610',
  ],
  [{ optional: {} }, 'a2c4aed1cf757cd9a509734a267ffc7b1166b55f4c8f9c3e3550c56e743328fc'],
  [{ optional: { value: { text: 'hello' } } }, 'dfba7295cf094b6b3ffdf3e44411793264882b38c810f9dff63148890a466171'],
  [{ timestamp: '1729788226000000' }, '18efa9ad9adfa83fc3e84cdbe9c4b9f0e7305376e858e5bd909117209111c9d5'],
  [{ date: 20020 }, '6892b74f329df4e0fd850c0e4d35384d3a4aef0a2f0f32070172c1f121ff632f'],
  [
    {
      record: {
        record_id: id('module', 'name'),
        fields: [
          { label: 'field1', value: { bool: true } },
          { label: 'field2', value: { text: 'hello' } },
        ],
      },
    },
    'ae594f7684700c299af9bc0b83758f2d71836ae6d9ea628d310f0305698df6f2',
  ],
]
