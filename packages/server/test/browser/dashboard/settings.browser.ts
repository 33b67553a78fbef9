import { afterAll, expect, test } from 'vitest'
import { type DnsServer, startDnsServer } from '../../harness/dns-server.ts'
import { eventually } from '../../harness/harness.ts'
import { SMOKE } from '../stage.ts'
import { useDashboard } from './support.ts'

const HOSTILE = `<img src=x onerror=alert(1)>"'&</script>`

let dns: DnsServer
const stage = useDashboard(async () => {
  dns = await startDnsServer()
  return { HALFKEY_DNS_SERVERS: dns.address }
})
afterAll(() => dns.close())

test('a domain is registered, its records copied, found missing, set, verified and removed', async () => {
  const tenant = await stage.service.newTenant()
  const name = `${tenant.tenantId.slice(-8)}.shop.example`
  const { page, look } = await stage.arrive(tenant, { path: '/custom-domains' })
  await page.getByText('No domains yet').waitFor()
  await look('domains-none')
  await page.getByRole('button', { name: 'Register a domain' }).click()
  await page.getByLabel('Domain', { exact: true }).fill('co.uk')
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click()
  await page.getByRole('dialog').getByRole('alert').waitFor()
  await look('domain-refused')
  await page.getByLabel('Domain', { exact: true }).fill(name)
  await page.getByRole('dialog').getByRole('button', { name: 'Register' }).click()
  await page.getByRole('heading', { name }).waitFor()
  const [domain] = (await tenant.get('/custom-domains')).body.data
  await page.getByRole('button', { name: 'Copy value of the TXT record' }).click()
  const { value } = domain.verification
  await eventually('it is copied', async () => (await page.evaluate('navigator.clipboard.readText()')) === value)

  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('There is no TXT record at').waitFor()
  await look('domain-missing')
  dns.set(domain.verification.name, [{ type: 'TXT', text: `v=spf1 ${HOSTILE}` }])
  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('Found: v=spf1 <img src=x').waitFor()
  expect(await page.locator('main img').count()).toBe(0)
  dns.set(domain.verification.name, [{ type: 'TXT', text: domain.verification.value }])
  await page.getByRole('button', { name: 'Check now' }).click()
  await page.getByText('verified', { exact: true }).waitFor()
  await look('domain-verified')
  expect((await tenant.get(`/custom-domains/${domain.id}`)).body.data.status).toBe('verified')

  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('alertdialog').getByText('To register it again').waitFor()
  await look('domain-remove')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No domains yet').waitFor()
  expect((await tenant.get('/custom-domains')).body.total).toBe(0)
})

test('the tenant is renamed and gets another default app', SMOKE, async () => {
  const tenant = await stage.service.newTenant()
  const shop = (await tenant.post('/apps', { name: 'Shop' })).body.data.id
  const { page, look } = await stage.arrive(tenant, { path: '/settings' })
  await page.getByRole('combobox', { name: 'Default app' }).click()
  await page.getByRole('option', { name: 'Shop' }).click()
  await page.getByLabel('Name').fill(`Acme ${HOSTILE}`)
  await look('settings')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Saved', { exact: true }).first().waitFor()
  const { name, settings } = (await tenant.get('/tenant')).body.data
  expect([name, settings.defaultAppId]).toEqual([`Acme ${HOSTILE}`, shop])
  await page.reload()
  await page.getByRole('complementary').getByText('Acme <img src=x').waitFor()
})

test('an app is created, every setting of it changed, what is wrong told at its line, and deleted by its name', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: '/settings' })
  await page.getByRole('button', { name: 'Create an app' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Shop')
  await look('app-new')
  await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
  await page.getByRole('heading', { level: 1, name: 'Shop' }).waitFor()
  const appId = page.url().split('/').at(-1) as string
  await look('app')

  await page.getByLabel('Allowed origins').fill('https://shop.example.com\nnot an origin')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText(/^Line 2: /).waitFor()
  expect(await page.getByLabel('Allowed origins').getAttribute('aria-invalid')).toBe('true')
  expect(await page.evaluate('document.activeElement.value')).toBe('https://shop.example.com\nnot an origin')
  await look('app-refused')
  expect((await tenant.get(`/apps/${appId}`)).body.data.allowedOrigins).toEqual([])

  await page.getByLabel('Allowed origins').fill('https://shop.example.com')
  await page.getByLabel('Allowed redirect URLs').fill('https://shop.example.com/signed-in')
  await page.getByLabel('Relying party id').fill('shop.example.com')
  await page.getByText('New passkeys will belong to shop.example.com').waitFor()
  await page.getByLabel('Name shown by authenticators').fill('The shop')
  await page.getByRole('combobox', { name: 'User verification' }).click()
  await page.getByRole('option', { name: 'Required' }).click()
  await page.getByRole('combobox', { name: 'Second factor' }).click()
  await page.getByRole('option', { name: 'Required for all users' }).click()
  await page.getByRole('switch', { name: 'Also when your server acts' }).click()
  await page.getByLabel('Access token lifetime').fill('600')
  await page.getByLabel('Sessions expire unused after').fill('7')
  await page.getByRole('switch', { name: 'Users can connect agents' }).click()
  await page.getByRole('switch', { name: 'Servers can manage keys' }).click()
  await page.getByRole('switch', { name: 'Combine key shares on the server' }).click()
  await page.getByLabel('Bot user name').fill('shop_bot')
  await page.getByLabel('Bot token').fill(`123456789:${'A'.repeat(35)}`)
  await page.getByRole('switch', { name: 'Users can sign in by email' }).click()
  await page.getByRole('combobox', { name: 'Emails are sent by' }).click()
  await page.getByRole('option', { name: 'Your server' }).click()
  await page.getByLabel('URL of your server').fill('https://api.example.com/emails')
  await page.getByLabel('Secret for signatures').fill(`whsec_${'B'.repeat(43)}=`)
  await page.getByRole('switch', { name: 'Users who lost their passkeys' }).click()
  await page.getByLabel('Wait of a recovery').fill('48')
  await page.getByLabel('Name on the pages').fill('The Shop')
  await page.getByLabel('Colour of buttons').fill('#1D4ED8')
  await page.getByRole('combobox', { name: 'Corners' }).click()
  await page.getByRole('option', { name: 'Square' }).click()
  await page.getByRole('combobox', { name: 'Colour scheme' }).click()
  await page.getByRole('option', { name: 'Dark' }).click()
  await page.getByLabel('Order of the ways to sign in').fill('Email\npasskey')
  await page.getByLabel('Terms of service').fill('https://shop.example.com/terms')
  await page.getByLabel('Metadata').fill('{"tier": "gold"')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('This is not valid JSON').waitFor()
  await page.getByLabel('Metadata').fill('{"tier": "gold"}')
  await page.getByText(`/apps/${appId}`, { exact: false }).first().waitFor()
  await page.getByLabel('Audiences of ID tokens').fill('https://ledger.example.com')
  await page.getByLabel('Claims of ID tokens').fill('plan\nemail')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText(/^Line 2: This claim has a meaning of its own/).waitFor()
  await page.getByLabel('Claims of ID tokens').fill('plan')
  await page.getByRole('switch', { name: 'Ethereum accounts can sign in' }).click()
  await page.getByRole('switch', { name: 'New users can sign up with a wallet' }).click()
  await page.getByLabel('Chains').fill('8453\nBase')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Line 2: must be a number such as 1 or 8453.').waitFor()
  await page.getByLabel('Chains').fill('8453\n1')
  await page.getByLabel('URL of the sign-in hook').fill('https://10.0.0.1/sign-ins')
  await page.getByLabel('Secret of the sign-in hook').fill(`whsec_${'C'.repeat(43)}=`)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByLabel('URL of the sign-in hook').and(page.locator('[aria-invalid=true]')).waitFor()
  await page.getByLabel('URL of the sign-in hook').fill('https://api.example.com/sign-ins')
  await page.getByRole('combobox', { name: 'If your server does not decide' }).click()
  await page.getByRole('option', { name: 'Everybody can sign in' }).click()
  await look('app-ways')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Saved', { exact: true }).first().waitFor()
  await page.getByText(`/mcp/${appId}`).waitFor()
  const { data } = (await tenant.get(`/apps/${appId}`)).body
  expect(data).toMatchObject({
    allowedOrigins: ['https://shop.example.com'],
    allowedRedirectUrls: ['https://shop.example.com/signed-in'],
    passkey: { rpId: 'shop.example.com', rpName: 'The shop', userVerification: 'required' },
    messenger: { botUsername: 'shop_bot', configured: true },
    emailRecovery: { enabled: true, waitHours: 48 },
    openid: { audiences: ['https://ledger.example.com'], claims: ['plan'] },
    externalWallets: { types: ['eip4361'], signUp: false, chainIds: [8453, 1] },
    signInHook: { url: 'https://api.example.com/sign-ins', onFailure: 'allow', secretSet: true },
    mfa: { policy: 'always', enforceForServer: true },
    sessions: { accessTokenSeconds: 600, refreshTokenDays: 7 },
    agents: { connect: true },
    mpc: { allowServer: true },
    recovery: { serverCombine: true },
    email: {
      enabled: true,
      signUp: true,
      sender: 'webhook',
      webhookUrl: 'https://api.example.com/emails',
      webhookSecretSet: true,
      language: 'en',
    },
    branding: {
      name: 'The Shop',
      accentColor: '#1d4ed8',
      cornerRadius: 'square',
      colorScheme: 'dark',
      methodOrder: ['email', 'passkey'],
      termsUrl: 'https://shop.example.com/terms',
      privacyUrl: null,
      logo: null,
    },
    metadata: { tier: 'gold' },
  })
  await page.getByText('Set up.', { exact: true }).waitFor()
  const preview = page.frameLocator('iframe[title="Preview of the sign-in page"]')
  // What cannot be pressed is not in the accessibility tree, and so is found by its words.
  await preview.getByText('Sign in to The Shop').waitFor()
  expect((await preview.locator('.button').allTextContents())[0]).toBe('Email me a code')
  await look('app-preview')
  expect(await page.content()).not.toContain('A'.repeat(35))
  expect(await page.content()).not.toContain('B'.repeat(43))
  expect(await page.content()).not.toContain('C'.repeat(43))

  await page.getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('alertdialog')
  expect(await dialog.getByRole('button', { name: 'Delete app and users' }).isDisabled()).toBe(true)
  await dialog.getByLabel('Type Shop to continue').fill('Shop')
  await look('app-delete')
  await dialog.getByRole('button', { name: 'Delete app and users' }).click()
  await page.waitForURL('**/settings')
  await eventually('the app is gone', async () => (await tenant.get(`/apps/${appId}`)).status === 404)
})

test('any image becomes the logo, as a PNG that fits, and what is no image is refused', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}` })
  const chosen = (name: string, mimeType: string, text: string) =>
    page.getByLabel('Logo file').setInputFiles({ name, mimeType, buffer: Buffer.from(text) })
  await chosen('notes.png', 'image/png', 'no picture')
  await page.getByText('This file is not an image that your browser can show.').waitFor()
  const drawing = '<circle cx="500" cy="100" r="90" fill="#1d4ed8"/>'
  await chosen(
    'logo.svg',
    'image/svg+xml',
    `<svg xmlns="http://www.w3.org/2000/svg" width="1024" height="256">${drawing}</svg>`,
  )
  await page.getByRole('img', { name: /^Logo of / }).waitFor()
  await look('app-logo')
  const logo = async () => (await tenant.get(`/apps/${tenant.appId}`)).body.data.branding.logo
  expect(await logo()).toMatchObject({ width: 512, height: 128 })
  await page.getByRole('button', { name: 'Remove' }).click()
  await page.getByText('No logo.').waitFor()
  expect(await logo()).toBeNull()
})

test('the pin of the service is shown with an app, and copied', async () => {
  const tenant = await stage.service.newTenant()
  const { page, look } = await stage.arrive(tenant, { path: `/settings/apps/${tenant.appId}` })
  const { pin } = stage.service.running
  await page.getByText(pin).waitFor()
  await page.getByRole('button', { name: 'Copy service pin' }).click()
  await eventually('it is copied', async () => (await page.evaluate('navigator.clipboard.readText()')) === pin)
  await look('app-pin')
})

test('a key that may only read sees the settings, and no button to change them', async () => {
  const tenant = await stage.service.newTenant()
  const key = await tenant.newKey({ scopes: ['apps:read', 'tenant:read', 'custom_domains:read'] })
  await tenant.post('/custom-domains', { domain: 'login.shop.example' })
  const { page, go } = await stage.arrive(tenant, { key, path: `/settings/apps/${tenant.appId}` })
  await page.getByLabel('Relying party id').waitFor()
  expect(await page.getByLabel('Relying party id').isDisabled()).toBe(true)
  expect(await page.getByRole('button', { name: 'Save' }).count()).toBe(0)
  await go('/custom-domains')
  await page.getByRole('link', { name: 'login.shop.example' }).click()
  await page.getByText('DNS records').waitFor()
  expect(await page.getByRole('button', { name: /Check now|Remove/ }).count()).toBe(0)
})
