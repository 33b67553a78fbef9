import { expect, test } from 'vitest'
import { exchange, JWKS_PATH, startIssuer } from '../../../src/identity/foreign-tokens/issuer.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

test('an app trusts an issuer by a preset, changes it, and stops trusting it', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}` })
  await page.getByRole('link', { name: 'Trusted issuers' }).click()
  await page.getByText('No trusted issuers').waitFor()
  await look('issuers-none')
  await page.getByRole('button', { name: 'Trust an issuer' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Login' }).click()
  await page.getByRole('option', { name: 'Keycloak' }).click()
  await dialog.getByText('For example https://keycloak.example.com/realms/shop').waitFor()
  await look('issuer-preset')
  await dialog.getByLabel('Address').fill('https://keycloak.example.com/realms/shop/')
  await dialog.getByLabel('Audience').fill('shop-web')
  await dialog.getByRole('button', { name: 'Continue' }).click()
  const issuer = dialog.getByLabel('Issuer', { exact: true })
  await issuer.waitFor()
  expect(await issuer.inputValue()).toBe('https://keycloak.example.com/realms/shop')
  await look('issuer-settings')
  await dialog.getByLabel('Algorithms').fill('RS256\nHS256')
  await dialog.getByRole('button', { name: 'Trust issuer' }).click()
  await dialog.getByText('Line 2').waitFor()
  await look('issuer-refused')
  await dialog.getByLabel('Algorithms').fill('RS256')
  await dialog.getByRole('button', { name: 'Trust issuer' }).click()
  await page.getByText('Issuer trusted').waitFor()
  const path = `/apps/${tenant.appId}/issuers`
  const [made] = (await tenant.get(path)).body.data
  expect(made).toMatchObject({
    issuer: 'https://keycloak.example.com/realms/shop',
    discovery: 'https://keycloak.example.com/realms/shop/.well-known/openid-configuration',
    jwksUri: null,
    audiences: ['shop-web'],
    mfaClaim: null,
  })
  await page.getByRole('button', { name: `Change ${made.issuer}` }).click()
  await dialog.getByRole('combobox', { name: 'New identities' }).click()
  await page.getByRole('option', { name: 'Accept linked identities only' }).click()
  await dialog.getByLabel('Claim that says that a second factor was verified').fill('acr')
  await dialog.getByLabel('Values that say so').fill('2')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Issuer saved').waitFor()
  expect((await tenant.get(`${path}/${made.id}`)).body.data).toMatchObject({
    ...made,
    jit: 'match',
    mfaClaim: { claim: 'acr', values: ['2'] },
    updatedAt: expect.any(String),
  })
  await look('issuers')
  await page.getByRole('button', { name: `Stop trusting ${made.issuer}` }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Stop trusting' }).click()
  await page.getByText('No trusted issuers').waitFor()
  expect((await tenant.get(path)).body.total).toBe(0)
})

test('another login is trusted without a preset, and its tokens sign in', async () => {
  const tenant = await stage.service.newTenant()
  const login = await startIssuer(stage.service)
  const { page } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}/issuers` })
  await page.getByRole('button', { name: 'Trust an issuer' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Login' }).click()
  await page.getByRole('option', { name: 'Another one' }).click()
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.getByLabel('Issuer', { exact: true }).fill(login.url)
  await dialog.getByLabel('Keys URL').fill(`${login.url}${JWKS_PATH}`)
  await dialog.getByLabel('Audiences').fill('shop-web')
  await dialog.getByRole('button', { name: 'Trust issuer' }).click()
  await page.getByText('Issuer trusted').waitFor()
  const signsIn = async () => (await exchange(stage.service, tenant, await login.token())).status === 200
  await eventually('its tokens sign in', signsIn)
  await login.close()
})
