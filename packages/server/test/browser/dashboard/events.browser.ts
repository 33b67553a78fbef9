import { afterAll, expect, test, vi } from 'vitest'
import { createUser, deliveriesIn, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import type { Tenant } from '../../harness/harness.ts'
import { answer, type Receiver, startReceiver } from '../../harness/receiver.ts'
import { SMOKE } from '../stage.ts'
import { type DashboardOptions, openDashboard, useDashboard } from './support.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script><script>alert(2)</script>`

let receiver: Receiver
const stage = useDashboard(async () => {
  receiver = await startReceiver(answer(500))
  return { HALFKEY_WEBHOOK_RETRY_DELAYS: '50ms' }
})
afterAll(() => receiver.close())

async function open(tenant: Tenant, path: string, options: DashboardOptions = {}) {
  const { page, look, go } = await stage.arrive(tenant, { path, ...options })
  const rows = page.getByRole('list', { name: 'Events' }).getByRole('button', { expanded: false })
  return { page, rows, look, go }
}

test('events appear as they happen, the newest on top', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  const { page, rows, look } = await open(tenant, '/events')
  await page.getByText('No activity in this tenant yet').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  await look('events-empty')
  const userId = await createUser(tenant)
  await rows.filter({ hasText: 'user.created' }).waitFor()
  await page.getByText('No activity in this tenant yet').waitFor({ state: 'detached' })
  await tenant.patch(`/users/${userId}`, { name: 'Ada' })
  await rows.filter({ hasText: 'user.updated' }).waitFor()
  expect(await rows.first().textContent()).toContain('user.updated')
  await look('events')
})

test('an event lists the deliveries that it had, links to each, and a delivery links back', async () => {
  const tenant = await stage.service.newTenant()
  const webhook = await subscribe(tenant, `${receiver.url}/hook`, { events: ['user.*'] })
  const userId = await createUser(tenant, { name: HOSTILE, email: 'ada@example.com' })
  const [{ id: deliveryId, eventId }] = await deliveriesIn(tenant, webhook.id, 'dead_letter')
  await subscribe(tenant, `${receiver.url}/late`, { events: ['user.*'] })
  const { page, rows, look } = await open(tenant, '/events')
  await rows.filter({ hasText: 'user.created' }).click()
  const text = await page.getByRole('figure').locator('code').textContent()
  expect(JSON.parse(text as string)).toMatchObject({ id: eventId, type: 'user.created', data: { userId } })
  const about = page.getByRole('list', { name: 'Related records' })
  expect(await about.getByRole('link', { name: userId }).getAttribute('href')).toBe(`/dashboard/users/${userId}`)
  const deliveries = page.getByRole('list', { name: 'Deliveries' })
  // Until the webhooks are loaded too, its id stands in place of the URL.
  await deliveries.getByRole('listitem').filter({ hasText: '/hook' }).waitFor()
  const [delivery, ...others] = await deliveries.getByRole('listitem').all()
  expect(others).toEqual([])
  expect(await delivery?.textContent()).toMatch(/\/hook.*dead letter.*2 attempts.*500/)
  await look('events-opened')
  await deliveries.getByRole('link', { name: '/hook' }).click()
  await page.waitForURL(`**/webhooks/${webhook.id}/deliveries/${deliveryId}`)
  await page.getByRole('main').getByRole('link', { name: eventId }).click()
  await page.waitForURL(`**/events/${eventId}`)
  await page.getByRole('heading', { level: 1, name: 'user.created' }).waitFor()
  await deliveries.getByRole('link', { name: '/hook' }).waitFor()
  await look('event')
  await page.goBack()
  await page.goBack()
  await rows.filter({ hasText: 'webhook.delivery_dead_lettered' }).click()
  await page.getByRole('link', { name: 'View the delivery' }).click()
  await page.waitForURL(`**/webhooks/${webhook.id}/deliveries/${deliveryId}`)
})

test('an event that no webhook was subscribed to says so, and an unknown event says why', async () => {
  const tenant = await stage.service.newTenant()
  await createUser(tenant)
  const { page, rows, look, go } = await open(tenant, '/events')
  await rows.filter({ hasText: 'user.created' }).click()
  await subscribe(tenant, `${receiver.url}/late`, { events: ['user.*'] })
  const nowhere = page.getByText('No webhook was subscribed to this type when it happened.')
  await nowhere.waitFor()
  await page.getByRole('link', { name: 'Page of this event' }).click()
  await page.getByRole('heading', { level: 1, name: 'user.created' }).waitFor()
  await nowhere.waitFor()
  await look('event-without-deliveries')
  await go(`/events/evt_${'0'.repeat(26)}`)
  await page.getByText('This event is not stored').waitFor()
})

test('a paused feed stands still, and goes on without a gap', async () => {
  const tenant = await stage.service.newTenant()
  await createUser(tenant)
  const { page, rows } = await open(tenant, '/events?type=user.created')
  await rows.first().waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('Paused', { exact: true }).waitFor()
  const meanwhile = [await createUser(tenant), await createUser(tenant)]
  // Another page sees them: had this one gone on, it would too.
  const other = await openDashboard(stage.browser, stage.service, tenant, { path: '/events?type=user.created' })
  await other.page.getByText(meanwhile[1] as string).waitFor()
  await other.leave()
  expect(await rows.count()).toBe(1)
  await page.getByRole('button', { name: 'Resume' }).click()
  for (const userId of meanwhile) await rows.filter({ hasText: userId }).waitFor()
  expect(await rows.count()).toBe(3)
})

test('the feed is filtered by kind and family, by its address too; what matches nothing says so', async () => {
  const tenant = await stage.service.newTenant()
  const userId = await createUser(tenant)
  await tenant.patch(`/users/${userId}`, { name: 'Ada' })
  const { page, rows, look } = await open(tenant, '/events?type=guest.*')
  await page.getByText('No results').waitFor()
  await look('events-nothing-matches')
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await rows.filter({ hasText: 'user.created' }).waitFor()
  await page.getByRole('combobox', { name: 'Event' }).click()
  await page.getByRole('option', { name: 'user.updated' }).click()
  await rows.filter({ hasText: 'user.created' }).waitFor({ state: 'detached' })
  await rows.filter({ hasText: 'user.updated' }).waitFor()
  expect(new URL(page.url()).search).toBe('?type=user.updated')
})

test('a refused question and a lost connection are said, and the feed goes on by itself', async () => {
  const tenant = await stage.service.newTenant()
  await createUser(tenant)
  const { page, rows, look, go } = await open(tenant, '/events?type=no.such')
  await page.getByText('This could not be loaded.').waitFor()
  await look('events-error')
  await go('/events')
  await rows.first().waitFor()
  await page.route('**/dashboard/api/events?*', (route) => route.abort())
  await createUser(tenant)
  await page.getByText('Not connected').waitFor()
  await look('events-not-connected')
  await page.unroute('**/dashboard/api/events?*')
  await page.getByText('Live', { exact: true }).waitFor()
})

test('events are opened by keyboard, on a phone', async () => {
  const tenant = await stage.service.newTenant()
  await createUser(tenant)
  const { page, rows } = await open(tenant, '/events', { phone: true, dark: true })
  await rows.first().focus()
  await page.keyboard.press('Enter')
  await page.getByRole('figure').waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('figure').waitFor({ state: 'detached' })
})
