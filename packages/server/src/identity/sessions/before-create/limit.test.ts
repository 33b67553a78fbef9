import { expect, test } from 'vitest'
import type { Authenticator } from '../../../platform/security/authenticator.ts'
import { withinLimit } from './limit.ts'

test('strangers who wait keep neither users nor other apps and ways in waiting, and are refused beyond fifty', async () => {
  const auth = {} as Authenticator
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const stranger = { appId: 'app_a', method: 'passkey', isNewUser: true }
  const waiting = Array.from({ length: 50 }, () => withinLimit({ auth }, stranger, () => held))
  const ask = (of: Partial<typeof stranger>) => withinLimit({ auth }, { ...stranger, ...of }, async () => 'asked')
  await expect(ask({})).rejects.toMatchObject({ code: 'rate_limited' })
  for (const other of [{ isNewUser: false }, { method: 'email' }, { appId: 'app_b' }])
    expect(await ask(other)).toBe('asked')
  release()
  await Promise.all(waiting)
  expect(await ask({})).toBe('asked')
})
