import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatAmount, parseAmount, UNITS_MAX } from './amount.ts'

const UNIT = 10n ** 10n

test.each([
  ['0', 0n],
  ['0.0', 0n],
  ['0.0000000001', 1n],
  ['0.1', UNIT / 10n],
  ['1', UNIT],
  ['1.50', (UNIT * 3n) / 2n],
  ['100.00', 100n * UNIT],
  ['9007199254740993.0000000001', 9_007_199_254_740_993n * UNIT + 1n],
  ['9999999999999999999999999999.9999999999', UNITS_MAX],
])('%s is %s base units', (text, units) => {
  expect(parseAmount(text)).toBe(units)
})

test.each([
  '',
  ' ',
  '-',
  '.',
  '-1',
  '-0',
  '+1',
  '00',
  '01',
  '.5',
  '5.',
  '1..2',
  '1.2.3',
  '1,5',
  '1_000',
  ' 1',
  '1 ',
  '1\n',
  '\u00001',
  '1e3',
  '1E3',
  '0x10',
  'NaN',
  'Infinity',
  'null',
  '1.00000000001',
  '10000000000000000000000000000',
  '٣',
  '１',
  '1n',
])('%j is no amount', (text) => {
  expect(parseAmount(text)).toBeNull()
})

test.each([
  [0n, '0'],
  [1n, '0.0000000001'],
  [UNIT / 2n, '0.5'],
  [UNIT, '1'],
  [10n * UNIT, '10'],
  [100n * UNIT + 10n, '100.000000001'],
  [UNITS_MAX, '9999999999999999999999999999.9999999999'],
])('%s base units are written %s', (units, text) => {
  expect(formatAmount(units)).toBe(text)
})

test('every number of base units is read back as it was written, in the shortest form and exactly', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: UNITS_MAX }), (units) => {
      const text = formatAmount(units)
      expect(parseAmount(text)).toBe(units)
      expect(text).not.toMatch(/\.$|\.\d*0$/)
      expect(text.length).toBeLessThanOrEqual(39)
    }),
  )
})

test('every amount that can be written means what its digits say, with zeros at its end or without', () => {
  const digits = (max: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: max })
  const whole = digits(28).map((text) => text.replace(/^0+(?=.)/, ''))
  fc.assert(
    fc.property(whole, fc.option(digits(10)), (before, after) => {
      const text = after === null ? before : `${before}.${after}`
      const units = parseAmount(text)
      expect(units).toBe(BigInt(before + (after ?? '').padEnd(10, '0')))
      expect(formatAmount(units as bigint)).toBe(after === null ? before : text.replace(/\.?0*$/, ''))
    }),
  )
})
