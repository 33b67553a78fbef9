import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { newHolder, newSession, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { bearer } from '../../../src/identity/guests/guests.fixture.ts'
import { signInAs } from '../../../src/identity/sessions/sessions.fixture.ts'
import { newSharedWallet } from '../../../src/keys/key-shares/key-shares.fixture.ts'
import { newWallet } from '../../../src/wallets/wallets/wallets.fixture.ts'
import { register, signUp } from '../../harness/authenticator.ts'
import { call, eventually, type Tenant } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { type DashboardOptions, useDashboard } from './support.ts'

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script><script>alert(2)</script>`
const RTL = 'עדה לאבלייס — مرحبا'

const stage = useDashboard()

async function open(tenant: Tenant, path: string, options: DashboardOptions = {}) {
  return stage.arrive(tenant, { ...options, path })
}

const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name })
const dialog = (page: Page) => page.getByRole('dialog')
const asking = (page: Page) => page.getByRole('alertdialog')
const choose = async (page: Page, label: string, option: string) => {
  await page.getByRole('combobox', { name: label }).click()
  await page.getByRole('option', { name: option, exact: true }).click()
}

/** A user by the API. */
async function newUser(tenant: Tenant, body: object = {}) {
  const answer = await tenant.post('/users', body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

test('an empty list of users holds a command that makes one, and the list shows them by itself', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await open(tenant, '/users')
  await page.getByText('No users yet').waitFor()
  await look('users-empty')
  const command = (await page.locator('main pre').textContent()) ?? ''
  expect(command).toContain('/v1/users')
  const body = /-d '(.*)'$/s.exec(command)?.[1] ?? ''
  expect((await tenant.post('/users', JSON.parse(body))).status).toBe(201)
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor()
})

test('a user is created from the list; what is wrong is said at its field and nothing typed is lost', async () => {
  const tenant = await stage.service.newTenant()
  await newUser(tenant, { email: 'ada@example.com' })
  const { page, look } = await open(tenant, '/users')
  await button(page, 'Create user').click()
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByLabel('Name', { exact: true }).fill('Ada Lovelace')
  await page.getByLabel('External id').fill('crm-1')
  await button(page, 'Add entry').click()
  await page.getByLabel('Key 1').fill('plan')
  await page.getByLabel('Value 1').fill('gold')
  await dialog(page).getByRole('button', { name: 'Create user' }).click()
  await dialog(page).getByRole('alert').first().waitFor()
  expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Ada Lovelace')
  await look('user-create-refused')
  await page.getByLabel('Email').fill('countess@example.com')
  await dialog(page).getByRole('button', { name: 'Create user' }).click()
  await page.getByRole('heading', { level: 1, name: 'Ada Lovelace' }).waitFor()
  const [made] = (await tenant.get('/users?search=countess')).body.data
  expect(made).toMatchObject({ name: 'Ada Lovelace', externalId: 'crm-1', metadata: { plan: 'gold' } })
  expect(page.url()).toContain(made.id)
})

test('users are found by what is typed, by trust level and by app, and each view has an address', async () => {
  const tenant = await stage.service.newTenant()
  const other = (await tenant.post('/apps', { name: 'Second app' })).body.data
  await newUser(tenant, { email: 'ada@example.com', name: 'Ada' })
  await newUser(tenant, { email: 'grace@example.com', appId: other.id })
  await newSharedWallet(stage.service, tenant, {
    person: await signInAs(stage.service, tenant, { email: 'shared@example.com' }),
  })
  const { page, look, go } = await open(tenant, '/users')
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor()
  await look('users')
  await page.getByLabel('Search users').fill('GRACE')
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'grace@example.com' }).waitFor()
  expect(page.url()).toContain('search=GRACE')
  await page.getByLabel('Search users').fill('nobody')
  await page.getByText('No results').waitFor()
  await look('users-none-match')
  await button(page, 'Clear filters').click()
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor()
  await choose(page, 'App', 'Second app')
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'grace@example.com' }).waitFor()
  await go('/users?trust_level=shared')
  await page.getByRole('link', { name: 'shared@example.com' }).waitFor()
  expect(await page.getByRole('row').count()).toBe(2)
})

test('hostile, endless and right-to-left names stay text and break no layout', async () => {
  const tenant = await stage.service.newTenant()
  const metadata = { [HOSTILE.slice(0, 40)]: HOSTILE, long: 'x'.repeat(10_000), spaced: RTL }
  const user = await newUser(tenant, { name: HOSTILE, externalId: 'y'.repeat(255), metadata })
  await newUser(tenant, { name: RTL })
  await newUser(tenant, { name: 'w'.repeat(200) })
  const { page, look, go } = await open(tenant, '/users')
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor()
  await look('users-hostile')
  await go(`/users/${user.id}`)
  await page.getByRole('heading', { level: 1 }).getByText(HOSTILE).waitFor()
  await look('user-hostile')
  await button(page, 'Delete').click()
  await asking(page).getByText('<img src=x').waitFor()
  await look('user-hostile-delete')
  expect(await page.locator('main img, [role=alertdialog] img').count()).toBe(0)
})

test('the fields of a user are changed, cleared and merged as the API does it', async () => {
  const tenant = await stage.service.newTenant()
  const user = await newUser(tenant, { email: 'ada@example.com', name: 'Ada', metadata: { plan: 'gold', kept: 'yes' } })
  const { page, look } = await open(tenant, `/users/${user.id}`)
  await page.getByText('ada@example.com').waitFor()
  await look('user-overview')
  await button(page, 'Edit').click()
  await look('user-edit')
  await page.getByLabel('Name', { exact: true }).fill('')
  await page.getByLabel('External id').fill('crm-7')
  await button(page, `Remove entry ${(await page.getByLabel('Key 1').inputValue()) === 'plan' ? 1 : 2}`).click()
  await button(page, 'Save').click()
  await page.getByText('User saved').waitFor()
  await page.getByRole('dialog', { name: 'Edit user' }).waitFor({ state: 'detached' })
  await page.getByText('crm-7').waitFor()
  const { data } = (await tenant.get(`/users/${user.id}`)).body
  expect(data).toMatchObject({ email: 'ada@example.com', name: null, externalId: 'crm-7', metadata: { kept: 'yes' } })
})

test('a user is suspended after a question and activated again; sessions end with the suspension', async () => {
  const tenant = await stage.service.newTenant()
  const person = await signInAs(stage.service, tenant, { email: 'ada@example.com' })
  const { page, look } = await open(tenant, `/users/${person.userId}?tab=sessions`)
  await page.getByRole('table', { name: 'Active sessions' }).waitFor()
  await button(page, 'Suspend').click()
  await look('user-suspend')
  await asking(page).getByRole('button', { name: 'Suspend' }).click()
  await button(page, 'Activate').waitFor()
  expect((await tenant.get(`/users/${person.userId}`)).body.data.status).toBe('suspended')
  await page.getByText('Not signed in anywhere').waitFor()
  await look('user-suspended')
  await button(page, 'Activate').click()
  await button(page, 'Suspend').waitFor()
  expect((await tenant.get(`/users/${person.userId}`)).body.data.status).toBe('active')
})

test('a user is deleted only once their address was typed', async () => {
  const tenant = await stage.service.newTenant()
  const user = await newUser(tenant, { email: 'ada@example.com' })
  const { page, look } = await open(tenant, `/users/${user.id}`)
  await button(page, 'Delete').click()
  const confirm = asking(page).getByRole('button', { name: 'Delete user' })
  expect(await confirm.isDisabled()).toBe(true)
  await look('user-delete')
  await asking(page).getByLabel('Type ada@example.com to continue').fill('ada@example.com')
  await confirm.click()
  await page.getByText('No users yet').waitFor()
  expect((await tenant.get(`/users/${user.id}`)).status).toBe(404)
})

test('sessions are ended one by one and all at once', async () => {
  const tenant = await stage.service.newTenant()
  const person = await signInAs(stage.service, tenant, { email: 'ada@example.com' })
  await signInAs(stage.service, tenant, { userId: person.userId })
  await signInAs(stage.service, tenant, { userId: person.userId })
  const { page, look } = await open(tenant, `/users/${person.userId}`)
  await page.getByRole('tab', { name: 'Sessions', exact: true }).click()
  await page.getByText('203.0.113.7').first().waitFor()
  expect(page.url()).toContain('tab=sessions')
  await look('user-sessions')
  await button(page, /^End the session/)
    .first()
    .click()
  await look('user-session-end')
  await asking(page).getByRole('button', { name: 'End session' }).click()
  await page.getByText('Session ended').waitFor()
  expect((await tenant.get(`/users/${person.userId}/sessions`)).body.total).toBe(2)
  await button(page, 'Sign out everywhere').click()
  await asking(page).getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('2 sessions ended').waitFor()
  await page.getByText('Not signed in anywhere').waitFor()
  expect((await tenant.get(`/users/${person.userId}/sessions`)).body.total).toBe(0)
})

test('a passkey is renamed and removed; the last one stays, and it is said why', async () => {
  const tenant = await stage.service.newTenant()
  const signedUp = await signUp(tenant, { email: 'ada@example.com' })
  const { user } = signedUp
  const { page, look } = await open(tenant, `/users/${user.id}?tab=passkeys`)
  await page.getByText('Unnamed passkey').waitFor()
  await button(page, 'Rename Unnamed passkey').click()
  await dialog(page).getByLabel('Name', { exact: true }).fill(HOSTILE)
  await look('user-passkey-rename')
  await button(page, 'Save').click()
  await page.getByRole('dialog', { name: 'Rename passkey' }).waitFor({ state: 'detached' })
  await page.getByText('<img src=x').first().waitFor()
  await look('user-passkeys')
  expect((await tenant.get(`/users/${user.id}/passkeys`)).body.data[0].name).toBe(HOSTILE)
  await button(page, /^Remove </).click()
  await asking(page).getByRole('button', { name: 'Remove passkey' }).click()
  await asking(page).getByRole('alert').waitFor()
  await look('user-passkey-last')
  await asking(page).getByRole('button', { name: 'Cancel' }).click()
  expect((await tenant.get(`/users/${user.id}/passkeys`)).body.total).toBe(1)
  const second = await register(tenant, {}, { headers: bearer(signedUp), deviceName: 'Phone' })
  expect(second.status, second.text).toBe(200)
  await button(page, 'Remove Phone').click()
  await asking(page).getByRole('button', { name: 'Remove passkey' }).click()
  await page.getByText('Passkey removed').waitFor()
  expect((await tenant.get(`/users/${user.id}/passkeys`)).body.data).toMatchObject([{ name: HOSTILE }])
})

test('a user without passkeys, wallet or anything else is told how to get there, by commands that work', async () => {
  const tenant = await stage.service.newTenant()
  const user = await newUser(tenant, { email: 'ada@example.com' })
  const asUser = { headers: { 'x-user-id': user.id } }
  const { page, look, go } = await open(tenant, `/users/${user.id}?tab=passkeys`)
  await page.getByText('No passkeys').waitFor()
  expect(await page.locator('main pre').textContent()).toContain(`-H 'x-user-id: ${user.id}'`)
  expect((await tenant.post('/auth/passkey/register-options', {}, asUser)).status).toBe(200)
  await look('user-no-passkeys')
  for (const [tab, text] of [
    ['delegated-sessions', 'No delegated sessions'],
    ['transactions', 'No transactions'],
    ['events', 'No events yet'],
  ]) {
    await go(`/users/${user.id}?tab=${tab}`)
    await page
      .getByText(text as string)
      .first()
      .waitFor()
    await look(`user-no-${tab}`)
  }
  await go(`/users/${user.id}?tab=wallet`)
  await page.getByText('No wallet yet').waitFor()
  await look('user-no-wallet')
  await button(page, 'Create an embedded wallet').click()
  await page.getByText('Halfkey can sign alone.').waitFor()
  expect((await tenant.get(`/users/${user.id}/wallet`)).body.data.custody).toBe('embedded')
})

test('the wallet tab says who can sign, of every kind of wallet, and freezes and unfreezes', async () => {
  const tenant = await stage.service.newTenant()
  const embedded = await signInAs(stage.service, tenant)
  await newWallet(embedded)
  const shared = await newSharedWallet(stage.service, tenant)
  const { page, look, go } = await open(tenant, `/users/${embedded.userId}?tab=wallet`)
  await page.getByText('Halfkey can sign alone.').waitFor()
  await look('user-wallet-embedded')
  await button(page, 'Freeze').click()
  await look('user-wallet-freeze')
  await asking(page).getByRole('button', { name: 'Freeze' }).click()
  await page.getByText('The wallet is frozen').waitFor()
  expect((await tenant.get(`/users/${embedded.userId}/wallet`)).body.data.status).toBe('frozen')
  await look('user-wallet-frozen')
  await button(page, 'Unfreeze').click()
  await asking(page).getByRole('button', { name: 'Unfreeze' }).click()
  await page.getByText('The wallet is frozen').waitFor({ state: 'detached' })
  expect((await tenant.get(`/users/${embedded.userId}/wallet`)).body.data.status).toBe('ready')
  await go(`/users/${shared.person.userId}?tab=wallet`)
  await page.getByText('Key shares: any 2 of 3 can sign').waitFor()
  await look('user-wallet-shared')
})

test('delegated sessions, transactions and events of a user are those of the user alone', async () => {
  const tenant = await stage.service.newTenant()
  const holder = await newHolder(tenant, { email: 'ada@example.com' })
  const stranger = await newHolder(tenant, { email: 'grace@example.com' })
  const policy = { allow: [{ templateId: 'Note:Note' }] }
  const session = await newSession(stage.service, tenant, holder, { name: 'Shopping agent', policy, maxUses: 10 })
  await newSession(stage.service, tenant, stranger, { name: 'Of somebody else', policy: transfers(stranger, '1') })
  const { page, look, go } = await open(tenant, `/users/${holder.userId}?tab=delegated-sessions`)
  await page.getByRole('link', { name: 'Shopping agent' }).waitFor()
  expect(await page.getByText('Of somebody else').count()).toBe(0)
  await look('user-delegated-sessions')
  await page.getByRole('link', { name: 'Shopping agent' }).click()
  await page.waitForURL(`**/delegated-sessions/${session.id}*`)
  const commands = [{ create: { templateId: 'Note:Note', arguments: { author: holder.party, text: 'x' } } }]
  const noted = await session.execute({ commandId: 'note-1', commands })
  expect(noted.status, noted.text).toBe(200)
  await go(`/users/${holder.userId}?tab=transactions`)
  await page.getByRole('link', { name: 'Create Note:Note' }).waitFor()
  await page.getByText('note-1').waitFor()
  await look('user-transactions')
  await eventually('the audit log has it', async () => {
    const { body } = await tenant.get(`/audit-log?actor=${holder.userId}`)
    return body.total >= 2
  })
  await go(`/users/${holder.userId}?tab=events`)
  await page.getByText('wallet.created').waitFor()
  await look('user-events')
  await choose(page, 'Which events', 'Changes to this user')
  await page.getByText('user.created').waitFor()
  expect(page.url()).toContain('events=to')
})

test('of many users every page has an address, and a new filter begins at the first', async () => {
  const tenant = await stage.service.newTenant()
  for (let n = 0; n < 21; n += 1) await newUser(tenant, { email: `user-${n}@example.com` })
  const { page, look } = await open(tenant, '/users')
  await page.getByText('1–20 of 21').waitFor()
  await button(page, 'Next').click()
  await page.getByText('21–21 of 21').waitFor()
  await page.getByRole('link', { name: 'user-0@example.com' }).waitFor()
  expect(page.url()).toContain('page=2')
  await look('users-second-page')
  await page.getByLabel('Search users').fill('user-20')
  await page.getByText('1–1 of 1').waitFor()
  expect(page.url()).not.toContain('page=')
})

test('a user that is not there, and a server that fails, are told as what they are', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look, go } = await open(tenant, '/users/usr_nobody')
  await page.getByText('This record does not exist.').waitFor()
  await look('user-not-found')
  await page.route('**/dashboard/api/users?**', (route) =>
    route.fulfill({ status: 500, json: { error: 'It broke.', code: 'internal_error', details: [] } }),
  )
  await go('/users')
  await page.getByText('This could not be loaded.').waitFor()
  await look('users-failed')
  const asksAgain = page.waitForRequest('**/dashboard/api/users?**')
  await button(page, 'Try again').click()
  await asksAgain
  await page.unroute('**/dashboard/api/users?**')
  // By another click, unless the page has asked by itself meanwhile.
  await Promise.race([button(page, 'Try again').click(), page.getByText('No users yet').waitFor()])
  await page.getByText('No users yet').waitFor()
  await page.route('**/dashboard/api/users?**', (route) => route.abort('connectionrefused'))
  await go('/users')
  await page.getByText('The server cannot be reached. Check your connection').waitFor()
})

test('a key that may only read sees users without what changes them', async () => {
  const tenant = await stage.service.newTenant()
  const person = await signInAs(stage.service, tenant, { email: 'ada@example.com' })
  const key = await tenant.newKey({ scopes: ['users:read', 'guests:read', 'api_keys:read'] })
  const { page, look, go } = await open(tenant, '/users', { key })
  await page.getByRole('link', { name: 'ada@example.com' }).click()
  await page.getByRole('tab', { name: 'Sessions', exact: true }).click()
  await page.getByText('To end a session, sign in with a key that has the scope users:act_as.').waitFor()
  for (const name of ['Edit', 'Suspend', 'Delete', 'Sign out everywhere'])
    expect(await button(page, name).count(), name).toBe(0)
  expect(await page.getByRole('tab').allTextContents()).toEqual(['Overview', 'Sessions', 'Passkeys'])
  await look('user-read-only')
  await go('/users')
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor()
  expect(await button(page, 'Create user').count()).toBe(0)
  await go('/guests')
  await page.getByText('No guests yet').waitFor()
  expect(await button(page, 'Clean up').count()).toBe(0)
  await go('/api-keys')
  await page.getByRole('table', { name: 'API keys' }).waitFor()
  expect(await button(page, 'Create key').count()).toBe(0)
  expect(await button(page, /^Revoke/).count()).toBe(0)
  expect((await call(stage.service.url, 'DELETE', `/v1/users/${person.userId}`, { key })).status).toBe(403)
})
