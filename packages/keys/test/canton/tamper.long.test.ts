import { expect, test } from 'vitest'
import { toHex } from '../../src/bytes.ts'
import { openPrepared } from '../../src/canton/index.ts'
import { flips } from '../support.ts'
import { encodeModel, type Model } from './model.ts'
import { encodeMessage, rawField, varint } from './protobuf.ts'
import { VECTORS } from './vectors.ts'

test.each(['V2', 'V3'] as const)(
  'with %s every changed bit is refused or changes the hash, except in what the algorithm leaves out',
  (scheme) => {
    const model = VECTORS[scheme].model as unknown as Model
    const bytes = encodeModel(model)
    const hash = toHex(openPrepared(bytes, scheme).hash)
    const unnoticed = new Set<number>()
    let bit = 0
    for (const flipped of flips(bytes)) {
      const seen = outcome(() => toHex(openPrepared(flipped, scheme).hash))
      if (seen === hash) unnoticed.add(bit >> 3)
      bit += 1
    }
    // docs/ledgers/canton.md, "What is hashed and what is not": this is all of it.
    const covered = bytesOfWhatIsNotHashed(model, bytes, scheme)
    for (const at of unnoticed) expect(covered, `byte ${at}`).toContain(at)
    expect(unnoticed.size).toBeGreaterThan(0)
  },
)

function outcome(run: () => string): string {
  try {
    return run()
  } catch {
    return 'refused'
  }
}

/** Where in the bytes those fields are which no hash covers, and their names, which a change can turn into each other. */
function bytesOfWhatIsNotHashed(model: Model, bytes: Buffer, scheme: 'V2' | 'V3'): Set<number> {
  const places = new Set<number>()
  const add = (part: Uint8Array) => {
    for (let at = bytes.indexOf(part); at >= 0; at = bytes.indexOf(part, at + 1))
      for (let offset = 0; offset < part.length; offset += 1) places.add(at + offset)
  }
  for (const { event_blob } of model.metadata.input_contracts) add(rawField(1002, Buffer.from(event_blob, 'hex')))
  for (const seed of model.transaction.node_seeds)
    if (seed.node_id === 2 || seed.node_id === 7) add(rawField(4, encodeMessage('NodeSeed', seed)))
  if (scheme === 'V2') add(Buffer.concat([Buffer.of(11 * 8), varint(BigInt(model.metadata.max_record_time as string))]))
  return places
}
