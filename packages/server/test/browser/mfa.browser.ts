import { generate } from 'otplib'
import { expect, test } from 'vitest'
import { type Person, signOut, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const STEP_MS = 30_000
const MINUTE_MS = 60_000
const RECOVERY_CODES = 10
const WRONG_CODES_MAX = 5

const stage = useSignIn()
const { arrive } = stage

const ADA = { email: 'ada@example.com', name: 'Ada Lovelace' }

/** What the authenticator app shows next: a code that was not used yet. */
async function nextCode(secret: string): Promise<string> {
  stage.service.advance(STEP_MS)
  return generate({ secret, epoch: Math.floor(stage.service.deps.now().getTime() / 1000) })
}

/** Fills in the set-up dialog and returns what it showed. */
async function completeSetup({ page, look }: Person): Promise<{ secret: string; recoveryCodes: string[] }> {
  const dialog = page.getByRole('dialog', { name: 'Set up two-step verification' })
  await dialog.waitFor()
  await look('mfa-setup')
  const secret = (await dialog.locator('code').innerText()).replace(/\s/g, '')
  await dialog.getByLabel('6-digit code').fill(await nextCode(secret))
  await dialog.getByRole('button', { name: 'Turn on' }).click()
  const saved = page.getByRole('dialog', { name: 'Save your recovery codes' })
  await saved.waitFor()
  await look('mfa-recovery-codes')
  const recoveryCodes = await saved.getByRole('listitem').allInnerTexts()
  await saved.getByRole('button', { name: 'I have saved them' }).click()
  return { secret, recoveryCodes }
}

async function enrol(ada: Person) {
  await ada.page.getByRole('button', { name: 'Set up two-step verification' }).click()
  const factor = await completeSetup(ada)
  await ada.page.getByText('Two-step verification is on.').waitFor()
  return factor
}

const wrongCode = async (secret: string) =>
  ((Number(await nextCode(secret)) + 1) % 1_000_000).toString().padStart(6, '0')

test('two-step verification is turned on, and then asked for at the next sign-in', SMOKE, async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  const { secret, recoveryCodes } = await enrol(ada)
  expect(new Set(recoveryCodes).size).toBe(RECOVERY_CODES)
  await page.getByText('Recovery codes left: 10').waitFor()
  await ada.look('account-mfa')
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Two-step verification' }).waitFor()
  await ada.look('mfa-prompt')
  await page.getByLabel('6-digit code').fill(await wrongCode(secret))
  await page.keyboard.press('Enter')
  await page.getByText('That code is incorrect').waitFor()
  await ada.look('mfa-wrong-code')
  const code = await nextCode(secret)
  await page.getByLabel('6-digit code').fill(`${code.slice(0, 3)} ${code.slice(3)}`)
  await page.keyboard.press('Enter')
  await page.getByText('Ada Lovelace').waitFor()
})

test('the QR code is a drawing that holds the secret', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  await page.getByRole('button', { name: 'Set up two-step verification' }).click()
  const image = page.getByRole('img', { name: 'QR code' })
  await image.waitFor()
  expect(await image.getAttribute('src')).toMatch(/^data:image\/svg\+xml;base64,/)
  const decoded =
    '(async (drawing) => { await drawing.decode(); return drawing.naturalWidth })(document.querySelector(".qr"))'
  expect(await page.evaluate(decoded)).toBeGreaterThan(0)
})

test('removing a passkey asks for a code when the last one is five minutes old, and then goes on', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  const { secret } = await enrol(ada)
  stage.service.advance(6 * MINUTE_MS)
  await ada.takeAnotherDevice()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  const dialog = page.getByRole('dialog', { name: 'Confirm it’s you' })
  await dialog.waitFor()
  await ada.look('step-up')
  await dialog.getByLabel('6-digit code').fill(await nextCode(secret))
  await dialog.getByRole('button', { name: 'Verify' }).click()
  await page.getByText('Passkey added.').waitFor()
  stage.service.advance(6 * MINUTE_MS)
  await page.getByRole('button', { name: 'Remove Linux computer' }).first().click()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('Nothing was changed.').waitFor()
  await page.getByRole('button', { name: 'Remove passkey' }).click()
  await dialog.getByLabel('6-digit code').fill(await nextCode(secret))
  await dialog.getByRole('button', { name: 'Verify' }).click()
  await page.getByText('Passkey removed.').waitFor()
  expect(await page.getByRole('button', { name: /^Rename/ }).count()).toBe(1)
})

test('a recovery code signs in once', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  const { recoveryCodes } = await enrol(ada)
  const signIn = async () => {
    await signOut(ada)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('button', { name: 'Use a recovery code instead' }).click()
    await page.getByLabel('Recovery code').fill(recoveryCodes[0]!.toUpperCase())
    await page.getByRole('button', { name: 'Verify' }).click()
  }
  await signIn()
  await page.getByText('Recovery codes left: 9').waitFor()
  await signIn()
  await page.getByText('That code is incorrect').waitFor()
  await ada.look('mfa-recovery')
  await page.getByLabel('Recovery code').fill(recoveryCodes[1]!)
  await page.keyboard.press('Enter')
  await page.getByText('Recovery codes left: 8').waitFor()
})

test('after five wrong codes it is said for how long none is heard', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  const { secret } = await enrol(ada)
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  const alert = page.getByRole('alert').filter({ hasText: /./ })
  for (let left = WRONG_CODES_MAX - 1; left >= 0; left--) {
    await page.getByLabel('6-digit code').fill(await wrongCode(secret))
    expect(await alert.count()).toBe(0)
    await page.getByRole('button', { name: 'Verify' }).click()
    await alert.waitFor()
  }
  await page.getByLabel('6-digit code').fill(await nextCode(secret))
  await page.getByRole('button', { name: 'Verify' }).click()
  await page.getByText(/Too many wrong codes\..*try again in 1[45] minutes/).waitFor()
  await ada.look('mfa-locked')
  stage.service.advance(16 * MINUTE_MS)
  await page.getByLabel('6-digit code').fill(await nextCode(secret))
  await page.getByRole('button', { name: 'Verify' }).click()
  await page.getByText('Ada Lovelace').waitFor()
})

test('the second step can be left, which ends the session', async () => {
  const { ada, page, tenant } = await arrive()
  await signUp(ada, ADA)
  await enrol(ada)
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('button', { name: 'Cancel and sign out' }).click()
  await page.getByText('You are signed out.').waitFor()
  const headers = { 'x-user-id': (await tenant.get('/users')).body.data[0].id }
  const sessions = (await tenant.get('/auth/sessions', { headers })).body.data as { status: string }[]
  expect(sessions.filter((session) => session.status === 'active')).toEqual([])
})

test('two-step verification is turned off with a fresh code', async () => {
  const { ada, page } = await arrive()
  await signUp(ada, ADA)
  const { secret } = await enrol(ada)
  stage.service.advance(6 * MINUTE_MS)
  await page.getByRole('button', { name: 'Turn off two-step verification' }).click()
  await ada.look('mfa-turn-off')
  await page.getByRole('dialog').getByRole('button', { name: 'Turn off' }).click()
  const dialog = page.getByRole('dialog', { name: 'Confirm it’s you' })
  await dialog.getByLabel('6-digit code').fill(await nextCode(secret))
  await page.keyboard.press('Enter')
  await page.getByText('Two-step verification is off.').waitFor()
  await signOut(ada)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByText('Ada Lovelace').waitFor()
})

test('where the app asks a second factor of everybody, it is set up on the way', async () => {
  const { ada, page } = await arrive({ app: { mfa: { policy: 'always' } } })
  await signUp(ada, ADA)
  await page.getByText('Ada Lovelace').waitFor()
  await ada.takeAnotherDevice()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await completeSetup(ada)
  await page.getByText('Passkey added.').waitFor()
})
