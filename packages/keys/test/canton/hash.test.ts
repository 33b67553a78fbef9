import { describe, expect, test } from 'vitest'
import { toHex } from '../../src/bytes.ts'
import { Hasher } from '../../src/canton/encoding.ts'
import { metadataHash, nodeHash, transactionHash } from '../../src/canton/hash.ts'
import { openPrepared } from '../../src/canton/index.ts'
import { readPrepared } from '../../src/canton/prepared.ts'
import { readValue } from '../../src/canton/value.ts'
import { readMessage } from '../../src/canton/wire.ts'
import { encodeModel, type LfValue, type Model } from './model.ts'
import { encodeMessage } from './protobuf.ts'
import { randomModel } from './random.ts'
import { metadataOpinion, nodeOpinion, secondOpinion, transactionOpinion, valueBytes } from './second-opinion.ts'
import { QUERY_VECTOR, VALUE_VECTORS, VECTORS } from './vectors.ts'

const LIMITS = { bytes: 1e6, fields: 1e5, depth: 400 }
const valueHash = (value: LfValue) =>
  toHex(new Hasher().value(readMessage(encodeMessage('Value', value), LIMITS, readValue)).digest())

describe.each(['V2', 'V3'] as const)('the published vectors of %s', (scheme) => {
  const vector = VECTORS[scheme]
  const model = vector.model as Model
  const prepared = readPrepared(encodeModel(model))

  test.each(Object.entries(vector.nodes))('%s', (_kind, [id, hash]) => {
    expect(toHex(nodeHash(prepared, id, scheme))).toBe(hash)
    expect(nodeOpinion(model.transaction, id, scheme).toString('hex')).toBe(hash)
  })

  test('transaction', () => {
    expect(toHex(transactionHash(prepared, scheme))).toBe(vector.transaction)
    expect(transactionOpinion(model.transaction, scheme).toString('hex')).toBe(vector.transaction)
  })

  test('metadata', () => {
    expect(toHex(metadataHash(prepared.metadata, scheme))).toBe(vector.metadata)
    expect(metadataOpinion(model.metadata, scheme).toString('hex')).toBe(vector.metadata)
  })

  test('full: this is what is signed', () => {
    expect(toHex(openPrepared(encodeModel(model), scheme).hash)).toBe(vector.full)
    expect(secondOpinion(model, scheme).toString('hex')).toBe(vector.full)
  })
})

test('the published vector of a query by key', () => {
  const { transaction, hash } = QUERY_VECTOR
  const prepared = readPrepared(encodeModel({ transaction, metadata: VECTORS.V3.model.metadata as Model['metadata'] }))
  expect(toHex(nodeHash(prepared, '0', 'V3'))).toBe(hash)
  expect(nodeOpinion(transaction, '0', 'V3').toString('hex')).toBe(hash)
})

test.each(VALUE_VECTORS)('the published vector of the value %j', (value, hash) => {
  expect(valueHash(value)).toBe(hash)
})

test.each([2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 53n) - 1n])(
  'int64 %d is exact',
  (int64) => {
    const hash = valueHash({ int64: int64.toString() })
    expect(hash).toBe(toHex(new Hasher().byte(2).int64(int64).digest()))
    expect(hash).toBe(toHex(new Hasher().raw(valueBytes({ int64: int64.toString() })).digest()))
    expect(hash).not.toBe(valueHash({ int64: (int64 ^ 1n).toString() }))
  },
)

test('a byte order mark is part of a text', () => {
  expect(valueHash({ text: '\ufeffhello' })).not.toBe(valueHash({ text: 'hello' }))
})

test.each(['V2', 'V3'] as const)('%s agrees with the second opinion on 1,000 random transactions', (scheme) => {
  const kinds = new Set<string>()
  for (let seed = 0; seed < 1000; seed += 1) {
    const model = randomModel(seed, { scheme })
    for (const { v1 } of model.transaction.nodes) for (const kind of Object.keys(v1)) kinds.add(kind)
    expect(toHex(openPrepared(encodeModel(model), scheme).hash), `seed ${seed}`).toBe(
      secondOpinion(model, scheme).toString('hex'),
    )
  }
  expect(kinds.size).toBe(scheme === 'V3' ? 5 : 4)
})
