import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Tenant } from '../../../test/harness/harness.ts'
import { type MailingService, startMailing } from '../../identity/email-sign-in/email.fixture.ts'
import { newId } from '../../platform/ids.ts'
import { mailedLink, opens, signedIn } from './members.fixture.ts'
import { createMemberByOperator } from './service.ts'

let mailing: MailingService
let tenant: Tenant
beforeAll(async () => {
  mailing = await startMailing()
  tenant = await mailing.service.newTenant()
})
afterAll(() => mailing.stop())

const someone = () => ({ email: `${newId('job')}@example.com`, role: 'viewer', delivery: 'email' })
const memberOf = async (id: string, of = tenant) => (await of.get(`/members/${id}`)).body.data

test('a mailed invitation is in the email alone; opening it proves the address, and a link that was shown does not', async () => {
  const { service } = mailing
  const body = someone()
  const made = await tenant.post('/members', body)
  expect(made.status, made.text).toBe(201)
  const { id } = made.body.data
  expect(made.body.data).toMatchObject({ link: null, invitationDelivery: 'email', emailVerified: false })
  expect(made.text).not.toContain('hk_dl_')
  const { mail, url } = await mailedLink(mailing, body.email)
  expect(mail.to).toEqual([body.email])
  expect(mail.headers.from).toContain('Halfkey')
  const token = url.slice(url.indexOf('hk_dl_'))
  expect(service.logs()).not.toContain(token)
  const stored = await service.sql('select row_to_json(e)::text as row from emails e where member_id = $1', [id])
  expect(JSON.stringify(stored)).not.toContain(token)
  // Support reads emails of apps, and neither this one nor its address.
  expect((await tenant.get('/emails')).body.data).toEqual([])
  const joined = await opens(service, url)
  expect(joined.status, joined.text).toBe(200)
  expect(await memberOf(id)).toMatchObject({ status: 'active', emailVerified: true, invitationDelivery: null })

  const shown = await tenant.post('/members', { ...someone(), delivery: 'link' })
  expect((await opens(service, shown.body.data.link.url)).status).toBe(200)
  expect(await memberOf(shown.body.data.id)).toMatchObject({ status: 'active', emailVerified: false })
})

test('an invitation is mailed again, which ends the earlier one, and an owner’s mailed link proves an address later', async () => {
  const { service } = mailing
  const owner = await signedIn(service, tenant, 'owner')
  const shown = (await tenant.post('/members', { ...someone(), delivery: 'link' })).body.data
  const again = await tenant.post(`/members/${shown.id}/link`, { delivery: 'email' })
  expect(again.body.data).toMatchObject({ link: null, invitationDelivery: 'email' })
  expectError(await opens(service, shown.link.url), 401, 'dashboard_link_invalid')
  // Changed rights end it as they end one that was shown.
  const first = await mailedLink(mailing, shown.email)
  expect((await tenant.patch(`/members/${shown.id}`, { role: 'support' })).status).toBe(200)
  expectError(await opens(service, first.url), 401, 'dashboard_link_invalid')
  const late = (await tenant.post(`/members/${shown.id}/link`)).body.data
  expect(late.invitationDelivery).toBe('link')
  expect((await opens(service, late.link.url)).status).toBe(200)
  expect((await memberOf(shown.id)).emailVerified).toBe(false)
  // For an active member, only an owner, by either way.
  const body = { delivery: 'email' }
  expectError(await tenant.post(`/members/${shown.id}/link`, body), 403, 'insufficient_scope')
  expect((await owner.page.call('POST', `/members/${shown.id}/link`, { body })).status).toBe(201)
  const { url } = await mailedLink(mailing, shown.email)
  expect((await opens(service, url)).status).toBe(200)
  expect((await memberOf(shown.id)).emailVerified).toBe(true)
})

test('an email that was redirected or given to an app in the database is not sent, and its link proves no other address', async () => {
  const { service, smtp } = mailing
  const victim = await service.newTenant()
  await victim.patch(`/apps/${victim.appId}`, {
    email: { sender: 'webhook', webhookUrl: 'http://127.0.0.2:49150/mail', webhookSecret: `whsec_${'a'.repeat(32)}` },
  })
  smtp.refuse('451 later')
  const changes: [set: string, to: string][] = [
    ['address', 'eve@example.com'],
    ['app_id', victim.appId],
  ]
  for (const [column, value] of changes) {
    const body = someone()
    const { id } = (await victim.post('/members', body)).body.data
    const found = () =>
      service.sql<{ attempts: number; error: string | null }>(
        'select attempts, error from emails where member_id = $1 or address = $2',
        [id, body.email],
      )
    await eventually('it was refused once', async () => ((await found())[0]?.error ?? '').includes('451'))
    // Dressed up as an email of the app in all that the database says.
    const unbound = column === 'app_id' ? ", member_id = null, purpose = 'sign_in'" : ''
    await service.sql(`update emails set ${column} = $1${unbound}, next_at = now() where member_id = $2`, [value, id])
    service.deps.wake.tasks()
    await eventually('it was tried again', async () => (await found())[0]?.error === 'Internal error.')
  }
  smtp.refuse(null)
  const { id } = (await victim.post('/members', someone())).body.data
  await service.sql("update dashboard_links set proves_email = 'eve@example.com' where member_id = $1", [id])
  const email = (await memberOf(id, victim)).email
  expectError(await opens(service, (await mailedLink(mailing, email)).url), 500, 'record_tampered')
})

test('without a mail server, nobody is invited by email, and the answer says what to set', async () => {
  const { deps } = mailing.service
  const without = { ...deps, config: { ...deps.config, env: 'production' as const, smtp: null } }
  const input = { email: `${newId('job')}@example.com`, role: 'owner' as const, delivery: 'email' as const }
  const made = createMemberByOperator(without, tenant.tenantId as never, input)
  await expect(made).rejects.toMatchObject({ code: 'member_email_not_configured', status: 409 })
  expect(await mailing.service.sql('select from members where email = $1', [input.email])).toEqual([])
  const odd = await tenant.post('/members', { email: 'ada@under_score.example', role: 'viewer', delivery: 'email' })
  expectError(odd, 400, 'validation_failed')
})
