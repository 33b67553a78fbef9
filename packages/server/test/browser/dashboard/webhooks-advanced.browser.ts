import { expect, test, vi } from 'vitest'
import { createUser, deliveriesIn, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import { makeAuthority } from '../../../src/platform/egress/certificates.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const { newTenant, newReceiver, open, sql } = useWebhookTests()

const SECRET = 'k3y-of-the-gateway-9f31'

test('a header is saved, sent, shown by its name alone, and removed', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  const { page, look } = await open(tenant, `/webhooks/${id}?tab=settings`)
  await page.getByRole('button', { name: 'Show', exact: true }).click()
  await page.getByRole('button', { name: 'Save header' }).waitFor()
  await look('webhook-advanced')
  await page.getByLabel('Header name').fill('X-Service-Signature')
  await page.getByLabel('Header value').fill(SECRET)
  await page.getByRole('button', { name: 'Save header' }).click()
  await page.getByText('Halfkey or the connection sets this header').waitFor()
  await page.getByLabel('Header name').fill('X-Api-Key')
  await page.getByRole('button', { name: 'Save header' }).click()
  await page.getByText('Header saved', { exact: true }).first().waitFor()
  await page.getByRole('list', { name: 'Headers' }).getByText('ends in 9f31').waitFor()
  expect(await page.content()).not.toContain(SECRET)
  await page.getByText('In use: 1 header.').waitFor()
  await createUser(tenant)
  expect((await receiver.until('the delivery', () => true)).headers['x-api-key']).toBe(SECRET)
  await look('webhook-advanced-header')
  await page.getByRole('button', { name: 'Remove X-Api-Key' }).click()
  await page.getByRole('alertdialog').getByRole('button', { name: 'Remove', exact: true }).click()
  await eventually('it is gone', async () => (await tenant.get(`/webhooks/${id}`)).body.data.headers.length === 0)
})

test('an OAuth client and a certificate are saved; what is refused is said at its field', async () => {
  const tenant = await newTenant()
  const { id } = await subscribe(tenant, 'https://example.com/hook', { events: ['app.deleted'] })
  const { page, look } = await open(tenant, `/webhooks/${id}?tab=settings`)
  await page.getByRole('button', { name: 'Show', exact: true }).click()
  await page.getByLabel('Token URL').fill('https://10.1.2.3/token')
  await page.getByLabel('Client id').fill('halfkey')
  await page.getByLabel('Client secret').fill(SECRET)
  await page.getByRole('button', { name: 'Save client' }).click()
  await eventually(
    'the URL is refused',
    async () => (await page.getByLabel('Token URL').getAttribute('aria-invalid')) === 'true',
  )
  await page.getByLabel('Token URL').fill('https://login.example.com/token')
  await page.getByRole('button', { name: 'Save client' }).click()
  await page.getByText('The stored secret: ends in 9f31.').waitFor()
  const { cert, key } = makeAuthority('Root').issue(['client'])
  await page.getByLabel('Certificate', { exact: true }).fill(cert)
  await page.getByLabel('Private key').fill(makeAuthority('Root').issue(['other']).key)
  await page.getByRole('button', { name: 'Save certificate' }).click()
  await page.getByText('Does not belong to the first certificate').waitFor()
  await page.getByLabel('Private key').fill(key)
  await page.getByRole('button', { name: 'Save certificate' }).click()
  await page.getByText('CN=client').waitFor()
  await page.getByText('In use: OAuth, client certificate.').waitFor()
  await look('webhook-advanced-full')
  const { oauth, clientCertificate } = (await tenant.get(`/webhooks/${id}`)).body.data
  expect([oauth.clientId, clientCertificate.subject]).toEqual(['halfkey', 'CN=client'])
})

test('the list shows the health of each webhook', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  await subscribe(tenant, `${receiver.url}/idle`, { events: ['app.deleted'] })
  await createUser(tenant)
  await deliveriesIn(tenant, id, 'succeeded')
  await sql(
    `insert into webhook_minutes (tenant_id, webhook_id, minute, attempts, failed) values ($1, $2, now() - interval '5 minutes', 40, 31)`,
    [tenant.tenantId, id],
  )
  const { page, look } = await open(tenant, '/webhooks')
  await page.getByText('failing', { exact: true }).waitFor()
  await page.getByText('idle', { exact: true }).waitFor()
  await look('webhooks-health')
})

test('a filter, a format and the events for subscribers are set, and what the server says of a filter stands beside it', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  const record = async () => (await tenant.get(`/webhooks/${id}`)).body.data
  const { page, look } = await open(tenant, `/webhooks/${id}?tab=settings`)
  const filter = page.getByLabel('Filter', { exact: true })
  const save = () => page.getByRole('button', { name: 'Save changes' }).click()
  await filter.fill('{"path":')
  await save()
  await page.getByText('This is not valid JSON').waitFor()
  await filter.fill('{"and":[{"path":"type","eq":"user.created"},{"path":"data.email","matches":"^a"}]}')
  await save()
  await page.getByText('and.1.matches: Unknown field "matches".').waitFor()
  expect(await filter.getAttribute('aria-invalid')).toBe('true')
  await look('webhook-filter-refused')
  await filter.fill('{"path": "data.email", "prefix": "ada@"}')
  await page.getByRole('combobox', { name: 'Format' }).click()
  await page.getByRole('option', { name: 'CloudEvents, binary' }).click()
  await page.getByRole('combobox', { name: 'Payload' }).click()
  await page.getByRole('option', { name: 'Without data (thin)' }).click()
  await page.getByRole('switch', { name: 'Also events for subscribers' }).click()
  await save()
  await page.getByText('Changes saved', { exact: true }).first().waitFor()
  const shape = { format: 'cloudevents_binary', payload: 'thin', includeSubscribers: true }
  const set = { filter: { path: 'data.email', prefix: 'ada@' }, ...shape }
  expect(await record()).toMatchObject(set)
  await page.getByText('{"path":"data.email","prefix":"ada@"}').waitFor()
  await page.getByText('CloudEvents, binary, without data').waitFor()
  await look('webhook-filter')
  await createUser(tenant, { email: 'bob@example.com' })
  const userId = await createUser(tenant, { email: 'ada@example.com' })
  expect(await receiver.until('the user', () => true)).toMatchObject({
    body: '{}',
    headers: { 'ce-type': 'user.created' },
  })
  expect((await tenant.get('/events?type=user.created')).body.data.events.at(-1).data.userId).toBe(userId)
  const [{ id: deliveryId }] = await deliveriesIn(tenant, id, 'succeeded')
  await page.goto(new URL(`/dashboard/webhooks/${id}/deliveries/${deliveryId}`, page.url()).href)
  await page.getByText('ce-type', { exact: true }).waitFor()
  await look('delivery-cloudevents')
  await page.goto(new URL(`/dashboard/webhooks/${id}?tab=settings`, page.url()).href)
  await filter.fill('')
  await save()
  await page.getByText('Changes saved', { exact: true }).first().waitFor()
  expect(await record()).toMatchObject({ ...set, filter: null })
})
