import { expect, test } from 'vitest'
import { ok } from '../../../src/delivery/events/own-events.fixture.ts'
import { newSubscriber, newWebhook, portalOf } from '../../../src/delivery/subscribers/subscribers.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { NOWHERE } from '../../matrix/bodies.ts'
import { useDashboard } from './support.ts'

const stage = useDashboard()

test('a subscriber is created, found, given a portal link, changed, and deleted with its webhooks', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: '/subscribers' })
  await page.getByText('No subscribers yet').waitFor()
  await look('subscribers-empty')
  await page.getByRole('button', { name: 'Create subscriber' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('External id').fill('customer-42')
  await dialog.getByLabel('Name').fill('Ada Ltd')
  await dialog.getByRole('button', { name: 'Create subscriber' }).click()
  await page.getByRole('heading', { name: 'Ada Ltd' }).waitFor()
  const [ada] = ok(await tenant.get('/subscribers'))
  await newWebhook(tenant, NOWHERE, ada.id)
  await page.getByRole('table', { name: 'Webhooks of the subscriber' }).getByText(NOWHERE).waitFor()
  await look('subscriber')

  await page.getByRole('button', { name: 'Copy portal link' }).click()
  await page.getByText('Portal link copied').first().waitFor()
  const link = await page.evaluate<string>('navigator.clipboard.readText()')
  const portal = portalOf(stage.service, link)
  expect(ok(await portal.call('GET', '/subscriber')).subscriber).toEqual({ name: 'Ada Ltd' })
  await page.getByRole('button', { name: 'Revoke links…' }).click()
  await page.getByRole('button', { name: 'Revoke links', exact: true }).click()
  await page.getByText('1 link was revoked').first().waitFor()
  expect((await portal.call('GET', '/subscriber')).status).toBe(401)

  await page.getByRole('button', { name: 'Edit…' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Ada and Sons')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByRole('heading', { name: 'Ada and Sons' }).waitFor()
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('button', { name: 'Delete subscriber' }).click()
  await page.getByText('No subscribers yet').waitFor()
  expect(ok(await tenant.get('/webhooks'))).toEqual([])
})

test('a subscriber is found by its external id, and a reader changes nothing', async () => {
  const tenant = await stage.service.newTenant()
  await newSubscriber(tenant, { externalId: 'customer-1' })
  await newSubscriber(tenant, { externalId: 'customer-2' })
  const key = await tenant.newKey({ scopes: ['subscribers:read', 'webhooks:read'] })
  const { page } = await stage.arrive(tenant, { path: '/subscribers', key })
  await page.getByRole('link', { name: 'customer-1' }).waitFor()
  await page.getByLabel('External id').fill('customer-2')
  await eventually('only one is left', async () => (await page.getByRole('link', { name: /^customer-/ }).count()) === 1)
  await page.getByRole('link', { name: 'customer-2' }).click()
  await page.getByRole('heading', { name: 'customer-2' }).waitFor()
  expect(await page.getByRole('button', { name: /Copy portal link|Delete|Edit/ }).count()).toBe(0)
})
