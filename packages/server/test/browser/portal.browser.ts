import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Frame, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { verifyWebhook } from '../../../sdk/src/index.ts'
import { newType, ok } from '../../src/delivery/events/own-events.fixture.ts'
import { newSubscriber, newWebhook, publish } from '../../src/delivery/subscribers/subscribers.fixture.ts'
import { png } from '../../src/tenancy/apps/logo/png.fixture.ts'
import { eventually, type Tenant } from '../harness/harness.ts'
import { answer, startReceiver } from '../harness/receiver.ts'
import { openContext } from './dashboard/support.ts'
import { newContext } from './person.ts'
import { SMOKE, useStage } from './stage.ts'

const PAID = 'acme.invoice.paid'
const stage = useStage(async () => ({ HALFKEY_WEBHOOK_RETRY_DELAYS: '1ms' }))

async function newTenant(): Promise<Tenant> {
  const tenant = await stage.service.newTenant()
  await newType(tenant, PAID, { description: 'A customer paid an invoice.', example: { invoiceId: 'inv_1' } })
  ok(await tenant.patch(`/apps/${tenant.appId}`, { branding: { name: 'Acme', accentColor: '#0f766e' } }))
  const logo = png({ width: 120, height: 40 }).toString('base64')
  ok(await tenant.post(`/apps/${tenant.appId}/logo`, { png: logo }))
  return tenant
}

async function newReceiver() {
  const receiver = await startReceiver()
  stage.host({ leave: () => receiver.close() })
  return receiver
}

const linkTo = async (tenant: Tenant, subscriberId: string, input: object = {}): Promise<string> =>
  ok(await tenant.post(`/subscribers/${subscriberId}/portal-link`, input), 201).url

/** Opens the portal of a subscriber in a browser of theirs. */
async function visit(tenant: Tenant, subscriberId: string) {
  const visitor = stage.host(await openContext(stage.browser, '/portal'))
  await visitor.page.goto(await linkTo(tenant, subscriberId))
  await visitor.page.getByRole('heading', { name: 'Webhooks' }).waitFor()
  return visitor
}

async function addEndpoint(page: Page, url: string): Promise<string> {
  await page.getByRole('button', { name: 'Add endpoint' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill(url)
  await dialog.getByRole('checkbox', { name: 'All events' }).click()
  await dialog.getByRole('checkbox', { name: PAID }).click()
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  const secret = (await dialog.getByLabel('Signing secret', { exact: true }).textContent()) as string
  await dialog.getByRole('button', { name: 'I have saved it' }).click()
  return secret
}

test('two subscribers at once each add an endpoint, and receive and see what is theirs alone', SMOKE, async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const [ada, bob] = [
    await newSubscriber(tenant, { name: 'Ada Ltd' }),
    await newSubscriber(tenant, { name: 'Bob Ltd' }),
  ]
  const [adas, bobs] = await Promise.all([visit(tenant, ada), visit(tenant, bob)])
  await adas.page.getByText('Acme · Ada Ltd').waitFor()
  await bobs.page.getByText('Acme · Bob Ltd').waitFor()
  expect(await adas.page.getByRole('img', { name: 'Acme' }).boundingBox()).toMatchObject({ width: 120, height: 40 })
  await adas.look('portal-empty')
  const [secret] = await Promise.all([
    addEndpoint(adas.page, `${receiver.url}/ada`),
    addEndpoint(bobs.page, `${receiver.url}/bob`),
  ])
  const [forAda, forBob] = [await publish(tenant, PAID, ada), await publish(tenant, PAID, bob)]
  ok(await tenant.post('/users', {}), 201)
  const received = await receiver.until('Ada’s event', ({ path }) => path === '/ada')
  expect((await verifyWebhook(received.body, received.headers, secret)).id).toBe(forAda)
  await receiver.until('Bob’s event', ({ path }) => path === '/bob')
  expect(receiver.received.map(({ path, event }) => [path, event.id]).sort()).toEqual([
    ['/ada', forAda],
    ['/bob', forBob],
  ])
  for (const [{ page, look }, path, own, other] of [
    [adas, '/ada', forAda, forBob],
    [bobs, '/bob', forBob, forAda],
  ] as const) {
    await page.getByRole('button', { name: new RegExp(`${path}\\b`) }).click()
    await page.getByRole('list', { name: 'Deliveries' }).getByText('succeeded').waitFor()
    await look(`portal-endpoint-${path.slice(1)}`)
    await page.getByRole('button', { name: new RegExp(`^${PAID}`) }).click()
    await page.getByText(own).first().waitFor()
    const text = await page.evaluate<string>('document.body.innerText')
    expect(text).not.toContain(other)
    await look(`portal-delivery-${path.slice(1)}`)
  }
})

test('a customer edits, tests, rotates, retries a dead letter, pauses and deletes', async () => {
  const tenant = await newTenant()
  const receiver = await newReceiver()
  const ada = await newSubscriber(tenant)
  const id = await newWebhook(tenant, receiver.url, ada, [PAID])
  receiver.behave(answer(500))
  const eventId = await publish(tenant, PAID, ada)
  await eventually('the dead letter', async () => {
    const [dead] = ok(await tenant.get(`/webhooks/${id}/deliveries?status=dead_letter`))
    return dead !== undefined
  })
  const { page, look } = await visit(tenant, ada)
  await page.getByRole('button', { name: new RegExp(receiver.url) }).click()
  receiver.behave(answer(200))
  await page.getByRole('button', { name: new RegExp(`^${PAID}`) }).click()
  await page.getByRole('button', { name: 'Send again' }).click()
  await page.getByText('succeeded').waitFor()
  expect(receiver.received.at(-1)?.event.id).toBe(eventId)
  await page.getByRole('button', { name: 'Endpoint' }).click()

  await page.getByRole('button', { name: 'Send test…' }).click()
  await page.getByRole('button', { name: 'Send', exact: true }).click()
  await page.getByText('Your endpoint accepted the event.').waitFor()
  await look('portal-test')
  await page.getByRole('button', { name: 'Close' }).click()

  const before = ok(await tenant.get(`/webhooks/${id}`)).secretLast4
  await page.getByRole('button', { name: 'Rotate secret…' }).click()
  await page.getByRole('button', { name: 'Rotate', exact: true }).click()
  const secret = (await page.getByLabel('New signing secret', { exact: true }).textContent()) as string
  expect(secret).toMatch(/^whsec_/)
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByText(secret.slice(-4), { exact: true }).waitFor()
  expect(await page.content()).not.toContain(secret)
  expect(ok(await tenant.get(`/webhooks/${id}`)).secretLast4).not.toBe(before)

  await page.getByRole('button', { name: 'Edit…' }).click()
  const url = page.getByRole('dialog').getByLabel('URL')
  await url.fill('https://10.0.0.1/')
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('the host is not on the public internet').waitFor()
  await look('portal-edit-refused')
  await url.fill(`${receiver.url}/moved`)
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByRole('heading', { name: `${receiver.url}/moved` }).waitFor()

  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('button', { name: 'Resume' }).waitFor()
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete endpoint' }).click()
  await page.getByText('No endpoints yet').waitFor()
  expect((await tenant.get(`/webhooks/${id}`)).status).toBe(404)
})

test('the token is in memory only: not in the address, the storage or a cookie; a reload asks for a new link', async () => {
  const tenant = await newTenant()
  const ada = await newSubscriber(tenant)
  const visitor = stage.host(await openContext(stage.browser, '/portal'))
  const { page, context, look } = visitor
  const calls: string[] = []
  page.on('request', (request) => calls.push(request.url()))
  const link = await linkTo(tenant, ada)
  const token = link.slice(link.indexOf('prt_'))
  await page.goto(link)
  await page.getByText('No endpoints yet').waitFor()
  expect(page.url()).toBe(link.slice(0, link.indexOf('#')))
  expect(
    await page.evaluate('JSON.stringify([localStorage, sessionStorage, document.cookie, history.state])'),
  ).not.toContain(token)
  expect(await context.cookies()).toEqual([])
  // Requests of the page's own origin alone, and no other has the token in its address.
  const { origin } = new URL(link)
  expect(calls.filter((url) => !url.startsWith(origin))).toEqual([])
  expect(calls.filter((url) => new URL(url).pathname.startsWith('/dashboard'))).toEqual([])
  await page.goBack()
  await page.goForward()
  await page.getByText('Open this page again from where you found it').waitFor()
  await look('portal-ended')
  await page.goto(link)
  await page.getByText('No endpoints yet').waitFor()
  await page.reload()
  await page.getByText('Open this page again from where you found it').waitFor()
  // A new link in the same tab.
  await page.evaluate(`location.hash = ${JSON.stringify(new URL(await linkTo(tenant, ada)).hash)}`)
  await page.getByText('No endpoints yet').waitFor()
  ok(await tenant.delete(`/subscribers/${ada}/portal-links`))
  await page.getByText('Open this page again from where you found it').waitFor()
})

/** A page of the app that embeds a portal, on an origin of its own. */
async function openApp(): Promise<{ origin: string; show(url: string): void }> {
  let html = ''
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  stage.host({
    leave: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
  const sandbox = 'allow-scripts allow-same-origin allow-forms allow-downloads'
  return {
    origin: `http://localhost:${(server.address() as AddressInfo).port}`,
    show(url) {
      html = `<!doctype html><title>App</title><iframe title="Webhooks" src="${url}" sandbox="${sandbox}" referrerpolicy="no-referrer" allow="clipboard-write" style="width:100%;height:40rem"></iframe>`
    },
  }
}

test('a page of the link’s origins embeds the portal, and no other page can', async () => {
  const tenant = await newTenant()
  const ada = await newSubscriber(tenant, { name: 'Ada Ltd' })
  const [app, evil] = [await openApp(), await openApp()]
  const context = await newContext(stage.browser)
  stage.host({ leave: () => context.close() })
  const page = await context.newPage()
  const refused: string[] = []
  page.on('console', (message) => refused.push(message.text()))
  app.show(await linkTo(tenant, ada, { origins: [app.origin] }))
  await page.goto(app.origin)
  await page.frameLocator('iframe').getByText('Acme · Ada Ltd').waitFor()
  expect(refused).toEqual([])
  for (const url of [await linkTo(tenant, ada, { origins: [app.origin] }), await linkTo(tenant, ada)]) {
    evil.show(url)
    await page.goto(evil.origin)
    await eventually('the browser refuses', async () => refused.some((text) => text.includes('frame-ancestors')))
    const [, frame] = page.frames() as [Frame, Frame]
    expect(await frame.evaluate('document.body.innerText').catch(() => '')).not.toContain('Acme')
    refused.length = 0
  }
})
