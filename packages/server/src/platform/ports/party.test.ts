import { expect, test } from 'vitest'
import { keyFingerprint } from './party.ts'

test("a key's fingerprint is the one that Canton computes", () => {
  const key = Buffer.from('fa8ba321f279863edd57e97a08f197d18760f77a8cddec782c63f69b85b44d7b', 'hex')
  expect(keyFingerprint(key)).toBe('1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441')
})

test('what is no raw Ed25519 key has no fingerprint', () => {
  expect(() => keyFingerprint(Buffer.alloc(44))).toThrow('32 bytes')
})
