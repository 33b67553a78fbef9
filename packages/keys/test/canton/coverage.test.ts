import { describe, expect, test } from 'vitest'
import { openPrepared } from '../../src/canton/index.ts'
import { encodeModel } from './model.ts'
import { fieldsWithin, rawField } from './protobuf.ts'
import { randomModel } from './random.ts'
import { refusal } from './support.ts'

/*
 * What the comparison with second opinions is worth: it speaks for a field only if the random transactions have it. And a field that is
 * not known is refused in each kind of message, not only in those that a test happens to name.
 */

/** Refused whenever they are there (strict.test.ts). */
const REFUSED = ['Metadata.global_key_mapping', 'Exercise.external_call_results']
/** Contract keys, which V2 does not hash and which are refused there. */
const OF_KEYS =
  /^(?:QueryByKey|GlobalKey|GlobalKeyWithMaintainers)\.|^(?:Create|Fetch|Exercise)\.(?:key|by_key)$|\.query_by_key$/
const MODELS = 200
/** A number that no message has. */
const UNKNOWN = rawField(2000, Buffer.from('x'))

describe.each(['V2', 'V3'] as const)('the random transactions of %s', (scheme) => {
  const models = Array.from({ length: MODELS }, (_, seed) => randomModel(seed, { scheme }))
  const expected = [...fieldsWithin('PreparedTransaction')].filter(
    (field) => !REFUSED.includes(field) && (scheme === 'V3' || !OF_KEYS.test(field)),
  )

  test('have every field that is read', () => {
    const seen = new Set<string>()
    for (const model of models)
      encodeModel(model, (type, bytes, names) => {
        for (const name of names) seen.add(`${type}.${name}`)
        return bytes
      })
    expect([...seen].sort()).toEqual(expected.sort())
  })

  test('are refused with a field that is not known, in every kind of message', () => {
    const tried = new Set<string>()
    for (const model of models) {
      const types = new Set<string>()
      encodeModel(model, (type, bytes) => {
        types.add(type)
        return bytes
      })
      for (const type of types) {
        if (tried.has(type)) continue
        tried.add(type)
        let isDone = false
        const bytes = encodeModel(model, (kind, content) => {
          if (kind !== type || isDone) return content
          isDone = true
          return Buffer.concat([content, UNKNOWN])
        })
        expect(
          refusal(() => openPrepared(bytes, scheme)),
          type,
        ).toBe('unsupported')
      }
    }
    const kinds = new Set(expected.map((field) => field.slice(0, field.indexOf('.'))))
    expect([...tried].sort()).toEqual([...kinds, 'Empty'].sort())
  })
})
