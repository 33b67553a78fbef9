import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { toHex } from '../../src/bytes.ts'
import { openPrepared } from '../../src/canton/index.ts'
import { encodeModel, type Model } from './model.ts'
import { randomModel } from './random.ts'
import { secondOpinion } from './second-opinion.ts'
import { VECTORS } from './vectors.ts'

/**
 * Where digital-asset/canton's community/app/src/pack/examples/08-interactive-submission is. It is not part of this repository: without it the
 * second opinion and the vectors speak for it.
 */
const REFERENCE = process.env.HALFKEY_TEST_CANTON_REFERENCE
const SCRIPT = fileURLToPath(new URL('reference.py', import.meta.url))

describe.skipIf(REFERENCE === undefined)('the Python reference', () => {
  test('agrees with us and with the second opinion on 1,000 random transactions of each version', () => {
    const cases = (['V2', 'V3'] as const).flatMap((scheme) => [
      { scheme, model: VECTORS[scheme].model as unknown as Model },
      ...Array.from({ length: 1000 }, (_, seed) => ({ scheme, model: randomModel(seed, { scheme }) })),
    ])
    const input = cases.map((one) => JSON.stringify(one)).join('\n')
    const { status, stdout, stderr } = spawnSync('python3', [SCRIPT, REFERENCE as string], {
      input,
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    })
    expect(status, stderr).toBe(0)
    const hashes = stdout.trim().split('\n')
    expect(hashes).toHaveLength(cases.length)
    for (const [at, { scheme, model }] of cases.entries()) {
      expect(toHex(openPrepared(encodeModel(model), scheme).hash), `case ${at}`).toBe(hashes[at])
      expect(secondOpinion(model, scheme).toString('hex'), `case ${at}`).toBe(hashes[at])
    }
  })
})
