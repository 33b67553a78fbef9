import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { answering, CLIENT_ID, startFakeProvider } from '../../../src/identity/providers/provider.fixture.ts'
import { invited } from '../../../src/operations/members/members.fixture.ts'
import { ROLES, type Role } from '../../../src/platform/security/roles/roles.ts'
import { eventually, type Tenant } from '../../harness/harness.ts'
import { originOf } from '../person.ts'
import { SMOKE } from '../stage.ts'
import { openContext, useDashboard } from './support.ts'

const stage = useDashboard()

/** The pages in the menu that each role sees; of the others there is no link. */
const PAGES: Record<Role, string[]> = {
  viewer: ['Overview', 'Event types', 'Custom domains', 'Analytics', 'Settings'],
  support: ['Users', 'Guests', 'Wallets', 'Transactions', 'Delegated sessions', 'Approvals', 'Audit log'],
  developer: ['Webhooks', 'Events', 'Subscribers', 'API keys', 'Members'],
  admin: ['Billing and usage'],
  owner: [],
}

/** Opens the dashboard by a member's link, in a browser of their own with a device that makes passkeys. */
async function openLink(url: string, phone = false) {
  const opened = stage.host(await openContext(stage.browser, '/dashboard', { phone }))
  const cdp = await opened.context.newCDPSession(opened.page)
  await cdp.send('WebAuthn.enable')
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  await opened.page.goto(`${originOf(stage.service)}/dashboard${new URL(url).hash}`)
  return opened
}

/** The same, once it has signed them in. */
async function comeBy(url: string, phone = false) {
  const opened = await openLink(url, phone)
  await opened.page.locator('#content').waitFor({ state: 'attached' })
  return opened
}

const memberOf = async (tenant: Tenant, role: Role, more: { appIds?: string[] } = {}) =>
  comeBy((await invited(stage.service, tenant, role, more)).link.url)

const menuOf = (page: Page) => page.getByRole('navigation', { name: 'Main' }).first()

test.each(ROLES)('a member with the role %s sees the pages that it allows, and no others', async (role) => {
  const tenant = await stage.service.newTenant()
  await tenant.post('/users', { email: 'ada@example.com' })
  const { page, look } = await memberOf(tenant, role)
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  const seen = ROLES.slice(0, ROLES.indexOf(role) + 1).flatMap((each) => PAGES[each])
  const links = await menuOf(page).getByRole('link').allInnerTexts()
  expect(links.toSorted()).toEqual(seen.toSorted())
  for (const name of seen) {
    await menuOf(page).getByRole('link', { name, exact: true }).click()
    await menuOf(page).locator('[aria-current=page]').filter({ hasText: name }).waitFor()
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await eventually(`${name} is loaded`, async () => (await page.getByText('Loading…').count()) === 0)
    expect(await page.getByText(/does not have access/).count(), `${role}: ${name}`).toBe(0)
    expect(await page.getByText('This could not be loaded.').count(), `${role}: ${name}`).toBe(0)
    const csv = await page.getByRole('button', { name: 'Download CSV' }).count()
    if (role === 'viewer' || role === 'support') expect(csv, `${role}: ${name}`).toBe(0)
  }
  await look(`member-${role}`)
  for (const path of role === 'viewer' || role === 'support' ? ['/api-keys', '/members', '/webhooks'] : []) {
    await page.goto(`${originOf(stage.service)}/dashboard${path}`)
    await page.getByText('Your role does not have access to this page.').waitFor()
    for (const act of ['Create key', 'Invite member', 'Create webhook'])
      expect(await page.getByRole('button', { name: act }).count(), act).toBe(0)
  }
})

test('an owner invites somebody, who comes by the link, adds a passkey and signs in with it', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await memberOf(tenant, 'owner')
  await menuOf(page).getByRole('link', { name: 'Members' }).click()
  await page.getByRole('button', { name: 'Invite member' }).click()
  await page.getByLabel('Email').fill('grace@example.com')
  await page.getByLabel('Name').fill('Grace Hopper')
  await look('members-invite')
  await page.getByRole('button', { name: 'Invite', exact: true }).click()
  const link = await page.getByRole('status', { name: 'Link' }).innerText()
  await look('members-link')
  await page.getByRole('button', { name: 'I have saved it' }).click()
  await page.getByText('grace@example.com').first().waitFor()
  await look('members')

  const grace = await comeBy(link)
  await grace.page.getByRole('link', { name: 'Grace Hopper' }).first().click()
  await grace.page.getByRole('button', { name: 'Add a passkey' }).click()
  await grace.page.getByText('Passkey added').waitFor()
  await grace.look('account')
  await grace.page.getByRole('button', { name: 'Sign out' }).click()
  await grace.page.getByText('You are signed out.').waitFor()
  await grace.look('sign-in-member')
  await grace.page.getByRole('button', { name: 'Use a passkey' }).click()
  await grace.page.getByRole('link', { name: 'Grace Hopper' }).first().waitFor()
})

test('a sensitive act asks for the passkey again, and goes on', async () => {
  const tenant = await stage.service.newTenant()
  const { page } = await memberOf(tenant, 'owner')
  await page.getByRole('paragraph').getByRole('link').first().click()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('Passkey added').waitFor()
  stage.service.advance(10 * 60_000)
  await menuOf(page).getByRole('link', { name: 'Members' }).click()
  await page.getByRole('button', { name: 'Invite member' }).click()
  await page.getByLabel('Email').fill('joan@example.com')
  await page.getByRole('button', { name: 'Invite', exact: true }).click()
  await page.getByRole('status', { name: 'Link' }).waitFor()
})

test('a member is changed and removed, on a phone too; nobody is offered more than they may give', async () => {
  const tenant = await stage.service.newTenant()
  const [owner, admin] = [
    await invited(stage.service, tenant, 'owner'),
    await comeBy((await invited(stage.service, tenant, 'admin')).link.url, true),
  ]
  await tenant.post('/members', { email: 'eve@example.com', name: 'Eve', role: 'viewer' })
  const { page } = admin
  await page.goto(`${originOf(stage.service)}/dashboard/members`)
  await page.getByRole('button', { name: 'Edit Eve' }).click()
  await page.getByRole('combobox', { name: 'Role' }).click()
  expect(await page.getByRole('option').allInnerTexts()).toEqual(['Viewer', 'Support', 'Developer', 'Admin'])
  await page.getByRole('option', { name: 'Support' }).click()
  await page.getByRole('button', { name: 'Save changes' }).click()
  await page.getByText('Changes saved').waitFor()
  expect(await page.getByRole('button', { name: `Remove ${owner.email}` }).count()).toBe(0)
  await page.getByRole('button', { name: 'Remove Eve' }).click()
  await page.getByRole('button', { name: 'Remove member' }).click()
  await page.getByText('Member removed').waitFor()
  const { data } = (await tenant.get('/members?status=removed')).body
  expect(data).toMatchObject([{ name: 'Eve', role: 'support' }])
})

test('a member with two apps goes from one to the other, where they stay after a reload until they sign out', async () => {
  const tenant = await stage.service.newTenant()
  const other = (await tenant.post('/apps', { name: 'Other app' })).body.data.id
  await tenant.post('/users', { email: 'first@example.com', appId: tenant.appId })
  await tenant.post('/users', { email: 'second@example.com', appId: other })
  const { page } = await memberOf(tenant, 'support', { appIds: [tenant.appId, other] })
  await menuOf(page).getByRole('link', { name: 'Users' }).click()
  await page.getByText('first@example.com').first().waitFor()
  expect(await page.getByText('second@example.com').count()).toBe(0)
  await page.getByRole('combobox', { name: 'App' }).first().click()
  await page.getByRole('option', { name: 'Other app' }).click()
  await page.getByText('second@example.com').first().waitFor()
  expect(await page.getByText('first@example.com').count()).toBe(0)
  await page.reload()
  await page.getByText('second@example.com').first().waitFor()
  expect(await page.getByText('first@example.com').count()).toBe(0)
  await page.getByRole('combobox', { name: 'App' }).first().getByText('Other app').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are signed out.').waitFor()
  expect(await page.evaluate('sessionStorage.length')).toBe(0)
})

test('a member who has the chosen app no longer comes back to one that they have', async () => {
  const tenant = await stage.service.newTenant()
  const other = (await tenant.post('/apps', { name: 'Other app' })).body.data.id
  await tenant.post('/users', { email: 'first@example.com', appId: tenant.appId })
  const { page } = await memberOf(tenant, 'support', { appIds: [tenant.appId, other] })
  await page.getByRole('combobox', { name: 'App' }).first().click()
  await page.getByRole('option', { name: 'Other app' }).click()
  await page.getByRole('combobox', { name: 'App' }).first().getByText('Other app').waitFor()
  await page.evaluate("sessionStorage.setItem('halfkey.app', 'app_00000000000000000000000000')")
  await page.reload()
  await menuOf(page).getByRole('link', { name: 'Users' }).click()
  await page.getByText('first@example.com').first().waitFor()
})

test('a member who was invited by mail signs in with a code, and with the account of their organisation', async () => {
  const { service } = stage
  const tenant = await service.newTenant()
  const owner = await memberOf(tenant, 'owner')
  const { page } = owner
  await page.goto(`${originOf(service)}/dashboard/members`)
  await page.getByRole('switch', { name: 'Sign-in codes' }).click()
  await page.getByText('Changes saved').waitFor()
  const fake = await startFakeProvider(service)
  try {
    await page.getByRole('button', { name: 'Set up' }).click()
    await page.getByLabel('Name').fill('Acme')
    await page.getByLabel('Issuer').fill(fake.issuer)
    await page.getByLabel('Client id').fill(CLIENT_ID)
    await owner.look('members-login-form')
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByText('/callback').waitFor()
    const email = 'hedy@example.com'
    await page.getByRole('button', { name: 'Invite member' }).click()
    await page.getByLabel('Email').fill(email)
    await page.getByRole('combobox', { name: 'Invitation' }).click()
    await page.getByRole('option', { name: 'Send an email to them' }).click()
    await page.getByRole('button', { name: 'Invite', exact: true }).click()
    await page.getByRole('button', { name: 'Done' }).click()
    await page.getByText('invitation mailed').waitFor()
    await page.getByRole('button', { name: `New link for ${email}` }).click()
    await owner.look('members-new-link')
    await page.getByRole('button', { name: 'Send an email to them' }).click()
    await page.getByText('Email on its way').waitFor()
    await page.getByRole('button', { name: 'Done' }).click()
    await owner.look('members-sign-in')

    const mailed = () =>
      eventually('the email is there', async () => {
        const mails = (await (await fetch(`${service.url}/dev/mail.json`)).json()) as Record<string, string>[]
        return mails.find(({ to }) => to === email) ?? false
      })
    // A program that checks emails opens it, and uses nothing up.
    const scanner = await openLink((await mailed()).link as string)
    await scanner.page.getByText('You opened a link from an email').waitFor()
    const hedy = await openLink((await mailed()).link as string)
    await hedy.page.getByText('You opened a link from an email').waitFor()
    await hedy.look('mailed-link')
    await hedy.page.getByRole('button', { name: 'Sign in' }).click()
    await hedy.page.locator('#content').waitFor({ state: 'attached' })
    // The page is sent to the login, which sends it back at once.
    let nonce = ''
    fake.paths['/authorize'] = ({ query }) => {
      nonce = query.get('nonce') ?? ''
      const back = new URLSearchParams({ code: 'x', state: query.get('state') ?? '', iss: fake.issuer })
      return { status: 303, headers: { location: `${query.get('redirect_uri')}?${back}` } }
    }
    answering(fake, () => fake.idToken({ claims: { sub: 'hedy', nonce, email, email_verified: true } }))
    await hedy.page.goto(`${originOf(service)}/dashboard/account`)
    await hedy.page.getByRole('button', { name: 'Connect' }).click()
    await hedy.page.getByText('Account connected').waitFor()
    await hedy.look('account-connected')
    await hedy.page.getByRole('button', { name: 'Sign out' }).click()
    await hedy.page.getByText('You are signed out.').waitFor()

    const signInPage = `${originOf(service)}/dashboard?tenant=${tenant.tenantId}`
    await hedy.page.goto(signInPage)
    await hedy.page.getByRole('button', { name: 'Email me a code' }).waitFor()
    await hedy.look('sign-in-ways')
    await hedy.page.getByLabel('Email').fill(email)
    await hedy.page.getByRole('button', { name: 'Email me a code' }).click()
    await hedy.page.getByLabel('Code').waitFor()
    await hedy.look('sign-in-code')
    const code = await eventually('the code is there', async () => (await mailed()).code ?? false)
    await hedy.page.getByLabel('Code').fill(code)
    await hedy.page.getByRole('button', { name: 'Sign in with the code' }).click()
    await hedy.page.getByRole('link', { name: email }).first().waitFor()
    await hedy.page.getByRole('link', { name: email }).first().click()
    await hedy.page.getByRole('button', { name: 'Sign out' }).click()
    await hedy.page.getByText('You are signed out.').waitFor()

    await hedy.page.goto(signInPage)
    await hedy.page.getByRole('button', { name: 'Sign in with Acme' }).click()
    await hedy.page.getByRole('link', { name: email }).first().waitFor()
  } finally {
    await fake.close()
  }
})
