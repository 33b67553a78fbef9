import { expect, test } from 'vitest'
import { register } from '../../harness/authenticator.ts'
import { call, eventually } from '../../harness/harness.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

test('a user’s page lists recoveries by email, and cancels one that is pending', async () => {
  const { service } = stage
  const tenant = await service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, { email: { enabled: true }, emailRecovery: { enabled: true } })
  const email = 'ada@example.com'
  const answerOf = async (purpose: 'sign_in' | 'recovery') => {
    const { challengeId } = (await tenant.post('/auth/email/start', { email, purpose })).body.data
    const code = await eventually('the email', async () => {
      const mails: Record<string, string>[] = (await call(service.url, 'GET', '/dev/mail.json')).body
      return mails.find((mail) => mail.appId === tenant.appId && mail.purpose === purpose)?.code
    })
    return { challengeId, code }
  }
  const { user } = (await tenant.post('/auth/email/verify', await answerOf('sign_in'))).body.data
  const headers = { 'x-user-id': user.id }
  expect((await register({ url: service.url, key: tenant.key }, {}, { headers })).status).toBe(200)
  const { page, look, go } = await stage.arrive(tenant, { path: `/users/${user.id}` })
  await page.getByText('Identities', { exact: true }).waitFor()
  expect(await page.getByText('Recoveries by email').count()).toBe(0)
  expect((await tenant.post('/auth/email/recovery', await answerOf('recovery'))).status).toBe(200)
  await go(`/users/${user.id}`)
  await page.getByText('Recoveries by email').waitFor()
  await look('user-recoveries')
  await page.getByRole('button', { name: 'Cancel this recovery' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel recovery' }).click()
  await page.getByText('Recovery canceled').waitFor()
  await page.getByText('by the user or a server').waitFor()
  const [recovery] = (await tenant.get(`/users/${user.id}/recoveries`)).body.data
  expect(recovery).toMatchObject({ status: 'canceled', endedBy: 'session' })
})
