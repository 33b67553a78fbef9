import { Create, PreparedTransaction } from '@canton-network/core-ledger-proto'
import {
  computeMultiHashForTopology,
  computeSha256CantonHash,
  hashPreparedTransaction,
} from '@canton-network/core-tx-visualizer'
import { expect, test } from 'vitest'
import { toHex } from '../../src/bytes.ts'
import { multiHashOf, openPrepared, topologyHash } from '../../src/canton/index.ts'
import { encodeModel, type Model } from './model.ts'
import { encodeMessage } from './protobuf.ts'
import { randomModel } from './random.ts'
import { VECTORS } from './vectors.ts'

/*
 * The network's own packages as a second opinion: the visualizer hashes V2 and rounds int64 beyond 2^53, so that it gets none; both read
 * protobuf with another library.
 */

test('V2 agrees with the network’s visualizer on 1,000 random transactions', async () => {
  for (let seed = 0; seed < 1000; seed += 1) {
    const bytes = encodeModel(randomModel(seed, { scheme: 'V2', doubles: true }))
    const theirs = await hashPreparedTransaction(bytes.toString('base64'), 'hex')
    expect(toHex(openPrepared(bytes, 'V2').hash), `seed ${seed}`).toBe(theirs)
  }
})

test('what the network’s package writes is read, and the tests write the same bytes', () => {
  const bytes = encodeModel(VECTORS.V2.model as unknown as Model)
  const written = PreparedTransaction.toBinary(PreparedTransaction.fromBinary(bytes))
  expect(toHex(written)).toBe(toHex(bytes))
  expect(toHex(openPrepared(written, 'V2').hash)).toBe(VECTORS.V2.full)
})

test('the network’s package drops a contract key without a word: why we read ourselves', () => {
  const { create } = VECTORS.V3.model.transaction.nodes[0]!.v1 as { create: object }
  const read = Create.fromBinary(encodeMessage('Create', create))
  expect(Object.keys(read)).not.toContain('key')
})

test('multi-hashes of topology agree', async () => {
  const transactions = Array.from({ length: 5 }, (_, at) => Uint8Array.of(at, at * 7))
  const content = await computeMultiHashForTopology(transactions.map(topologyHash))
  expect(toHex(multiHashOf(transactions))).toBe(toHex(await computeSha256CantonHash(55, content)))
  for (const transaction of transactions)
    expect(toHex(topologyHash(transaction))).toBe(toHex(await computeSha256CantonHash(11, transaction)))
})
