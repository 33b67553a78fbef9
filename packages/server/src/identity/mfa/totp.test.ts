import { generate } from 'otplib'
import { expect, test } from 'vitest'
import { base32, codeAt, otpauthUrl, stepAt, stepOf } from './totp.ts'

const RFC_SECRET = Buffer.from('12345678901234567890')

test.each([
  [59, '94287082'],
  [1111111109, '07081804'],
  [1111111111, '14050471'],
  [1234567890, '89005924'],
  [2000000000, '69279037'],
  [20000000000, '65353130'],
])('RFC 6238, appendix B, SHA-1: at %i s the code is %s', (seconds, code) => {
  const step = stepAt(new Date(seconds * 1000))
  expect(codeAt(RFC_SECRET, step, 8)).toBe(code)
  // Six digits are the last six of the same number (RFC 4226, section 5.3).
  expect(codeAt(RFC_SECRET, step)).toBe(code.slice(2))
})

test.each([
  ...['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489'].entries(),
])('RFC 4226, appendix D: the code of counter %i is %s', (counter, code) => {
  expect(codeAt(RFC_SECRET, counter)).toBe(code)
})

test('codes are those of another implementation, for secrets of every byte', async () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const secret = Buffer.from(Array.from({ length: 20 }, (_, index) => (seed * 37 + index * 101) % 256))
    const seconds = 1_700_000_000 + seed * 12_345
    const step = stepAt(new Date(seconds * 1000))
    expect(codeAt(secret, step)).toBe(await generate({ secret: base32(secret), epoch: seconds }))
  }
})

test('a step begins every 30 seconds, at the whole half minute', () => {
  expect([0, 29_999, 30_000, 59_999, 60_000].map((ms) => stepAt(new Date(ms)))).toEqual([0, 0, 1, 1, 2])
})

test('a code counts for its own step, the one before and the one after, and only after the last one used', () => {
  const now = new Date(1_700_000_010_000)
  const present = stepAt(now)
  const found = (steps: number, lastStep = 0) => stepOf(RFC_SECRET, codeAt(RFC_SECRET, present + steps), now, lastStep)
  expect([-2, -1, 0, 1, 2].map((steps) => found(steps))).toEqual([null, present - 1, present, present + 1, null])
  expect([-1, 0, 1].map((steps) => found(steps, present))).toEqual([null, null, present + 1])
  for (const text of ['', '0', 'abcdef', '7552240', '７５５２２４'])
    expect(stepOf(RFC_SECRET, text, now, 0), text).toBeNull()
})

const longest = '\u{1F511}'.repeat(200)

test.each([
  ['a colon, which would end the issuer', 'Shop: Berlin', 'a:b', 'Shop Berlin', 'a b'],
  ['spaces around it', ' Shop ', ' ada@example.com ', 'Shop', 'ada@example.com'],
  ['ampersands and slashes', 'A&B/C?d=e#f', 'ü', 'A&B/C?d=e#f', 'ü'],
  ['a very long name', longest, longest, '\u{1F511}'.repeat(10), '\u{1F511}'.repeat(10)],
])('the URL for authenticator apps holds a name with %s', (_, issuer, label, shownIssuer, shownLabel) => {
  const url = new URL(otpauthUrl(RFC_SECRET, { issuer, label }))
  expect(url.protocol + url.host).toBe('otpauth:totp')
  expect(decodeURIComponent(url.pathname)).toBe(`/${shownIssuer}:${shownLabel}`)
  expect(Object.fromEntries(url.searchParams)).toEqual({
    issuer: shownIssuer,
    secret: base32(RFC_SECRET),
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
  // Denser QR codes can't be read off a screen.
  expect(url.href.length).toBeLessThan(500)
})
