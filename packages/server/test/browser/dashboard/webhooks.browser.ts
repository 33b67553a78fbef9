import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { expect, test, vi } from 'vitest'
import { verifyWebhook } from '../../../../sdk/src/index.ts'
import { createUser, deliveriesIn, subscribe } from '../../../src/delivery/engine/delivery.fixture.ts'
import { eventually } from '../../harness/harness.ts'
import { answer } from '../../harness/receiver.ts'
import { freePort } from '../../harness/service-process.ts'
import { SMOKE } from '../stage.ts'
import { useWebhookTests } from './webhooks.fixture.ts'

// Each state is looked at four times.
vi.setConfig({ testTimeout: 240_000 })

const SDK = pathToFileURL(join(import.meta.dirname, '../../../../sdk/src/index.ts')).href
const HOSTILE = `<img src=x onerror=alert(1)>"'&</script><script>alert(2)</script> \u202eevil\u202c \u001b[31mred`

const { newTenant, newReceiver, open, withDeadLetters } = useWebhookTests()

async function toast(page: Page, text: string): Promise<void> {
  await page.getByText(text, { exact: true }).first().waitFor()
}

async function register(page: Page, url: string, events: string[]): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill(url)
  for (const event of events) await dialog.getByRole('checkbox', { name: event }).click()
  await dialog.getByRole('button', { name: 'Register' }).click()
}

async function shownSecret(page: Page, label = 'Signing secret'): Promise<string> {
  const secret = page.getByRole('dialog').getByLabel(label, { exact: true })
  await secret.waitFor()
  return (await secret.textContent()) as string
}

test('a webhook registered in the dashboard receives, signed with the secret that is shown once', SMOKE, async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { page, look } = await open(tenant, '/webhooks')
  await page.getByText('No webhooks yet').waitFor()
  await look('webhooks-empty')
  await page.getByRole('button', { name: 'Register', exact: true }).click()
  await page.getByRole('checkbox', { name: 'user.*' }).waitFor()
  await look('webhooks-register')
  await page.getByRole('button', { name: 'Single event types' }).click()
  await page.getByRole('checkbox', { name: 'user.created' }).waitFor()
  await register(page, `${receiver.url}/hook`, ['user.created'])
  const secret = await shownSecret(page)
  await look('webhooks-registered')
  const [webhook] = (await tenant.get('/webhooks')).body.data
  expect(webhook).toMatchObject({ url: `${receiver.url}/hook`, events: ['user.created'], appId: null })
  await page.getByRole('button', { name: 'Copy', exact: true }).click()
  await eventually(
    'the secret is copied',
    async () => (await page.evaluate('navigator.clipboard.readText()')) === secret,
  )
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByText('No deliveries yet').waitFor()
  expect(await page.content()).not.toContain(secret)
  const userId = await createUser(tenant, { email: 'ada@example.com' })
  const received = await receiver.until('the event', ({ event }) => event.type === 'user.created')
  const event = await verifyWebhook(received.body, received.headers, secret)
  expect(event.data).toMatchObject({ userId, email: 'ada@example.com' })
  await page.getByRole('table', { name: 'Deliveries' }).getByText('succeeded').waitFor()
  await look('webhook-deliveries')
  await page.getByRole('link', { name: 'user.created' }).click()
  await page.getByRole('heading', { name: 'user.created' }).waitFor()
  await page.getByRole('listitem').getByText('204').waitFor()
  await look('delivery-succeeded')
  await page.getByRole('button', { name: 'Send again' }).click()
  const [, again] = await receiver.count('the same once more', 2)
  expect(again?.event).toEqual(event)
})

test('a dead letter is seen in the dashboard, retried there, and arrives with the same event id', async () => {
  const tenant = await newTenant()
  const { receiver, dead } = await withDeadLetters(tenant, 1)
  const [{ eventId }] = dead
  const { page, look } = await open(tenant, '/webhooks')
  await look('webhooks-trouble')
  await page.getByRole('link', { name: '1 dead letter' }).click()
  await page.getByRole('tab', { name: 'Dead letters (1)', selected: true }).waitFor()
  const table = page.getByRole('table', { name: 'Dead letters' })
  await table.getByText(eventId, { exact: true }).waitFor()
  await look('webhook-dead-letters')
  const attempts = await table.getByRole('row').nth(1).getByRole('cell').nth(3).textContent()
  expect(attempts).toBe('2')
  await table.getByRole('link', { name: 'user.created' }).click()
  await page.getByText('All attempts failed. Halfkey will not retry').waitFor()
  expect(await page.getByRole('list', { name: 'Attempts' }).getByText('try later').count()).toBe(2)
  // The page counts like the list.
  expect(await page.getByText(/^Attempt \d+$/).allTextContents()).toEqual([`Attempt ${attempts}`, 'Attempt 1'])
  await look('delivery-dead-letter')
  await page.getByRole('button', { name: 'Retry now' }).click()
  const again = await receiver.until('the dead letter', () => true)
  expect([again.event.id, again.headers['x-service-event-id']]).toEqual([eventId, eventId])
  await page.getByRole('main').getByText('succeeded').waitFor()
  await page.getByText('Attempt 3', { exact: true }).waitFor()
})

test('the receiver that the dashboard gives to paste verifies what it is sent', async () => {
  const tenant = await newTenant()
  // Not one that the system might give away, to a connection or a test beside this one, before the receiver listens.
  const url = `http://127.0.0.1:${await freePort()}/hook`
  const { page } = await open(tenant, '/webhooks?register=1')
  await register(page, url, ['All events'])
  const secret = await shownSecret(page)
  const snippet = await page.getByRole('figure').getByText('createServer').textContent()
  expect(snippet).toContain('cd packages/sdk && npm pack')
  expect(snippet).not.toContain('npm install @halfkey/sdk')
  const help = await page.getByRole('link', { name: 'How to install the SDK' }).getAttribute('href')
  const docs = await (await page.request.get(new URL(help as string, page.url()).href)).text()
  expect(docs).toContain('id="installing"')
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-receiver-'))
  const file = join(folder, 'receiver.mjs')
  writeFileSync(file, (snippet as string).replace("'@halfkey/sdk'", JSON.stringify(SDK)))
  const process_ = spawn(process.execPath, [file], { env: { ...process.env, HALFKEY_WEBHOOK_SECRET: secret } })
  let output = ''
  for (const stream of [process_.stdout, process_.stderr]) stream.on('data', (chunk) => (output += String(chunk)))
  try {
    await eventually('the receiver listens', async () => output.includes('Listening'))
    await page.getByRole('button', { name: 'I have saved it' }).click()
    await page.getByRole('button', { name: 'Send test event' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByRole('dialog').getByText('Your endpoint accepted the event.').waitFor()
    await eventually('it is printed', async () => output.includes('webhook.test'))
  } finally {
    process_.kill()
    rmSync(folder, { recursive: true })
  }
})

test('a refused registration says so at its fields and keeps what was typed', async () => {
  const tenant = await newTenant()
  const { page, look } = await open(tenant, '/webhooks?register=1')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill('https://10.1.2.3/hook')
  await dialog.getByText('This URL is in a private network').waitFor()
  await dialog.getByLabel('Description').fill('Backend')
  await dialog.getByRole('button', { name: 'Register' }).click()
  await dialog.getByText('Choose at least one event.').waitFor()
  await look('webhooks-register-refused')
  await dialog.getByRole('checkbox', { name: 'user.*' }).click()
  await dialog.getByRole('button', { name: 'Register' }).click()
  await eventually('the URL is refused', async () => (await dialog.getByRole('alert').count()) === 1)
  expect(await dialog.getByLabel('URL').inputValue()).toBe('https://10.1.2.3/hook')
  expect(await dialog.getByLabel('URL').getAttribute('aria-invalid')).toBe('true')
  expect(await dialog.getByLabel('Description').inputValue()).toBe('Backend')
  expect((await tenant.get('/webhooks')).body.total).toBe(0)
  for (const [typed, hint] of [
    ['hook', 'Enter a complete URL'],
    ['http://localhost:3000/x', 'It works in development'],
    ['http://example.com/x', 'does not use TLS'],
    ['https://a:b@example.com/', 'a user name or a password'],
    ['https://example.com/', 'Events are sent to example.com'],
  ] as const) {
    await dialog.getByLabel('URL').fill(typed)
    await dialog.getByText(hint).waitFor()
  }
})

test('events are chosen one by one, by family, all, or by search', async () => {
  const tenant = await newTenant()
  const { page, look } = await open(tenant, '/webhooks?register=1')
  const dialog = page.getByRole('dialog')
  const box = (name: string) => dialog.getByRole('checkbox', { name })
  await dialog.getByRole('button', { name: 'Single event types' }).click()
  await box('user.created').click()
  await box('user.*').click()
  await dialog.getByText('Selected: user.*', { exact: true }).waitFor()
  expect(await box('user.deleted').isChecked()).toBe(true)
  await dialog.getByLabel('Search events').fill('frozen')
  const found = dialog.getByRole('group', { name: 'Event types' }).getByRole('checkbox')
  expect(await found.count()).toBe(1)
  await box('wallet.frozen').click()
  await dialog.getByText('Selected: user.*, wallet.frozen', { exact: true }).waitFor()
  await look('webhooks-register-search')
  const place = await dialog.getByRole('button', { name: 'Register' }).boundingBox()
  expect((place?.y ?? Number.NaN) + (place?.height ?? 0)).toBeLessThan(800)
  await dialog.getByLabel('Search events').fill('nothing like that')
  await dialog.getByText('No event type contains').waitFor()
  await box('All events').click()
  await dialog.getByText('Selected: *', { exact: true }).waitFor()
})

test('a test event of a chosen kind is sent, and its outcome shown with the receiver’s answer', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver(answer(200, 'thanks a lot'))
  const { id } = await subscribe(tenant, receiver.url)
  const { page, look } = await open(tenant, `/webhooks/${id}`)
  await page.getByText('No deliveries yet').waitFor()
  await look('webhook-no-deliveries')
  await page.getByRole('button', { name: 'Send test event' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('combobox', { name: 'Event type' }).click()
  await page.getByRole('option', { name: 'tx.completed', exact: true }).click()
  await dialog.getByRole('button', { name: 'Send', exact: true }).click()
  await dialog.getByText('thanks a lot').waitFor()
  await dialog.getByText(/^200 in \d+ ms$/).waitFor()
  expect(receiver.received.map(({ event }) => event.type)).toEqual(['tx.completed'])
  await look('webhook-test')
  receiver.behave(answer(500, HOSTILE))
  await dialog.getByRole('button', { name: 'Send', exact: true }).click()
  await dialog.getByText('Your endpoint did not accept the event.').waitFor()
  await dialog.getByText('<img src=x onerror=alert(1)>').waitFor()
  await dialog.getByRole('link', { name: 'Open the delivery' }).click()
  await page.getByText('Test events are sent once.').waitFor()
  expect(await page.getByRole('button', { name: 'Retry now' }).isDisabled()).toBe(true)
})

test('a webhook is changed, paused, resumed and deleted', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  const record = async () => (await tenant.get(`/webhooks/${id}`)).body.data
  const { page, look } = await open(tenant, `/webhooks/${id}?tab=settings`)
  await page.getByRole('checkbox', { name: 'user.created' }).waitFor()
  await look('webhook-settings')
  await page.getByLabel('URL', { exact: true }).fill('https://192.168.0.1/')
  await page.getByLabel('Description').fill('New one')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByRole('alert').first().waitFor()
  expect(await page.getByLabel('Description').inputValue()).toBe('New one')
  await page.getByLabel('URL', { exact: true }).fill(`${receiver.url}/new`)
  await page.getByRole('checkbox', { name: 'tx.*' }).click()
  await page.getByRole('button', { name: 'Save changes' }).click()
  await toast(page, 'Changes saved')
  expect(await record()).toMatchObject({
    url: `${receiver.url}/new`,
    events: ['user.created', 'tx.*'],
    description: 'New one',
  })
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('Paused: deliveries wait until you resume').waitFor()
  expect((await record()).status).toBe('paused')
  await look('webhook-paused')
  await createUser(tenant)
  await deliveriesIn(tenant, id, 'pending')
  expect(receiver.received).toEqual([])
  await page.getByRole('button', { name: 'Resume', exact: true }).click()
  await receiver.until('the event that waited', () => true)
  await page.getByRole('button', { name: 'Delete', exact: true }).click()
  await page.getByRole('alertdialog').getByText('Waiting deliveries are cancelled').waitFor()
  await look('webhook-delete')
  await page.getByRole('button', { name: 'Delete webhook' }).click()
  await page.getByText('No webhooks yet').waitFor()
  expect((await tenant.get(`/webhooks/${id}`)).status).toBe(404)
})

test('a rotated secret is shown once, the old one is good for its grace, which can be ended', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id, secret: old } = await subscribe(tenant, receiver.url)
  const { page, look } = await open(tenant, `/webhooks/${id}?tab=settings`)
  await page.getByRole('button', { name: 'Rotate…' }).click()
  await look('webhook-rotate')
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate', exact: true }).click()
  const fresh = await shownSecret(page, 'New signing secret')
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByText(fresh.slice(-4)).first().waitFor()
  await createUser(tenant)
  const [during] = await receiver.count('one in the grace', 1)
  for (const secret of [old, fresh]) await verifyWebhook(during?.body ?? '', during?.headers ?? {}, secret)
  await page.getByText('The previous secret also signs until').waitFor()
  await look('webhook-grace')
  await page.getByRole('button', { name: 'End grace period…' }).click()
  await page.getByRole('button', { name: 'End grace period', exact: true }).click()
  await toast(page, 'Only the current secret is valid now')
  await page.getByText('The previous secret also signs until').waitFor({ state: 'detached' })
  await createUser(tenant)
  const [, after] = await receiver.count('one after it', 2)
  await verifyWebhook(after?.body ?? '', after?.headers ?? {}, fresh)
  await expect(verifyWebhook(after?.body ?? '', after?.headers ?? {}, old)).rejects.toThrow('signature_mismatch')
})

test('a delivery shows its body byte for byte, and lines that compute the signature it came with', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id, secret } = await subscribe(tenant, receiver.url)
  await createUser(tenant, { email: "o'neil@example.com" })
  const [{ id: deliveryId }] = await deliveriesIn(tenant, id, 'succeeded')
  const { page, look } = await open(tenant, `/webhooks/${id}/deliveries/${deliveryId}`)
  await page.getByRole('tab', { name: 'Raw' }).click()
  await page.getByText('The signature covers exactly these bytes.').waitFor()
  const sent = receiver.received[0]
  expect(await page.getByRole('tabpanel').locator('code').textContent()).toBe(sent?.body)
  await page.getByRole('button', { name: 'Copy body' }).click()
  await eventually('it is copied', async () => (await page.evaluate('navigator.clipboard.readText()')) === sent?.body)
  expect(new URL(page.url()).searchParams.get('payload')).toBe('raw')
  await look('delivery-raw')
  const snippet = (await page.getByText('openssl dgst').textContent()) as string
  const shell = spawn('sh', ['-c', snippet], { env: { ...process.env, HALFKEY_WEBHOOK_SECRET: secret } })
  let digest = ''
  shell.stdout.on('data', (chunk) => (digest += String(chunk)))
  await new Promise((resolve) => shell.on('close', resolve))
  expect(`sha256=${digest.split(' ')[0]}`).toBe(sent?.headers['x-service-signature'])
})

test('what a hostile receiver answers stays text, and breaks no layout', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver(answer(500, HOSTILE + 'x'.repeat(5_000)))
  const { id } = await subscribe(tenant, `${receiver.url}/${'long'.repeat(400)}?q=<img src=x onerror=alert(3)>`)
  await tenant.patch(`/webhooks/${id}`, { description: `${HOSTILE}${'y'.repeat(300)}` })
  await createUser(tenant)
  const [{ id: deliveryId }] = await deliveriesIn(tenant, id, 'dead_letter')
  const { page, look, go } = await open(tenant, `/webhooks/${id}/deliveries/${deliveryId}`)
  const shown = await page.getByRole('list', { name: 'Attempts' }).locator('code').first().textContent()
  expect(shown).toContain('<img src=x onerror=alert(1)>')
  expect(shown).toContain('\\u202eevil\\u202c \\x1b[31mred')
  await look('delivery-hostile')
  await go(`/webhooks/${id}`)
  await page.getByRole('table').waitFor()
  await look('webhook-hostile')
  await go('/webhooks')
  await page.getByRole('table').waitFor()
  await look('webhooks-hostile')
  expect(await page.locator('main img, main script').count()).toBe(0)
})

test('a key that may only read sees everything and is offered no action', async () => {
  const tenant = await newTenant()
  const { webhook, dead } = await withDeadLetters(tenant, 1)
  const key = await tenant.newKey({ scopes: ['webhooks:read'] })
  const { page, go } = await open(tenant, '/webhooks?register=1', { key })
  const reason = page.getByText('your API key does not have the scope').first()
  await reason.waitFor()
  const actions = page.getByRole('button', { name: /register|retry|purge|test|save|rotate|delete|pause/i })
  expect([await actions.count(), await page.getByRole('dialog').count()]).toEqual([0, 0])
  for (const path of ['', '?tab=dead-letters', '?tab=settings', `/deliveries/${dead[0].id}`]) {
    await go(`/webhooks/${webhook.id}${path}`)
    await reason.waitFor()
    expect(await actions.count(), path).toBe(0)
  }
})

test('lists are filtered by their address; what matches nothing says so, what is not there too', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { id } = await subscribe(tenant, receiver.url)
  await createUser(tenant)
  await deliveriesIn(tenant, id, 'succeeded')
  const { page, look, go } = await open(tenant, '/webhooks?status=paused')
  await page.getByText('No results').waitFor()
  await look('webhooks-nothing-matches')
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await page.getByRole('table', { name: 'Webhooks' }).getByText('active').waitFor()
  await go(`/webhooks/${id}?status=cancelled&type=user.created`)
  await page.getByText('No results').waitFor()
  await page.getByRole('button', { name: 'Clear filters' }).click()
  await page.getByRole('combobox', { name: 'Status' }).click()
  await page.getByRole('option', { name: 'succeeded' }).click()
  await page.getByRole('link', { name: 'user.created' }).waitFor()
  await page.waitForURL((url) => url.search === '?status=succeeded')
  const missing = 'wh_01jb2m7x9kq4t8v6w0r3s5y1zk'
  for (const path of [missing, `${id}/deliveries/dlv_01jb2m7x9kq4t8v6w0r3s5y1zk`, `${missing}/deliveries/x`]) {
    await go(`/webhooks/${path}`)
    await page.getByText('This record does not exist.').waitFor()
  }
  await look('webhook-missing')
  await page.route('**/dashboard/api/webhooks?*', (route) => route.abort())
  await go('/webhooks')
  await page.getByText('This could not be loaded.').waitFor()
  await look('webhooks-error')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByText('This could not be loaded.').waitFor()
  await page.unroute('**/dashboard/api/webhooks?*')
  await page.getByRole('table', { name: 'Webhooks' }).waitFor()
})

test('a webhook is registered by keyboard alone, on a phone', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const { page } = await open(tenant, '/webhooks', { phone: true, dark: true })
  await page.getByRole('button', { name: 'Register', exact: true }).focus()
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog')
  // It takes the focus with its first frame, and would from whatever has it by then.
  await dialog.locator(':focus').waitFor()
  await dialog.getByLabel('URL').focus()
  await page.keyboard.type(receiver.url)
  await page.keyboard.press('Tab')
  await page.keyboard.press('Space')
  expect(await dialog.getByRole('checkbox', { name: 'All events' }).isChecked()).toBe(true)
  await dialog.getByLabel('URL').press('Enter')
  await shownSecret(page)
  // Pressing beside it does not take the secret away.
  await page.mouse.click(2, 2)
  await shownSecret(page)
  expect((await tenant.get('/webhooks')).body.data[0].events).toEqual(['*'])
})
