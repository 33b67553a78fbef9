import { expect, test } from 'vitest'
import { unwrapPrepared, wrapPrepared } from '../../src/canton/index.ts'
import { flips } from '../support.ts'
import { refusal } from './support.ts'

const PREPARED = Uint8Array.from({ length: 200 }, (_, at) => at)

test.each(['V2', 'V3'] as const)('an envelope gives back the bytes and %s', (scheme) => {
  expect(unwrapPrepared(wrapPrepared({ scheme, prepared: PREPARED }))).toEqual({ scheme, prepared: PREPARED })
})

test('every changed bit is noticed', () => {
  for (const flipped of flips(wrapPrepared({ scheme: 'V2', prepared: PREPARED })))
    expect(refusal(() => unwrapPrepared(flipped))).toBe('changed')
})

test('a byte more or less is noticed, and a part of an envelope', () => {
  const envelope = wrapPrepared({ scheme: 'V3', prepared: PREPARED })
  for (let end = 0; end < envelope.length; end += 1)
    expect(refusal(() => unwrapPrepared(envelope.slice(0, end)))).toBe('changed')
  expect(refusal(() => unwrapPrepared(Uint8Array.of(...envelope, 0)))).toBe('changed')
  expect(refusal(() => unwrapPrepared(envelope.slice(1)))).toBe('changed')
})

test('bytes without an envelope, and an empty envelope, are refused', () => {
  expect(refusal(() => unwrapPrepared(PREPARED))).toBe('changed')
  expect(refusal(() => unwrapPrepared(wrapPrepared({ scheme: 'V2', prepared: new Uint8Array(0) })))).toBe('changed')
  expect(refusal(() => unwrapPrepared(new Uint8Array(5 << 20)))).toBe('too_large')
})
