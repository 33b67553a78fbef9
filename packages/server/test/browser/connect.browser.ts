// The page on which a user connects an agent, and what the agent does then.
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Clients,
  details,
  exchangeOf,
  parameters,
  REDIRECT,
  type Scene,
  startClients,
  token,
  tokensOf,
} from '../../src/delegation/connect/connect.fixture.ts'
import { BOB } from '../../src/delegation/delegated.fixture.ts'
import { publicUrl } from '../../src/platform/config.ts'
import { call } from '../harness/harness.ts'
import { type Person, signOut, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const stage = useSignIn()
let clients: Clients
beforeAll(async () => {
  clients = await startClients()
})
afterAll(() => clients.stop())

const DAY_MS = 86_400_000
const PHONE = { width: 390, height: 844 }
const HOSTILE = `<img src=x onerror=alert(1)>"'& مرحبا`

interface Arrived {
  ada: Person
  page: Page
  /** What the fixture's calls for a client need. Nobody calls for Ada: she is in her browser. */
  scene: Scene
}

/** Ada, who signed up a day ago and has 100 USDX, and a client that says this of itself. */
async function arrived(client: object = {}): Promise<Arrived> {
  const { ada, page, tenant } = await stage.arrive({ app: { agents: { connect: true } } })
  await signUp(ada, { email: 'ada@example.com', name: 'Ada Lovelace' })
  await page.getByText('Ada Lovelace').waitFor()
  await signOut(ada)
  const userId = (await tenant.get('/users')).body.data[0].id as string
  await tenant.post('/users/me/wallet', {}, { headers: { 'x-user-id': userId } })
  const { issuer } = (await tenant.post('/dev/faucet', { userId, symbol: 'USDX', amount: '100' })).body.data
  stage.service.advance(DAY_MS)
  const url = publicUrl(stage.service.deps.config)
  const scene = {
    service: stage.service,
    tenant,
    ada: { userId, issuer },
    clientId: clients.publish(client),
    verifier: 'a'.repeat(43),
    issuer: `${url}/oauth/${tenant.appId}`,
    resource: `${url}/mcp/${tenant.appId}`,
  } as Scene
  return { ada, page, scene }
}

/** Opens the address to which the client sends its user, and signs in. */
async function open({ page, scene }: Arrived, change: Record<string, string | null> = {}): Promise<void> {
  await page.setViewportSize(PHONE)
  await page.goto(`${scene.issuer}/authorize?${parameters(scene, change)}`)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Connect an agent of' }).waitFor()
}

/** Where the page leads the browser, which goes nowhere: there is no such client. */
async function answered({ page }: Arrived, press: () => Promise<void>): Promise<URLSearchParams> {
  const [address] = REDIRECT.split('?')
  const sent = page.waitForRequest((request) => request.url().startsWith(`${address}?`))
  await page.route(`${address}?**`, (route) => route.fulfill({ contentType: 'text/html', body: '<title>Back</title>' }))
  await press()
  return new URL((await sent).url()).searchParams
}

let lastId = 0

/** A call of a tool, by Streamable HTTP. */
async function tool({ scene }: Arrived, access: string, name: string, given: object) {
  lastId += 1
  const { text } = await call(stage.service.url, 'POST', `/mcp/${scene.tenant.appId}`, {
    body: { jsonrpc: '2.0', id: lastId, method: 'tools/call', params: { name, arguments: given } },
    headers: {
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${access}`,
      'mcp-protocol-version': '2025-06-18',
    },
  })
  return JSON.parse(text.slice(text.indexOf('{'))).result.structuredContent
}

const pay = (amount: string, reference: string) => ({ to: BOB, amount, symbol: 'USDX', reference })

test(
  'a user connects an agent and lowers its policy; it pays, asks, and pays once they approve; beyond that it is refused',
  SMOKE,
  async () => {
    const all = await arrived()
    const { ada, page, scene } = all
    const [asked] = details(scene, '50')
    const asset = { issuer: scene.ada.issuer, symbol: 'USDX' }
    const policy = { ...asked?.policy, requireApproval: [{ asset, above: '5' }] }
    await open(all, { authorization_details: JSON.stringify([{ ...asked, policy }]) })
    await page.getByText('Shopping agent (nobody has checked this name)').waitFor()
    const rule = `Asks the owner before one transaction spends more than 5 "USDX" (issued by ${asset.issuer}).`
    await page.getByText(rule).waitFor()
    const overflow = 'document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth'
    expect(await page.evaluate(overflow)).toBe(0)
    await ada.look('connect')
    await page.setViewportSize(PHONE)
    const amount = page.getByLabel('Can spend at most, in USDX')
    await amount.fill('51')
    await page.getByRole('button', { name: 'Connect' }).click()
    await page.getByText('The agent asked for 50: enter that or less.').waitFor()
    await amount.fill('10')
    await page.getByLabel('Only to these parties').fill(BOB)
    await page.getByLabel('Ends after, in hours').fill('2')
    const answer = await answered(all, () => page.getByRole('button', { name: 'Connect' }).click())
    expect(answer.get('iss')).toBe(scene.issuer)
    const { access } = tokensOf(await token(scene, exchangeOf(scene, answer.get('code') ?? '')))
    expect(await tool(all, access, 'payment_send', pay('3', 'a'))).toMatchObject({ paid: true })
    const asking = await tool(all, access, 'payment_send', pay('6', 'b'))
    expect(asking).toMatchObject({ paid: false, status: 'approval_required' })
    await page.goto(asking.approval.link)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('heading', { name: 'Approve this payment?' }).waitFor()
    await page.getByRole('button', { name: 'Approve with your passkey' }).click()
    await page.getByRole('heading', { name: 'Approved' }).waitFor()
    expect(await tool(all, access, 'payment_send', pay('6', 'b'))).toMatchObject({ paid: true })
    const beyond = await tool(all, access, 'payment_send', pay('2', 'c'))
    expect(beyond).toMatchObject({ paid: false, refusal: { code: 'spend_limit_exceeded', remaining: '1' } })
    const elsewhere = await tool(all, access, 'payment_send', { ...pay('1', 'd'), to: BOB.replaceAll('b0', 'c0') })
    expect(elsewhere).toMatchObject({ paid: false, refusal: { code: 'policy_denied' } })
  },
)

test('an agent that asks for nothing in particular gets what its user enters; hostile names stay text', async () => {
  const all = await arrived({ client_name: HOSTILE })
  const { ada, page, scene } = all
  await open(all, { authorization_details: null })
  await page.getByText(HOSTILE).waitFor()
  await page.getByText('Can transfer tokens that you set an amount for').waitFor()
  await ada.look('connect-open')
  await page.setViewportSize(PHONE)
  await page.getByLabel('Can spend at most, in USDX').fill('all')
  await page.getByRole('button', { name: 'Connect' }).click()
  await page.getByText('Enter an amount, for example 10.5.').waitFor()
  await page.getByLabel('Can spend at most, in USDX').fill('4')
  await page.getByLabel('Only to these parties').fill('bob')
  await page.getByRole('button', { name: 'Connect' }).click()
  await page.getByText('One of these is not a party id').waitFor()
  await page.getByLabel('Only to these parties').fill('')
  const answer = await answered(all, () => page.getByRole('button', { name: 'Connect' }).click())
  const { body } = await token(scene, exchangeOf(scene, answer.get('code') ?? ''))
  expect(body.authorization_details[0].policy.spend).toEqual([
    { asset: { issuer: scene.ada.issuer, symbol: 'USDX' }, amount: '4' },
  ])
})

test('an agent gets an amount without a limit only if its user says so, who can see all that it asks for', async () => {
  const all = await arrived()
  const { page, scene } = all
  const [asked] = details(scene)
  const asset = { issuer: scene.ada.issuer, symbol: 'USDX' }
  const policy = {
    ...asked?.policy,
    deny: [{ templateId: 'Token:Holding', where: [{ path: 'receiver', op: 'eq', value: '\u202eecila' }] }],
    spend: [{ asset, unlimited: true }],
  }
  await open(all, { authorization_details: JSON.stringify([{ type: asked?.type, policy }]) })
  await page.getByText(`Can spend any amount of "USDX" (issued by ${asset.issuer}).`).waitFor()
  await page.getByText('(this is not the requester’s address)').waitFor()
  await page.getByText('if receiver is "\\u202eecila"').waitFor()
  expect(await page.getByText('Without it a session lasts').count()).toBe(0)
  await page.getByText('Exactly what it asks for').click()
  await page.getByText('"value": "\\u{202e}ecila"').waitFor()
  await page.getByRole('button', { name: 'Connect' }).click()
  await page.getByText('Enter an amount, or choose “Without a limit” below.').waitFor()
  await page.getByLabel('Without a limit, in USDX').check()
  const answer = await answered(all, () => page.getByRole('button', { name: 'Connect' }).click())
  const { body } = await token(scene, exchangeOf(scene, answer.get('code') ?? ''))
  expect(body.authorization_details[0].policy.spend).toEqual(policy.spend)
})

test('of the address of an app its scheme is shown, and recipients are asked for only where they count', async () => {
  const redirect_uri = 'com.evil.app://claude.ai/cb'
  const all = await arrived({ redirect_uris: [redirect_uri] })
  const { page, scene } = all
  const [asked] = details(scene)
  const policy = { ...asked?.policy, allow: [...(asked?.policy.allow ?? []), { templateId: 'Note:Note' }] }
  await open(all, { redirect_uri, authorization_details: JSON.stringify([{ ...asked, policy }]) })
  await page.getByText('The app com.evil.app (nobody has checked whose app it is)').waitFor()
  expect(await page.getByText('claude.ai').count()).toBe(0)
  expect(await page.getByLabel('Only to these parties').count()).toBe(0)
})

test('a user refuses, and the agent is told; the request is over then', async () => {
  const all = await arrived()
  const { ada, page, scene } = all
  await open(all)
  const link = page.url()
  const answer = await answered(all, () => page.getByRole('button', { name: 'Refuse' }).click())
  expect(answer.get('error')).toBe('access_denied')
  await page.goto(link)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Nothing to connect' }).waitFor()
  await ada.look('connect-over')
  expect((await scene.tenant.get('/delegated-sessions')).body.total).toBe(0)
})

test('whoever takes long confirms with their passkey again', async () => {
  const all = await arrived()
  const { page } = all
  await open(all)
  stage.service.advance(6 * 60_000)
  await page.getByRole('button', { name: 'Connect' }).click()
  await page.getByRole('heading', { name: 'Sign in again' }).waitFor()
  const answer = await answered(all, () => page.getByRole('button', { name: 'Use your passkey' }).click())
  expect(answer.get('code')).toMatch(/^agc_/)
})
