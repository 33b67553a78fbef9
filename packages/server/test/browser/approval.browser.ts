// The page on which an owner decides on what a delegated session asks for.
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newSession, type Session, transfer } from '../../src/delegation/delegated.fixture.ts'
import { eventually, type Tenant } from '../harness/harness.ts'
import { originOf, type Person, signOut, signUp } from './person.ts'
import { SMOKE, useSignIn } from './stage.ts'

const stage = useSignIn()

const DAY_MS = 86_400_000
const PHONE = { width: 390, height: 844 }
const BOB = `bob::1220${'b0'.repeat(32)}`
const HOSTILE = `<img src=x onerror=alert(1)>"'& مرحبا`

interface Asked {
  tenant: Tenant
  ada: Person
  page: Page
  session: Session
  link: string
  commands: object[]
  walletId: string
  approvalId: string
}

/** Ada, who signed up a day ago on the hosted page, and a session of hers that asks her, and perhaps `others` too, for 7 USDX. */
async function asked(
  name = 'Shopping agent',
  others: (tenant: Tenant) => Promise<string[]> = async () => [],
): Promise<Asked> {
  const { ada, page, tenant } = await stage.arrive()
  await signUp(ada, { email: 'ada@example.com', name: 'Ada Lovelace' })
  await page.getByText('Ada Lovelace').waitFor()
  await signOut(ada)
  const userId = (await tenant.get('/users')).body.data[0].id as string
  const asUser = { headers: { 'x-user-id': userId } }
  const wallet = (await tenant.post('/users/me/wallet', {}, asUser)).body.data
  const dripped = (await tenant.post('/dev/faucet', { userId, symbol: 'USDX', amount: '7' })).body.data
  const asset = { issuer: dripped.issuer, symbol: 'USDX' }
  const named = await others(tenant)
  const approvers = named.length === 0 ? {} : { approvers: { users: [userId, ...named], threshold: 2 } }
  const policy = {
    allow: [{ templateId: 'Token:Holding' }],
    spend: [{ asset, amount: '100' }],
    requireApproval: [
      { newRecipient: true, ...approvers },
      { asset, above: '5', ...approvers },
    ],
  }
  stage.service.advance(DAY_MS)
  const session = await newSession(stage.service, tenant, { asUser }, { name, policy, expiresInSeconds: 86_400 })
  const commands = [transfer(dripped.contractId, undefined, BOB)]
  const answer = await session.execute({ commandId: 'order-1', commands })
  expect(answer.status, answer.text).toBe(200)
  const { link, id: approvalId } = answer.body.data.approval
  return { tenant, ada, page, session, link, commands, walletId: wallet.id, approvalId }
}

async function open({ page, link }: Asked): Promise<void> {
  await page.setViewportSize(PHONE)
  await page.goto(link)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Approve this payment?' }).waitFor()
}

const statusOf = async ({ session, commands }: Asked) =>
  (await session.execute({ commandId: 'order-1', commands })).body

test('the owner sees exactly what is paid, approves by passkey on a phone, and it happens', SMOKE, async () => {
  const all = await asked()
  const { ada, page } = all
  expect(all.link.startsWith(`${originOf(stage.service)}/approve?`)).toBe(true)
  await page.setViewportSize(PHONE)
  await page.goto(all.link)
  await page.getByRole('heading', { name: 'Sign in to Acme Wallet' }).waitFor()
  // Who is asked has an account.
  expect(await page.getByRole('button', { name: 'Create an account' }).count()).toBe(0)
  await open(all)
  await page.getByText('7 USDX', { exact: true }).waitFor()
  expect(await page.getByText(BOB, { exact: true }).count()).toBeGreaterThan(0)
  await page.getByText('Shopping agent').waitFor()
  await page.getByText('The owner has not approved a payment to').first().waitFor()
  await page.getByText('93 of 100 USDX').waitFor()
  await page.getByText('Exactly what happens').click()
  await page.getByText('Exercises Transfer on Token:Holding').waitFor()
  await page.setViewportSize(PHONE)
  const overflow = 'document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth'
  expect(await page.evaluate(overflow)).toBe(0)
  await ada.look('approval')
  await page.setViewportSize(PHONE)
  await page.getByRole('button', { name: 'Approve with your passkey' }).click()
  await page.getByRole('heading', { name: 'Approved' }).waitFor()
  await ada.look('approval-approved')
  expect((await statusOf(all)).data).toMatchObject({ status: 'completed' })
  // Opened again, the link says what became of it.
  await page.goto(all.link)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Approved' }).waitFor()
})

test('one of several approvers sees who has to approve and who has, and their approval waits for the others', async () => {
  const newUsers = (tenant: Tenant) =>
    Promise.all([1, 2].map(async () => (await tenant.post('/users', {})).body.data.id as string))
  const all = await asked(HOSTILE, newUsers)
  const { ada, page, tenant, approvalId } = all
  await open(all)
  await page.getByText('2 of these 3 have to approve').waitFor()
  const list = page.getByRole('listitem')
  const [, ...others] = (await tenant.get(`/approvals/${approvalId}`)).body.data.approvers[0].users.toSorted()
  for (const id of others) await page.getByText(id, { exact: true }).first().waitFor()
  await list.filter({ hasText: /^You$/ }).waitFor()
  await ada.look('approval-approvers')
  await page.getByRole('button', { name: 'Approve with your passkey' }).click()
  await page.getByRole('heading', { name: 'Your approval counts' }).waitFor()
  await ada.look('approval-approvers-waiting')
  expect((await statusOf(all)).data.status).toBe('approval_required')
  await page.goto(all.link)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await list.filter({ hasText: 'You – approved' }).waitFor()
  expect(await page.getByRole('button', { name: 'Approve with your passkey' }).count()).toBe(0)
  await page.getByText('Your approval counts already').waitFor()
})

test('the owner refuses with a reason; hostile names and reasons stay text', async () => {
  const all = await asked(HOSTILE)
  const { ada, page } = all
  await open(all)
  await page.getByText(HOSTILE).waitFor()
  await ada.look('approval-hostile')
  await page.getByRole('button', { name: 'Refuse' }).click()
  await page.getByLabel('Reason').fill(HOSTILE)
  await ada.look('approval-refusal')
  await page.getByRole('button', { name: 'Refuse' }).click()
  await page.getByRole('heading', { name: 'Refused' }).waitFor()
  await page.getByText(HOSTILE).waitFor()
  await ada.look('approval-refused')
  expect((await statusOf(all)).details[0].reason).toBe(HOSTILE)
})

test('a finger that the device does not know approves nothing', async () => {
  const all = await asked()
  const { ada, page } = all
  await open(all)
  await ada.recognised(false)
  await page.getByRole('button', { name: 'Approve with your passkey' }).click()
  await page.getByRole('status').filter({ hasText: 'No passkey was used' }).waitFor()
  expect((await statusOf(all)).data.status).toBe('approval_required')
})

test('a page that was told something else than what is signed does not ask for the passkey', async () => {
  const all = await asked()
  const { page } = all
  await page.route('**/signin/api/approvals/*', async (route) => {
    const answer = await route.fetch()
    const text = (await answer.text()).replaceAll(BOB, `shop::1220${'b0'.repeat(32)}`)
    await route.fulfill({ response: answer, body: text })
  })
  await open(all)
  await page.getByRole('button', { name: 'Approve with your passkey' }).click()
  await page.getByText('would sign something else').waitFor()
  expect((await statusOf(all)).data.status).toBe('approval_required')
})

test('somebody else is told that there is nothing for them, and nobody can frame the page', async () => {
  const all = await asked()
  const other = await stage.arrive()
  await signUp(other.ada)
  await other.page.getByRole('button', { name: 'Add a passkey' }).waitFor()
  const headers = (await fetch(all.link)).headers
  expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  expect(headers.get('x-frame-options')).toBe('DENY')
  // An approval of another app, opened as this app's user.
  const { searchParams } = new URL(all.link)
  await other.page.goto(`${originOf(stage.service)}/approve?app=${other.tenant.appId}&id=${searchParams.get('id')}`)
  await other.page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await other.page.getByRole('heading', { name: 'Nothing to approve' }).waitFor()
  await other.ada.look('approval-foreign')
  for (const query of ['', `app=${all.tenant.appId}`, `app=${all.tenant.appId}&id=<script>`]) {
    const answer = await fetch(`${stage.service.url}/approve?${query}`, { headers: { host: 'localhost' } })
    expect([400, 404]).toContain(answer.status)
  }
  await eventually('nothing was decided', async () => (await statusOf(all)).data.status === 'approval_required')
})
