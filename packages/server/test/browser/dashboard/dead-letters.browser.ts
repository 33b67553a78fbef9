import { expect, test, vi } from 'vitest'
import { deliveriesOf } from '../../../src/delivery/engine/delivery.fixture.ts'
import { SMOKE } from '../stage.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const { newTenant, open, sql, withDeadLetters } = useWebhookTests()

const OUTCOME = { name: 'Action on the selected dead letters' }

test('selected dead letters are retried by the server, each once; which could not be is told, also after a reload', async () => {
  const tenant = await newTenant()
  const { receiver, webhook, dead } = await withDeadLetters(tenant, 12)
  const [worn] = dead
  await sql('update deliveries_done set attempts = 100 where id = $1', [worn.id])
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  await page.getByRole('checkbox', { name: 'Select all on this page' }).click()
  await page.getByText('12 selected').waitFor()
  await look('dead-letters-selected')
  await page.getByRole('button', { name: 'Retry selected' }).click()
  await page.getByRole('alertdialog').getByText('Retry 12 dead letters').waitFor()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Retry' }).click()
  const outcome = page.getByRole('region', OUTCOME)
  await outcome.getByText('11 dead letters are being sent again. 1 left unchanged.').waitFor()
  await receiver.count('all but one', 11)
  await page.reload()
  await outcome.getByText('This delivery cannot be retried').waitFor()
  await look('dead-letters-retried')
  expect(await outcome.getByRole('link', { name: worn.id }).getAttribute('href')).toContain(worn.id)
  expect(new Set(receiver.received.map(({ event }) => event.id)).size).toBe(11)
  expect(receiver.received).toHaveLength(11)
  await outcome.getByRole('button', { name: 'Dismiss' }).click()
  await page.reload()
  await page.getByRole('checkbox', { name: 'Select all on this page' }).waitFor()
  expect(await outcome.count()).toBe(0)
})

test('selected dead letters are purged after a question, and the others stay', async () => {
  const tenant = await newTenant()
  const { webhook, dead } = await withDeadLetters(tenant, 3)
  const [first, second, kept] = dead
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  for (const { eventId } of [first, second]) await page.getByRole('checkbox', { name: new RegExp(eventId) }).click()
  await page.getByRole('button', { name: 'Purge selected' }).click()
  await page.getByRole('alertdialog').getByText('Delete 2 dead letters').waitFor()
  await look('dead-letters-purge-selected')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Purge' }).click()
  await page.getByRole('region', OUTCOME).getByText('2 dead letters deleted.').waitFor()
  expect((await deliveriesOf(tenant, webhook.id)).map(({ id }: { id: string }) => id)).toEqual([kept.id])
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
  await page.getByText('5 dead letters are being sent again.').waitFor()
  await page.getByRole('button', { name: 'Dismiss' }).last().click()
  await page.reload()
  await page.getByText('No dead letters').waitFor()
  await look('dead-letters-empty')
  expect(await page.getByText('are being sent again').count()).toBe(0)
})

test('dead letters are purged only after the word was typed', async () => {
  const tenant = await newTenant()
  const { receiver, webhook } = await withDeadLetters(tenant, 2)
  const { page, look } = await open(tenant, `/webhooks/${webhook.id}?tab=dead-letters`)
  await page.getByRole('button', { name: 'Purge all…' }).click()
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
