import { expect, test } from 'vitest'
import { compileHours, hoursWords, isWithin } from './hours.ts'
import type { Hours } from './policy-schema.ts'

const ZURICH = 'Europe/Zurich'
const hours = (from: string, to: string, more: Partial<Hours> = {}) =>
  compileHours({ from, to, timeZone: ZURICH, ...more })
const at = (utc: string) => new Date(utc)

test('hours begin with their first minute and end before their last', () => {
  const office = hours('09:00', '18:00', { days: ['mon', 'tue', 'wed', 'thu', 'fri'] })
  // Winter: UTC+1. 2026-11-23 is a Monday.
  expect(isWithin(office, at('2026-11-23T07:59:59.999Z'))).toBe(false)
  expect(isWithin(office, at('2026-11-23T08:00:00.000Z'))).toBe(true)
  expect(isWithin(office, at('2026-11-23T16:59:59.999Z'))).toBe(true)
  expect(isWithin(office, at('2026-11-23T17:00:00.000Z'))).toBe(false)
  expect(isWithin(office, at('2026-11-22T10:00:00.000Z'))).toBe(false)
  // Summer: UTC+2. 2027-07-05 is a Monday.
  expect(isWithin(office, at('2027-07-05T07:00:00.000Z'))).toBe(true)
  expect(isWithin(office, at('2027-07-05T16:00:00.000Z'))).toBe(false)
})

test('the day is that of the zone, not of UTC', () => {
  const monday = hours('00:00', '24:00', { days: ['mon'], timeZone: 'Pacific/Auckland' })
  expect(isWithin(monday, at('2026-11-22T11:00:00.000Z'))).toBe(true)
  expect(isWithin(monday, at('2026-11-22T10:59:59.999Z'))).toBe(false)
  expect(isWithin(monday, at('2026-11-23T10:59:59.999Z'))).toBe(true)
  expect(isWithin(monday, at('2026-11-23T11:00:00.000Z'))).toBe(false)
})

test('hours over midnight belong to the day on which they begin', () => {
  const night = hours('22:00', '06:00', { days: ['fri'] })
  expect(isWithin(night, at('2026-11-27T20:59:00.000Z'))).toBe(false)
  expect(isWithin(night, at('2026-11-27T21:00:00.000Z'))).toBe(true)
  expect(isWithin(night, at('2026-11-28T04:59:00.000Z'))).toBe(true)
  expect(isWithin(night, at('2026-11-28T05:00:00.000Z'))).toBe(false)
  // Friday before six is of the night that began on Thursday.
  expect(isWithin(night, at('2026-11-27T04:00:00.000Z'))).toBe(false)
  expect(isWithin(hours('22:00', '00:00', { days: ['fri'] }), at('2026-11-27T22:59:00.000Z'))).toBe(true)
  expect(isWithin(hours('22:00', '00:00', { days: ['fri'] }), at('2026-11-27T23:00:00.000Z'))).toBe(false)
})

test('an hour that the clocks skip does not come, and what follows is not moved', () => {
  // 2027-03-28: 02:00 becomes 03:00 at 01:00 UTC.
  expect(isWithin(hours('02:15', '02:45'), at('2027-03-28T00:30:00.000Z'))).toBe(false)
  expect(isWithin(hours('02:15', '02:45'), at('2027-03-28T01:30:00.000Z'))).toBe(false)
  expect(isWithin(hours('02:30', '04:00'), at('2027-03-28T00:59:59.999Z'))).toBe(false)
  expect(isWithin(hours('02:30', '04:00'), at('2027-03-28T01:00:00.000Z'))).toBe(true)
  expect(isWithin(hours('02:30', '04:00'), at('2027-03-28T02:00:00.000Z'))).toBe(false)
})

test('an hour that the clocks repeat counts both times', () => {
  // 2027-10-31: 03:00 becomes 02:00 at 01:00 UTC.
  const within = hours('02:00', '03:00')
  expect(isWithin(within, at('2027-10-30T23:59:59.999Z'))).toBe(false)
  expect(isWithin(within, at('2027-10-31T00:30:00.000Z'))).toBe(true)
  expect(isWithin(within, at('2027-10-31T01:30:00.000Z'))).toBe(true)
  expect(isWithin(within, at('2027-10-31T02:00:00.000Z'))).toBe(false)
  // A window that ends within the repeated hour closes, opens again with the clocks, and closes again.
  const half = hours('01:00', '02:30')
  expect(isWithin(half, at('2027-10-31T00:29:00.000Z'))).toBe(true)
  expect(isWithin(half, at('2027-10-31T00:31:00.000Z'))).toBe(false)
  expect(isWithin(half, at('2027-10-31T01:00:00.000Z'))).toBe(true)
  expect(isWithin(half, at('2027-10-31T01:31:00.000Z'))).toBe(false)
})

test('zones whose offset is no whole hour, and the other edge of the date line', () => {
  const noon = hours('12:00', '12:01', { timeZone: 'Asia/Kathmandu' })
  expect(isWithin(noon, at('2026-11-23T06:15:00.000Z'))).toBe(true)
  expect(isWithin(noon, at('2026-11-23T06:14:59.999Z'))).toBe(false)
  const sunday = hours('00:00', '24:00', { days: ['sun'], timeZone: 'Pacific/Pago_Pago' })
  expect(isWithin(sunday, at('2026-11-23T10:59:00.000Z'))).toBe(true)
  expect(isWithin(sunday, at('2026-11-23T11:00:00.000Z'))).toBe(false)
})

test('a zone that this process does not know has no hours', () => {
  expect(isWithin(hours('00:00', '24:00', { timeZone: 'Mars/Olympus' }), at('2026-11-23T12:00:00.000Z'))).toBe(false)
})

test('hours are said in words', () => {
  expect(hoursWords(hours('09:00', '18:00', { days: ['fri', 'mon'] }))).toBe(
    'mon, fri from 09:00 to 18:00 (Europe/Zurich)',
  )
  expect(hoursWords(hours('22:00', '06:00'))).toBe('every day from 22:00 to 06:00 of the next day (Europe/Zurich)')
  expect(hoursWords(hours('00:00', '24:00'))).toBe('every day from 00:00 to 24:00 (Europe/Zurich)')
})
