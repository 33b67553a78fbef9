import { expect, test } from 'vitest'
import { exchange, linkBody, startIssuer, trust } from '../../../src/identity/foreign-tokens/issuer.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script>`

test('a user’s page lists their accounts elsewhere, and unlinks all but the last way in; the wallet’s says what they reach', async () => {
  const tenant = await stage.service.newTenant()
  const login = await startIssuer(stage.service)
  await trust(tenant, login)
  const signedIn = await exchange(stage.service, tenant, await login.token({ claims: { sub: HOSTILE, name: 'Ada' } }))
  const { user } = signedIn.body.data
  const headers = { 'x-user-id': user.id }
  const linked = await tenant.post('/auth/identities', linkBody(await login.token({ claims: { sub: 'lovelace' } })), {
    headers,
  })
  expect(linked.status, linked.text).toBe(201)
  const { page, look, go } = await stage.arrive(tenant, { path: `/users/${user.id}` })
  const unlink = (subject: string) => page.getByRole('button', { name: `Unlink ${subject} of ${login.url}` })
  await unlink('lovelace').waitFor()
  await page.getByText(HOSTILE, { exact: true }).waitFor()
  await look('user-identities')
  const wallet = await tenant.post('/users/me/wallet', {}, { headers })
  expect(wallet.status, wallet.text).toBe(201)
  await go(`/wallets/${wallet.body.data.id}`)
  await page.getByText(`A token of ${login.url}, which can make one for itself.`).waitFor()
  await page.getByText('reaches the key').waitFor()
  await look('wallet-sign-ins')
  await go(`/users/${user.id}`)
  await unlink('lovelace').click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Unlink identity' }).click()
  await page.getByText('Identity unlinked').waitFor()
  await eventually('it is gone', async () => (await tenant.get(`/users/${user.id}/identities`)).body.total === 1)
  await unlink(HOSTILE).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Unlink identity' }).click()
  await page.getByText('Without this, the user could not sign in').waitFor()
  await login.close()
})
