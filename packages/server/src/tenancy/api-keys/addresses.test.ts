import { expect, test } from 'vitest'
import { canonicalRange, rangesWithin } from './addresses.ts'

test('an address or a CIDR has one spelling', () => {
  expect(canonicalRange('203.0.113.7')).toBe('203.0.113.7')
  expect(canonicalRange('10.0.0.0/8')).toBe('10.0.0.0/8')
  expect(canonicalRange('0.0.0.0/0')).toBe('0.0.0.0/0')
  expect(canonicalRange('2001:0DB8::0001')).toBe('2001:db8::1')
  expect(canonicalRange('2001:db8::/32')).toBe('2001:db8::/32')
})

test.each([
  '',
  'x',
  '10.0.0',
  '010.0.0.1',
  '0x7f.1',
  '2130706433',
  '10.0.0.1/8',
  '10.0.0.0/33',
  '10.0.0.0/08',
  '10.0.0.0/8/8',
  '10.0.0.0/',
  '/8',
  'fe80::1%eth0',
  '::ffff:10.0.0.1',
  '::ffff:10.0.0.0/104',
  '2001:db8::1/32',
])('%j is refused', (text) => {
  expect(() => canonicalRange(text)).toThrow()
})

test('what reaches beyond the allowed addresses is wider', () => {
  const own = ['10.0.0.0/8', '2001:db8::/32']
  expect(rangesWithin(['10.1.0.0/16', '10.0.0.1', '2001:db8:1::/48'], own)).toBe(true)
  expect(rangesWithin(['10.0.0.0/8'], own)).toBe(true)
  expect(rangesWithin(['8.0.0.0/6'], own)).toBe(false)
  expect(rangesWithin(['10.0.0.1', '11.0.0.1'], own)).toBe(false)
  expect(rangesWithin(['::/0'], own)).toBe(false)
  expect(rangesWithin([], own)).toBe(false)
  expect(rangesWithin([], [])).toBe(true)
  expect(rangesWithin(['0.0.0.0/0'], [])).toBe(true)
})
