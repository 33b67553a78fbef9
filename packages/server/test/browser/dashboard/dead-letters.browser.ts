import { expect, test, vi } from 'vitest'
import { deliveriesOf } from '../../../src/delivery/engine/delivery.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const { newTenant, open, sql, withDeadLetters } = useWebhookTests()

test('many dead letters are retried together: a reload goes on with them, and none is sent twice', async () => {
  const tenant = await newTenant()
  const { receiver, webhook, dead } = await withDeadLetters(tenant, 12)
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  let asked = 0
  // The first few get through, and their answers are lost; the others wait.
  await page.route('**/retry', async (route) => {
    asked += 1
    if (asked <= 3) await route.fetch()
    await new Promise(() => undefined)
  })
  await page.getByRole('checkbox', { name: 'Select all on this page' }).click()
  await page.getByText('12 selected').waitFor()
  await look('dead-letters-selected')
  await page.getByRole('button', { name: 'Retry selected' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Retry' }).click()
  await page.getByRole('progressbar').waitFor()
  await receiver.count('the first three', 3)
  await page.getByRole('tab', { name: 'Deliveries' }).click()
  await page.getByRole('tab', { name: /Dead letters/ }).click()
  await page.getByRole('progressbar').waitFor()
  await look('dead-letters-retrying')
  await page.unroute('**/retry')
  await page.reload()
  await page.getByText('12 of 12 sent again.').waitFor()
  await receiver.count('all', 12)
  expect(new Set(receiver.received.map(({ event }) => event.id))).toEqual(
    new Set(dead.map(({ eventId }: { eventId: string }) => eventId)),
  )
  await page.getByText('No dead letters').waitFor()
  expect(receiver.received).toHaveLength(12)
  await page.getByRole('button', { name: 'Dismiss' }).last().click()
  await page.getByText('12 of 12 sent again.').waitFor({ state: 'detached' })
})

test('a run of retries can be cancelled: what was not asked for stays a dead letter', async () => {
  const tenant = await newTenant()
  const { receiver, webhook } = await withDeadLetters(tenant, 8)
  const { page } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  const held: (() => void)[] = []
  await page.route('**/retry', async (route) => {
    await new Promise<void>((resolve) => held.push(resolve))
    await route.continue()
  })
  await page.getByRole('checkbox', { name: 'Select all on this page' }).click()
  await page.getByRole('button', { name: 'Retry selected' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Retry' }).click()
  await eventually('four are asked for', async () => held.length === 4)
  await page.getByRole('button', { name: 'Cancel the rest' }).click()
  for (const release of held) release()
  await page.getByText('4 of 8 sent again, 4 cancelled.').waitFor()
  await receiver.count('the four', 4)
  expect(await deliveriesOf(tenant, webhook.id, '&status=dead_letter')).toHaveLength(4)
})

test('all dead letters since a time are recovered by the server, and a reload still shows how far it is', async () => {
  const tenant = await newTenant()
  const { receiver, webhook } = await withDeadLetters(tenant, 5)
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  // Holds the job at its beginning for as long as one looks.
  await page.route('**/jobs/*', async (route) => {
    const answered = await route.fetch()
    const body = await answered.json()
    await route.fulfill({ json: { data: { ...body.data, status: 'running', progress: 2 } } })
  })
  await page.getByRole('button', { name: 'Retry all since…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Since' }).click()
  await page.getByRole('option', { name: 'Custom time' }).click()
  await dialog.getByLabel('Time').fill('2999-01-01T00:00:00')
  await dialog.getByRole('button', { name: 'Retry all' }).click()
  await dialog.getByText('Must not be in the future.').waitFor()
  await look('dead-letters-recover')
  await dialog.getByRole('combobox', { name: 'Since' }).click()
  await page.getByRole('option', { name: 'The last hour' }).click()
  await dialog.getByRole('button', { name: 'Retry all' }).click()
  await page.getByRole('progressbar').waitFor()
  await receiver.count('all five', 5)
  await page.getByText('2 of 5').waitFor()
  await look('dead-letters-recovering')
  await page.reload()
  await page.getByText('2 of 5').waitFor()
  await page.unroute('**/jobs/*')
  await page.getByText('Retry finished: 5 of 5 dead letters are being sent again.').waitFor()
  await page.getByRole('button', { name: 'Dismiss' }).last().click()
  await page.reload()
  await page.getByText('No dead letters').waitFor()
  await look('dead-letters-empty')
  expect(await page.getByText('Retry finished').count()).toBe(0)
})

test('dead letters are purged only after the word was typed', async () => {
  const tenant = await newTenant()
  const { receiver, webhook } = await withDeadLetters(tenant, 2)
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  await page.getByRole('button', { name: 'Purge…' }).click()
  const dialog = page.getByRole('alertdialog')
  const purge = dialog.getByRole('button', { name: 'Purge' })
  expect(await purge.isDisabled()).toBe(true)
  await look('dead-letters-purge')
  await dialog.getByLabel('Type purge to continue').fill('purge')
  await purge.click()
  await page.getByText('2 dead letters deleted', { exact: true }).first().waitFor()
  await page.getByText('No dead letters').waitFor()
  expect(await deliveriesOf(tenant, webhook.id)).toEqual([])
  expect(receiver.received).toEqual([])
})

test('a disabled webhook says why, and is activated again', SMOKE, async () => {
  const tenant = await newTenant()
  const { webhook } = await withDeadLetters(tenant, 1)
  const reason = 'Every delivery has failed since 2026-11-16T08:30:00.000Z.'
  await sql("update webhooks set status = 'disabled', disabled_reason = $2 where id = $1", [webhook.id, reason])
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  await page.getByText(reason).waitFor()
  await page.getByText('Activate the webhook before you retry.').waitFor()
  expect(await page.getByRole('button', { name: 'Retry all since…' }).isDisabled()).toBe(true)
  await look('webhook-disabled')
  await page.getByRole('button', { name: 'Activate', exact: true }).click()
  await page.getByText(reason).waitFor({ state: 'detached' })
  expect((await tenant.get(`/webhooks/${webhook.id}`)).body.data.status).toBe('active')
})
