import { expect, test } from 'vitest'
import { shownMethods } from './shown-methods.ts'

const AT = new Date(0)
const ALL = ['email', 'hwk', 'user', 'otp', 'mfa']

test.for([
  ['a session that began with a passkey', false, null, null, ['hwk', 'user'], ['hwk', 'user']],
  ['a guest', false, null, null, ['guest'], ['guest']],
  ['a second factor that was shown', false, AT, null, ['messenger', 'kba', 'mfa'], ['messenger', 'kba', 'mfa']],
  ['a second factor that no time stands for', false, null, AT, ALL, ['email', 'hwk', 'user']],
  ['a weak session that no time stands for', true, null, null, ALL, ['email']],
  ['a weak session with a passkey shown since', true, null, AT, ['email', 'hwk'], ['email', 'hwk']],
  ['a weak session with a second factor shown since', true, AT, null, ALL, ['email', 'otp', 'mfa']],
] as const)('%s', ([, weak, mfa_at, passkey_at, amr, shown]) => {
  expect(shownMethods({ amr, weak, mfa_at, passkey_at })).toEqual(shown)
})
