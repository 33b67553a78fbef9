import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { useDashboard } from './support.ts'

const stage = useDashboard()

test('an app gets a provider, which says what to register there, is changed, and is removed', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}` })
  await page.getByRole('link', { name: 'Sign-in providers' }).click()
  await page.getByText('No sign-in providers').waitFor()
  await look('providers-none')
  await page.getByRole('button', { name: 'Add a provider' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Client id').fill('shop.apps.googleusercontent.com')
  await dialog.getByRole('button', { name: 'Add provider' }).click()
  // The server says what is missing, at its field.
  await dialog.getByText('Required for google.').waitFor()
  await look('provider-incomplete')
  await dialog.getByLabel('Client secret').fill('GOCSPX-a-secret')
  await dialog.getByRole('button', { name: 'Add provider' }).click()
  await page.getByText('Provider added').waitFor()
  const path = `/apps/${tenant.appId}/providers`
  const [made] = (await tenant.get(path)).body.data
  expect(made).toMatchObject({ preset: 'google', name: 'Google', clientSecretSet: true, jit: 'create' })
  await dialog.getByText(made.callbackUrl).waitFor()
  await look('provider-added')
  await dialog.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('button', { name: 'Change Google' }).click()
  // A stored secret is not shown, and stays if nothing is typed.
  expect(await dialog.getByLabel('Client secret').inputValue()).toBe('')
  await dialog.getByLabel('Name on the button').fill('Google Workspace')
  await dialog.getByRole('combobox', { name: 'New accounts' }).click()
  await page.getByRole('option', { name: 'Accept linked accounts only' }).click()
  await look('provider-settings')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Provider saved').waitFor()
  expect((await tenant.get(`${path}/${made.id}`)).body.data).toEqual({
    ...made,
    name: 'Google Workspace',
    jit: 'match',
    updatedAt: expect.any(String),
  })
  await look('providers')
  await page.getByRole('button', { name: 'Remove Google Workspace' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No sign-in providers').waitFor()
  expect((await tenant.get(path)).body.total).toBe(0)
})

test('Apple is asked for its key, team and key id', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}/providers` })
  await page.getByRole('button', { name: 'Add a provider' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Provider' }).click()
  await page.getByRole('option', { name: 'Apple' }).click()
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await dialog.getByLabel('Client id').fill('com.example.shop.web')
  await dialog.getByLabel('Private key').fill(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  await dialog.getByLabel('Team id').fill('A1B2C3D4E5')
  await dialog.getByLabel('Key id').fill('F6G7H8J9K0')
  await look('provider-apple')
  await dialog.getByRole('button', { name: 'Add provider' }).click()
  await page.getByText('Provider added').waitFor()
  expect((await tenant.get(`/apps/${tenant.appId}/providers`)).body.data).toMatchObject([
    { preset: 'apple', teamId: 'A1B2C3D4E5', keyId: 'F6G7H8J9K0', clientSecretSet: true },
  ])
})
