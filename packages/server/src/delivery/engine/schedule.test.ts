import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SETTINGS } from '../../platform/config.ts'
import { nextAfterFailure } from './schedule.ts'

const delays = fc.array(fc.integer({ min: 0, max: 7 * 86_400_000 }), { maxLength: 20 })
const random = fc.double({ min: 0, max: 1, noNaN: true })

test('a retry is never early and at most 10 % late', () => {
  fc.assert(
    fc.property(delays, fc.nat(25), random, (delaysMs, retry, chance) => {
      const next = nextAfterFailure(delaysMs, retry, chance)
      const delayMs = delaysMs[retry]
      if (delayMs === undefined) return next.kind === 'dead_letter'
      // The last digit of a double aside.
      return next.kind === 'retry' && next.inMs >= delayMs && next.inMs <= delayMs * 1.1 * (1 + Number.EPSILON)
    }),
    { numRuns: 2_000 },
  )
})

test('every delay is used once, in order, before the dead letter', () => {
  fc.assert(
    fc.property(delays, (delaysMs) => {
      const used: number[] = []
      for (let retry = 0; ; retry += 1) {
        const next = nextAfterFailure(delaysMs, retry, 0)
        if (next.kind === 'dead_letter') break
        used.push(next.inMs)
      }
      expect(used).toEqual(delaysMs)
    }),
  )
})

test('the default is the table of the specification, section 6: 1 min, 5 min, 30 min, 2 h, 24 h', () => {
  const defaults = SETTINGS.webhookRetryDelays.parse(SETTINGS.webhookRetryDelays.default ?? '')
  expect(defaults.map((ms) => ms / 60_000)).toEqual([1, 5, 30, 120, 1_440])
  expect(nextAfterFailure(defaults, 5, 0)).toEqual({ kind: 'dead_letter' })
})
