import { expect, test } from 'vitest'
import { addDays, daysBetween, recordActive } from './counters.ts'

test('days are counted over the ends of months and years', () => {
  expect(addDays('2026-12-31', 1)).toBe('2027-01-01')
  expect(addDays('2028-03-01', -1)).toBe('2028-02-29')
  expect(daysBetween('2026-11-21', '2027-02-18')).toBe(89)
  expect(daysBetween('2026-11-21', '2026-11-20')).toBe(-1)
})

test('a user is new on each day once, in whatever order the days come', () => {
  const start = '2026-10-01'
  // Every order of a few days, with repeats, within what the bits reach.
  for (let seed = 1; seed <= 500; seed += 1) {
    let state = seed
    const next = (below: number) => {
      state = (state * 48_271) % 2_147_483_647
      return state % below
    }
    const seen = new Set<string>()
    let known: ReturnType<typeof recordActive>['active'] | undefined
    for (let step = 0; step < 40; step += 1) {
      const day = addDays(start, next(31))
      const { active, isNew } = recordActive(known, day)
      expect(isNew, `seed ${seed}, step ${step}`).toBe(!seen.has(day))
      seen.add(day)
      known = active
      expect(active.lastDay).toBe([...seen].sort().at(-1))
      expect(active.days).toBeLessThanOrEqual(0x7fff_ffff)
    }
  }
})

test('days further apart than the bits reach are told apart, and one from before them counts for nothing', () => {
  const first = recordActive(undefined, '2026-01-01').active
  const later = recordActive(first, '2026-02-01')
  expect(later).toEqual({ active: { lastDay: '2026-02-01', days: 1 }, isNew: true })
  expect(recordActive(first, '2026-01-31').active.days).toBe(2 ** 30 + 1)
  expect(recordActive(later.active, '2026-01-01')).toEqual({ active: later.active, isNew: false })
  expect(recordActive(recordActive(first, '2036-01-01').active, '2035-12-31').isNew).toBe(true)
})
