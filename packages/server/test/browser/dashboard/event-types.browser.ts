// Event types of the team: made, changed, archived, and offered wherever types are picked.
import { expect, test, vi } from 'vitest'
import { deliveriesIn } from '../../../src/delivery/engine/delivery.fixture.ts'
import { newType, ok } from '../../../src/delivery/events/own-events.fixture.ts'
import { newApp } from '../../../src/identity/sessions/sessions.fixture.ts'
import { answer } from '../../harness/receiver.ts'
import { SMOKE } from '../stage.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

vi.setConfig({ testTimeout: 240_000 })

const { newTenant, newReceiver, open } = useWebhookTests()

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script>`
const SCHEMA = { required: ['total'], properties: { total: { type: 'string' } } }

test(
  'an event type is created and changed; what is wrong is said at its field and keeps what was typed',
  SMOKE,
  async () => {
    const tenant = await newTenant()
    const { page, look } = await open(tenant, '/event-types')
    await page.getByText('No event types yet').waitFor()
    await look('event-types-empty')
    await page.getByRole('button', { name: 'Create event type' }).click()
    const dialog = page.getByRole('dialog')
    const schema = dialog.getByLabel('JSON Schema')
    const example = dialog.getByLabel('Example')
    const create = dialog.getByRole('button', { name: 'Create event type' })
    await dialog.getByLabel('Name').fill('user.paid')
    await dialog.getByLabel('Description').fill(HOSTILE)
    await schema.fill('{"required": ["total"')
    await create.click()
    await dialog.getByText('This is not valid JSON').waitFor()
    await schema.fill('[]')
    await dialog.getByText('Must be a JSON object, for example').waitFor()
    await schema.fill('{"properties": {"total": {"type": "text"}}}')
    await create.click()
    await dialog.getByText(/^properties\.total\.type: /).waitFor()
    await look('event-type-create-refused')
    await schema.fill(JSON.stringify(SCHEMA))
    await example.fill('{"total": 5}')
    await create.click()
    await dialog.getByText('total: Must be string.').waitFor()
    expect(await schema.inputValue()).toBe(JSON.stringify(SCHEMA))
    await example.fill('{"total": "5.00"}')
    await create.click()
    await dialog.getByText('Names that begin with "user." are reserved for Halfkey.').waitFor()
    await dialog.getByLabel('Name').fill('acme.invoice.paid')
    await create.click()
    await page.getByRole('link', { name: 'acme.invoice.paid' }).click()
    await dialog.getByText('"total": "5.00"').first().waitFor()
    await look('event-type')
    await example.fill('{"total": "6.00"}')
    await dialog.getByRole('switch', { name: 'Deprecated' }).click()
    await dialog.getByRole('button', { name: 'Save changes' }).click()
    await page.getByRole('cell').getByText('deprecated').waitFor()
    await look('event-types')
    const [made] = ok(await tenant.get('/event-types'))
    expect(made).toMatchObject({
      name: 'acme.invoice.paid',
      description: HOSTILE,
      schema: SCHEMA,
      schemaVersion: 1,
      example: { total: '6.00' },
      deprecated: true,
    })
    expect(await page.locator('main img').count()).toBe(0)
  },
)

test('an event type is archived after a question, found among the archived, and restored', async () => {
  const tenant = await newTenant()
  const { id } = await newType(tenant, 'acme.invoice.paid')
  const { page, look } = await open(tenant, '/event-types')
  await page.getByRole('button', { name: 'Archive acme.invoice.paid' }).click()
  await look('event-type-archive')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Archive' }).click()
  await page.getByText('No event types yet').waitFor()
  await page.getByRole('combobox', { name: 'Status' }).click()
  await page.getByRole('option', { name: 'archived' }).click()
  await page.getByRole('cell', { name: 'archived', exact: true }).waitFor()
  expect(ok(await tenant.get(`/event-types/${id}`)).status).toBe('archived')
  await page.getByRole('button', { name: 'Restore acme.invoice.paid' }).click()
  await page.getByText('No results').waitFor()
  expect(ok(await tenant.get(`/event-types/${id}`)).status).toBe('active')
})

test('types of the team are offered for webhooks, tests and filters', async () => {
  const tenant = await newTenant()
  await newType(tenant, 'acme.invoice.paid', { description: 'A customer paid.', example: { total: '5.00' } })
  const old = await newType(tenant, 'acme.old')
  ok(await tenant.delete(`/event-types/${old.id}`))
  const receiver = await newReceiver(answer(200, 'thanks'))
  const { page, look, go } = await open(tenant, '/webhooks?register=1')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill(`${receiver.url}/hook`)
  await dialog.getByRole('checkbox', { name: /^acme\.\*/ }).waitFor()
  await dialog.getByRole('button', { name: 'Single event types' }).click()
  await dialog.getByLabel('Search events').fill('acme')
  expect(await dialog.getByRole('group', { name: 'Event types' }).getByRole('checkbox').count()).toBe(1)
  await dialog.getByRole('checkbox', { name: 'acme.invoice.paid' }).click()
  await look('webhooks-register-own-type')
  await dialog.getByRole('button', { name: 'Register' }).click()
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByRole('button', { name: 'Send test event' }).click()
  await dialog.getByRole('combobox', { name: 'Event type' }).click()
  await page.getByRole('option', { name: 'acme.invoice.paid' }).click()
  await dialog.getByRole('button', { name: 'Send', exact: true }).click()
  await dialog.getByText('thanks').waitFor()
  expect(receiver.received[0]?.event).toMatchObject({ type: 'acme.invoice.paid', data: { total: '5.00' } })
  const [webhook] = ok(await tenant.get('/webhooks'))
  await deliveriesIn(tenant, webhook.id, 'succeeded')
  ok(await tenant.post('/events', { type: 'acme.invoice.paid', data: { total: '7.00' } }), 201)
  for (const path of [`/webhooks/${webhook.id}`, '/events']) {
    await go(path)
    await page.getByRole('combobox', { name: 'Event' }).click()
    await page.getByRole('option', { name: 'acme.old (archived)' }).waitFor()
    await page.getByRole('option', { name: 'acme.invoice.paid' }).click()
    await page.getByRole('main').getByText('acme.invoice.paid').nth(1).waitFor()
  }
})

test('a link opens a type; a key that may only read changes nothing, and sees only the types of its app', async () => {
  const tenant = await newTenant()
  const other = await newApp(tenant, { name: 'Second app' })
  const type = await newType(tenant, 'acme.invoice.paid', { schema: SCHEMA })
  await newType(tenant, 'acme.hidden', { appId: other })
  const key = await tenant.newKey({ scopes: ['event_types:read'], appId: tenant.appId })
  const { page, go } = await open(tenant, `/event-types?id=${type.id}`, { key })
  const dialog = page.getByRole('dialog')
  expect(await dialog.getByLabel('JSON Schema').isDisabled()).toBe(true)
  expect(await dialog.getByRole('button', { name: /save|archive/i }).count()).toBe(0)
  await go('/event-types')
  await page.getByRole('link', { name: 'acme.invoice.paid' }).waitFor()
  expect(await page.getByText('acme.hidden').count()).toBe(0)
  expect(await page.getByRole('button', { name: /create event|archive/i }).count()).toBe(0)
})
