// Delegated sessions in the dashboard: their policies, what is left of them, dry runs.
import type { Locator } from 'playwright-core'
import { expect, test } from 'vitest'
import { BOB, newSession, transfer, transfers } from '../../../src/delegation/delegated.fixture.ts'
import { newTestKey } from '../../../src/delegation/proofs/proofs.fixture.ts'
import { SMOKE } from '../stage.ts'
import { button, dataOf, HOSTILE, heading, notice, TOKENS, withAda } from './custody.fixture.ts'
import { useDashboard } from './support.ts'

const LONG = `${HOSTILE}${'x'.repeat(150)}`

const stage = useDashboard()

/** Types into a field that suggests, and goes on to the next one, which closes what it suggests. */
async function type(field: Locator, text: string): Promise<void> {
  await field.fill(text)
  await field.press('Tab')
}

test(
  'a session is begun from a preset, its token is shown once, and a dry run says which rule decides',
  SMOKE,
  async () => {
    const { tenant, ada } = await withAda(stage.service)
    const dash = await stage.arrive(tenant, { path: '/delegated-sessions' })
    const { page } = dash
    await page.getByRole('link', { name: 'New session' }).click()
    await dash.look('new-session')
    await page.getByRole('combobox', { name: 'User' }).fill('ada@')
    await page.getByRole('option', { name: /Ada Lovelace/ }).click()
    await page.getByText('Embedded wallet').waitFor()
    expect(page.url()).toContain(`user_id=${ada.userId}`)
    await button(page, /^Transfer up to 10 USDX a day/).click()
    await page.getByText('at most 10 USDX in any 24 hours').waitFor()
    await dash.look('new-session-preset')
    await page.getByLabel('Name (optional)').fill('Shopping agent')
    await page.getByLabel('Uses (optional)').fill('5')
    await page.getByRole('switch', { name: 'Servers can act without the token' }).click()
    await button(page, 'Create session').click()
    const shown = page.getByRole('status', { name: 'Session token' })
    const token = (await shown.textContent()) ?? ''
    expect(token).toMatch(/^dst_/)
    await dash.look('session-token')
    const [made] = await dataOf(tenant, '/delegated-sessions')
    expect(made).toMatchObject({ name: 'Shopping agent', maxUses: 5, serverExecute: false, userId: ada.userId })
    expect(made.policy.spend).toEqual([
      { asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '10', window: 'rolling_24h' },
    ])
    await button(page, 'I have saved it').click()

    await heading(page, /Shopping agent/).waitFor()
    const commands = page.getByLabel('Commands')
    await button(page, `Transfer on ${TOKENS}`).click()
    await button(page, 'Dry run').click()
    await page.getByText('This would be executed').waitFor()
    await page.getByText('10 → 9').waitFor()
    await page.getByText('5 → 4').waitFor()
    await dash.look('session-dry-run')
    await commands.fill((await commands.inputValue()).replace('"amount": "1"', '"amount": "11"'))
    await button(page, 'Dry run').click()
    await page.getByText('This would be refused').waitFor()
    await page.getByText('spend_limit_exceeded').waitFor()
    await page.getByText('Can spend at most 10 USDX in any 24 hours.').waitFor()
    await dash.look('session-dry-run-refused')
    await commands.fill('[{]')
    await button(page, 'Dry run').click()
    await page.getByRole('alert').filter({ hasText: 'This is not valid JSON' }).waitFor()
    await commands.fill(JSON.stringify([{ create: { templateId: 'Note:Note', arguments: {} } }]))
    await button(page, 'Dry run').click()
    await page.getByText('No rule of the policy allows this').waitFor()
    expect((await dataOf(tenant, `/delegated-sessions/${made.id}`)).uses).toBe(0)

    await page.reload()
    await page.getByText('Enter the session token first.').waitFor()
    expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain('dst_')
    await page.getByLabel('Session token').fill('dst_wrong')
    await button(page, 'Dry run').click()
    await page.getByRole('alert').filter({ hasText: 'token' }).first().waitFor()
    await heading(page, /Shopping agent/).waitFor()
    await page.getByLabel('Session token').fill(token)
    await button(page, `Transfer on ${TOKENS}`).click()
    await button(page, 'Dry run').click()
    await page.getByText('This would be executed').waitFor()
  },
)

test('what the server does not take is said at its field, and all that was typed stays', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const dash = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${ada.userId}` })
  const { page } = dash
  await button(page, /^Pay one shop/).click()
  const amount = page.getByLabel('At most')
  await amount.fill('ten')
  await page.getByLabel('Lifetime', { exact: true }).fill('31')
  await page.getByRole('combobox', { name: 'Unit of the lifetime' }).click()
  await page.getByRole('option', { name: 'days' }).click()
  await type(page.getByLabel('Template').first(), 'Holding')
  await button(page, 'Create session').click()
  const alerts = page.getByRole('alert')
  await alerts.filter({ hasText: 'an amount such as' }).waitFor()
  await alerts.filter({ hasText: 'a template such as' }).waitFor()
  await alerts.filter({ hasText: 'Must be from 1 minute to 30 days.' }).waitFor()
  expect(await amount.getAttribute('aria-invalid')).toBe('true')
  expect(await amount.inputValue()).toBe('ten')
  await dash.look('new-session-errors')
  expect(await dataOf(tenant, '/delegated-sessions')).toEqual([])

  await amount.fill('50')
  await alerts.filter({ hasText: 'an amount such as' }).waitFor({ state: 'detached' })
  await type(page.getByLabel('Template').first(), TOKENS)
  await page.getByLabel('Lifetime', { exact: true }).fill('30')
  await page.getByLabel('Value of condition 1, allow rule 1').fill(BOB)
  await button(page, 'Create session').click()
  await page.getByRole('status', { name: 'Session token' }).waitFor()
  const [made] = await dataOf(tenant, '/delegated-sessions')
  expect(made.policy.allow[0].where).toEqual([
    { path: 'receiver', op: 'eq', value: BOB },
    { path: 'amount', op: 'lte', value: '5' },
  ])
})

test('every part of a policy can be edited, and form and JSON say the same', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const dash = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${ada.userId}` })
  const { page } = dash
  await button(page, /^Blank/).click()
  const rule = page.getByRole('group', { name: 'allow rule 1' })
  await type(rule.getByLabel('Template'), TOKENS)
  await rule.getByLabel('Offer').check()
  await rule.getByRole('combobox', { name: 'Actions of allow rule 1' }).click()
  await page.getByRole('option', { name: 'Both' }).click()
  await rule.getByRole('button', { name: 'Add a condition' }).click()
  await type(rule.getByLabel('Argument of condition 1, allow rule 1'), 'receiver')
  await rule.getByRole('combobox', { name: 'Comparison of condition 1, allow rule 1' }).click()
  await page.getByRole('option', { name: 'is one of' }).click()
  await rule.getByLabel('Values of condition 1, allow rule 1').fill('bob\nshop\n')
  await button(page, 'Add a cap').click()
  await page.getByRole('group', { name: 'cap 1' }).getByRole('switch', { name: 'No limit' }).click()
  await button(page, 'Add a deny rule').click()
  await type(page.getByRole('group', { name: 'deny rule 1' }).getByLabel('Template'), 'Note:Note')
  await page.getByRole('group', { name: 'Templates' }).getByLabel('Note:Note').check()
  await dash.look('new-session-edited')

  await page.getByRole('tab', { name: 'JSON' }).click()
  const json = page.getByLabel('Policy as JSON')
  const policy = {
    allow: [
      {
        templateId: TOKENS,
        actions: ['create', 'exercise'],
        choices: ['Offer'],
        where: [{ path: 'receiver', op: 'in', value: ['bob', 'shop'] }],
      },
    ],
    deny: [{ templateId: 'Note:Note', actions: ['exercise'] }],
    spend: [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, unlimited: true }],
    query: { templateIds: ['Note:Note'] },
  }
  expect(JSON.parse(await json.inputValue())).toEqual(policy)
  await json.fill('{ "allow": [')
  await page.getByRole('alert').filter({ hasText: 'This is not valid JSON' }).waitFor()
  expect(await button(page, 'Create session').isDisabled()).toBe(true)
  await dash.look('new-session-json')
  await page.getByRole('tab', { name: 'Form' }).click()
  await page.getByText('The form shows the last valid version.').waitFor()
  await page.getByRole('tab', { name: 'JSON' }).click()
  expect(await json.inputValue()).toBe('{ "allow": [')
  await json.fill(JSON.stringify({ ...policy, allow: [{ templateId: TOKENS, choices: ['Split'] }], more: 1 }))
  await button(page, 'Create session').click()
  await page.getByRole('alert').filter({ hasText: 'more' }).first().waitFor()
  await json.fill(JSON.stringify({ ...policy, allow: [{ templateId: TOKENS, choices: ['Split'] }] }))
  await page.getByRole('tab', { name: 'Form' }).click()
  expect(await rule.getByLabel('Split').isChecked()).toBe(true)
  await button(page, 'Create session').click()
  await page.getByRole('status', { name: 'Session token' }).waitFor()
  const [made] = await dataOf(tenant, '/delegated-sessions')
  expect(made.policy).toEqual({ ...policy, allow: [{ templateId: TOKENS, choices: ['Split'] }] })
})

test('a reload keeps what was typed for a new session, until the session is created', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const dash = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${ada.userId}` })
  const { page } = dash
  await button(page, /^Pay one shop/).click()
  await page.getByLabel('Name (optional)').fill('Shopping agent')
  await page.getByLabel('Value of condition 1, allow rule 1').fill(BOB)
  await page.getByLabel('At most').fill('25')
  await page.reload()
  await page.getByLabel('Name (optional)').waitFor()
  expect(await page.getByLabel('Name (optional)').inputValue()).toBe('Shopping agent')
  expect(await page.getByLabel('Value of condition 1, allow rule 1').inputValue()).toBe(BOB)
  expect(await page.getByLabel('At most').inputValue()).toBe('25')
  await page.getByRole('tab', { name: 'JSON' }).click()
  await page.getByLabel('Policy as JSON').fill('{ "allow": [')
  await page.reload()
  await page.getByText('The JSON is not a valid policy.').first().waitFor()
  await page.getByRole('tab', { name: 'JSON' }).click()
  expect(await page.getByLabel('Policy as JSON').inputValue()).toBe('{ "allow": [')
  await button(page, /^Pay one shop/).click()
  await page.getByRole('tab', { name: 'Form' }).click()
  await page.getByLabel('Value of condition 1, allow rule 1').fill(BOB)
  await button(page, 'Create session').click()
  await page.getByRole('status', { name: 'Session token' }).waitFor()
  await dash.go(`/delegated-sessions/new?user_id=${ada.userId}`)
  await page.getByLabel('Name (optional)').waitFor()
  expect(await page.getByLabel('Name (optional)').inputValue()).toBe('')
})

test('a user without a wallet gets one on the way to a session', async () => {
  const tenant = await stage.service.newTenant()
  const userId = await tenant.userId()
  const dash = await stage.arrive(tenant, { path: `/delegated-sessions/new?user_id=${userId}` })
  const { page } = dash
  await page.getByText('This user has no wallet.').waitFor()
  await dash.look('new-session-no-wallet')
  await button(page, 'Create an embedded wallet').click()
  await button(page, 'Create session').waitFor()
  expect((await dataOf(tenant, `/users/${userId}/wallet`)).custody).toBe('embedded')
})

test('a session says what is left, and revoking it asks first and stops its token', async () => {
  const { tenant, ada, contractId } = await withAda(stage.service)
  const policy = transfers(ada, '10', {
    allow: [
      { templateId: TOKENS, choices: ['Transfer'], where: [{ path: 'amount', op: 'lte', value: '5' }] },
      { templateId: 'Note:Note', actions: ['create'] },
    ],
    deny: [{ templateId: TOKENS, choices: ['Offer'] }],
    spend: [
      { asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '10', window: 'rolling_24h' },
      { asset: { issuer: ada.issuer, symbol: 'EURX' }, unlimited: true },
    ],
  })
  const session = await newSession(stage.service, tenant, ada, { name: 'Shopping agent', policy, maxUses: 10 })
  const done = await session.execute({ commands: [transfer(contractId, '3')] })
  expect(done.status, done.text).toBe(200)
  const dash = await stage.arrive(tenant, { path: '/delegated-sessions?status=active' })
  const { page } = dash
  await page.getByText('7 of 10 USDX').waitFor()
  await page.getByRole('link', { name: 'Shopping agent' }).click()
  const bar = page.getByRole('progressbar', { name: /USDX/ })
  expect(await bar.getAttribute('aria-valuetext')).toBe('3 of 10 spent')
  await page.getByText('1 of 10').waitFor()
  await page.getByText('if amount is at most 5').waitFor()
  await dash.look('session')
  await page.getByRole('tab', { name: 'Try it' }).click()
  await button(page, `Transfer on ${TOKENS}`).click()
  await button(page, 'Dry run').click()
  await page.getByText('This would be executed').waitFor()
  await page.getByRole('tab', { name: 'Transactions' }).click()
  await page.getByRole('link', { name: `Transfer on ${TOKENS}` }).waitFor()
  await dash.look('session-transactions')

  await button(page, 'Revoke').click()
  await page.getByRole('alertdialog', { name: 'Revoke this session?' }).waitFor()
  await dash.look('session-revoke')
  await page.getByRole('alertdialog').getByRole('button', { name: 'Revoke' }).click()
  await notice(page, 'Session revoked')
  await heading(page, /revoked/).waitFor()
  const [rest] = [contractId]
  const refused = await session.execute({ commands: [transfer(rest, '1')] })
  expect(refused.body.code).toBe('delegated_session_revoked')
  await page.getByRole('tab', { name: 'Try it' }).click()
  await page.getByText('This session has ended').waitFor()
  await dash.look('session-revoked')
})

test('hostile and long names stay text and break no layout', async () => {
  const { tenant, ada } = await withAda(stage.service, LONG)
  const session = await newSession(stage.service, tenant, ada, {
    name: LONG,
    policy: {
      allow: [
        { templateId: 'Note:Note', actions: ['create'], where: [{ path: 'text', op: 'ne', value: LONG.repeat(4) }] },
      ],
      query: { templateIds: ['Note:Note'] },
    },
  })
  const text = `${HOSTILE}${'y'.repeat(3_900)}`
  const done = await session.execute({
    commands: [{ create: { templateId: 'Note:Note', arguments: { author: ada.party, text } } }],
  })
  expect(done.status, done.text).toBe(200)
  const dash = await stage.arrive(tenant, { path: '/delegated-sessions' })
  const { page } = dash
  await page.getByRole('link', { name: LONG.trim() }).first().waitFor()
  await dash.look('sessions-hostile')
  await dash.go(`/delegated-sessions/${session.id}`)
  await heading(page, /onerror=alert/).waitFor()
  await dash.look('session-hostile')
  await dash.go(`/transactions/${done.body.data.transactionId}`)
  await page.getByText(text.trim()).waitFor()
  await dash.look('transaction-hostile')
  await dash.go(`/delegated-sessions/new?user_id=${ada.userId}`)
  await page.getByText('Embedded wallet').waitFor()
  expect(await page.locator('img[src="x"]').count()).toBe(0)
})

test('a session shows the key that it is bound to, or that its token is enough', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const policy = transfers(ada, '10')
  const bound = await newSession(stage.service, tenant, ada, { policy, boundKey: newTestKey().jwk })
  const { boundKeyThumbprint } = await dataOf(tenant, `/delegated-sessions/${bound.id}`)
  expect(boundKeyThumbprint).toMatch(/^[\w-]{43}$/)
  const dash = await stage.arrive(tenant, { path: `/delegated-sessions/${bound.id}` })
  await dash.page.getByText(boundKeyThumbprint).waitFor()
  await dash.look('session-bound')
  const other = await newSession(stage.service, tenant, ada, { policy })
  await dash.go(`/delegated-sessions/${other.id}`)
  await dash.page.getByText('No, the token is enough').waitFor()
})

test('a key that may only look is shown no actions, and is told why', async () => {
  const { tenant, ada } = await withAda(stage.service)
  const session = await newSession(stage.service, tenant, ada, { name: 'Agent', policy: transfers(ada, '10') })
  const key = await tenant.newKey({ scopes: ['wallets:read', 'delegated_sessions:read'] })
  const dash = await stage.arrive(tenant, { path: `/wallets/${ada.walletId}`, key })
  const { page } = dash
  await page.getByText('Your API key cannot change wallets.').waitFor()
  expect(await button(page, 'Freeze').count()).toBe(0)
  expect(await button(page, 'Issue test tokens').count()).toBe(0)
  await dash.go(`/delegated-sessions/${session.id}?tab=try`)
  await page.getByText('Your API key cannot revoke sessions.').waitFor()
  await page.getByText('Your API key cannot execute').waitFor()
  expect(await button(page, 'Dry run').count()).toBe(0)
  await dash.go('/delegated-sessions/new')
  await page.getByText('Your API key cannot create sessions').waitFor()
  await dash.look('new-session-not-allowed')
  await dash.go('/delegated-sessions')
  await page.getByText('Your API key cannot create sessions: it does not have the scope').waitFor()
  await dash.look('sessions-read-only')
})
