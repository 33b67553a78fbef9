import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newAuthenticator } from '../../../../test/harness/authenticator.ts'
import {
  cookieOf,
  openPage,
  ownHeaders,
  type Page,
  pageOf,
  postSession,
} from '../../../../test/harness/dashboard-page.ts'
import { expectError } from '../../../../test/harness/envelope.ts'
import { type Answer, call, eventually, type Tenant } from '../../../../test/harness/harness.ts'
import { codeIn, type MailingService, startMailing, wrongFor } from '../../../identity/email-sign-in/email.fixture.ts'
import { newId } from '../../../platform/ids.ts'
import type { Role } from '../../../platform/security/roles/roles.ts'
import { addPasskey, invited, mailedLink, opens, proofBy, signedIn } from '../members.fixture.ts'
import { createMemberByOperator } from '../service.ts'

const API = '/dashboard/api/session'

let mailing: MailingService
let tenant: Tenant
let owner: Page
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())
beforeEach(async () => {
  tenant = await mailing.service.newTenant()
  owner = (await signedIn(mailing.service, tenant, 'owner')).page
  expect((await owner.call('PATCH', '/member-sign-in', { body: { emailCode: true } })).status).toBe(200)
})

/** A member whose address is proven: they came by a mailed invitation. */
async function proven(role: Role = 'viewer', of = tenant) {
  const email = `${newId('job')}@example.com`
  const { deps } = mailing.service
  const { id } = await createMemberByOperator(deps, of.tenantId as never, { email, role, delivery: 'email' })
  const { url } = await mailedLink(mailing, email)
  const joined = pageOf(mailing.service, await opens(mailing.service, url))
  return { email, id, joined }
}

const start = (email: string, tenantId = tenant.tenantId, headers: object = {}): Promise<Answer> =>
  call(mailing.service.url, 'POST', `${API}/email-code`, {
    body: { email, tenantId },
    headers: { ...ownHeaders(mailing.service), ...headers },
  })

interface Asked {
  challengeId: string
  code: string
  cookie: string
}

/** Asks for a code and reads it. */
async function ask(email: string): Promise<Asked> {
  const started = await start(email)
  expect(started.status, started.text).toBe(200)
  const code = codeIn(await mailing.smtp.next(email))
  return { challengeId: started.body.data.challengeId, code, cookie: cookieOf(started) }
}

const enter = ({ challengeId, code, cookie }: Asked): Promise<Answer> =>
  postSession(mailing.service, { emailCode: { challengeId, code } }, cookie === '' ? {} : { cookie })

describe('a code', () => {
  test('signs a member in once, weakly: sensitive calls and a first passkey need a passkey or a link', async () => {
    const { service } = mailing
    const { email, id, joined } = await proven('owner')
    const authenticator = newAuthenticator()
    // The first passkey, in the session that accepted the invitation.
    expect((await addPasskey(service, joined, authenticator)).status).toBe(200)
    const asked = await ask(email.toUpperCase().replace('@EXAMPLE', '@example'))
    const answer = await enter(asked)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.body.data).toMatchObject({ via: 'member', member: { id, role: 'owner', verifiedAt: null } })
    expectError(await enter(asked), 410, 'challenge_expired')
    const page = pageOf(mailing.service, answer)
    expect((await page.call('GET', '/members')).status).toBe(200)
    for (const [method, path, body] of [
      ['POST', '/api-keys', { name: 'Backend', type: 'secret', scopes: ['users:read'] }],
      ['POST', '/members', { email: 'eve@example.com', role: 'owner' }],
      ['PATCH', '/member-sign-in', { emailCode: false }],
      ['POST', '/wallets/none/freeze', {}],
      ['POST', '/session/passkeys/options', {}],
      ['GET', '/users?page=11&page_size=100', undefined],
    ] as const)
      expectError(await page.call(method, path, { body }), 403, 'reauthentication_required', path)
    const shown = await page.call('POST', '/session/step-up', { body: await proofBy(service, authenticator) })
    expect(shown.body.data.member.verifiedAt).toEqual(expect.any(String))
    expect((await page.call('PATCH', '/member-sign-in', { body: {} })).status).toBe(200)
    const log = await eventually('the sign-in is in the log', async () => {
      const { data } = (await tenant.get(`/audit-log?actor=${id}&action=dashboard.signed_in`)).body
      return data.length >= 2 && data
    })
    expect(log[0].actor).toBe(id)
  })

  test('is asked for and answered alike for an address that nobody has, nobody proved or somebody invited has', async () => {
    const { service, smtp } = mailing
    const { email } = await proven()
    const shown = await signedIn(service, tenant, 'viewer')
    const waiting = (await tenant.post('/members', { email: 'wait@example.com', role: 'viewer' })).body.data
    const received = smtp.received.length
    const strangers = ['nobody@example.com', shown.email, waiting.email]
    const shapes = new Set<string>()
    for (const address of [email, ...strangers]) {
      const started = await start(address)
      const cookie = (started.headers.get('set-cookie') ?? '').replace(/=[^;]+;/, '=x;')
      shapes.add(JSON.stringify([started.status, Object.keys(started.body.data), cookie]))
      const { challengeId } = started.body.data
      const answers: unknown[] = []
      for (let guess = 0; guess < 6; guess += 1) {
        const { status, body } = await enter({ challengeId, code: '000000', cookie: cookieOf(started) })
        answers.push([status, body.code, body.details])
      }
      shapes.add(JSON.stringify(answers))
    }
    expect(shapes.size).toBe(2)
    await smtp.next(email)
    expect(smtp.received.length).toBe(received + 1)
    const rows = await service.sql<{ n: string }>(
      "select status as n from emails where tenant_id = $1 and purpose = 'member_code' order by 1",
      [tenant.tenantId],
    )
    expect(rows.map(({ n }) => n)).toEqual(['sent', 'skipped', 'skipped', 'skipped'])
  })

  test('takes five guesses in all, however many come at once, and a new one ends it', async () => {
    const { email } = await proven()
    const first = await ask(email)
    const asked = await ask(email)
    expectError(await enter({ ...asked, challengeId: first.challengeId }), 410, 'challenge_expired')
    const guesses = Array.from({ length: 12 }, (_, by) => enter({ ...asked, code: wrongFor(asked.code, by + 1) }))
    const codes = (await Promise.all(guesses)).map(({ body }) => body.code)
    expect(codes.filter((code) => code === 'invalid_code')).toHaveLength(5)
    expect(codes.filter((code) => code === 'challenge_expired')).toHaveLength(7)
    expectError(await enter(asked), 410, 'challenge_expired')
    const late = await ask(email)
    const both = await Promise.all([enter(late), enter(late)])
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 410])
  })

  test('is of use in the browser that asked alone, which nobody else’s guesses touch', async () => {
    const { service } = mailing
    const { email } = await proven()
    const eve = await proven()
    const asked = await ask(email)
    const others = await ask(eve.email)
    for (const cookie of ['', others.cookie, `${asked.cookie}; ${asked.cookie}`, `${asked.cookie}x`])
      expectError(await enter({ ...asked, cookie }), 410, 'challenge_expired', cookie)
    // Eve's browser with her own challenge, and the code of another member.
    expectError(await enter({ ...others, code: asked.code }), 400, 'invalid_code')
    const [row] = await service.sql<{ wrong: number }>(
      'select wrong_answers as wrong from member_codes where id = $1',
      [asked.challengeId],
    )
    expect(row?.wrong).toBe(0)
    // Another site can neither ask nor answer for somebody (login CSRF).
    const cross = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    expectError(await start(email, tenant.tenantId, cross), 403, 'origin_not_allowed')
    const { challengeId, code, cookie } = asked
    const forged = await postSession(service, { emailCode: { challengeId, code } }, { cookie, ...cross })
    expectError(forged, 403, 'origin_not_allowed')
    expect((await enter(asked)).status).toBe(200)
  })

  test('is over with the member’s removal, change of rights, the setting, or ten minutes; a higher role brings no step-up', async () => {
    const { service } = mailing
    const raised = await proven()
    const before = await ask(raised.email)
    const open = pageOf(service, await enter(await ask(raised.email)))
    expectError(await enter(before), 410, 'challenge_expired')
    const stale = await ask(raised.email)
    expect((await owner.call('PATCH', `/members/${raised.id}`, { body: { role: 'owner' } })).status).toBe(200)
    expectError(await enter(stale), 410, 'challenge_expired')
    expect((await open.call('GET', '/members')).status).toBe(200)
    expectError(
      await open.call('PATCH', '/member-sign-in', { body: { emailCode: false } }),
      403,
      'reauthentication_required',
    )
    const gone = await proven()
    const theirs = await ask(gone.email)
    expect((await owner.call('DELETE', `/members/${gone.id}`)).status).toBe(200)
    expectError(await enter(theirs), 410, 'challenge_expired')
    // Invited again, they are somebody else, whose address is yet to be proven.
    await tenant.post('/members', { email: gone.email, role: 'viewer' })
    expectError(await enter(theirs), 410, 'challenge_expired')
    const last = await proven()
    const off = await ask(last.email)
    expect((await owner.call('PATCH', '/member-sign-in', { body: { emailCode: false } })).status).toBe(200)
    expectError(await enter(off), 410, 'challenge_expired')
    expectError(await start(last.email), 404, 'member_email_code_disabled')
    expect((await owner.call('PATCH', '/member-sign-in', { body: { emailCode: true } })).status).toBe(200)
    const slow = await ask(last.email)
    service.advance(10 * 60_000)
    expectError(await enter(slow), 410, 'challenge_expired')
  })

  test('whose row, setting or member was changed in the database signs nobody in', async () => {
    const { service } = mailing
    const [ada, eve] = [await proven('owner'), await proven()]
    const asked = await ask(eve.email)
    await service.sql('update member_codes set member_id = $1 where id = $2', [ada.id, asked.challengeId])
    expectError(await enter(asked), 500, 'record_tampered')
    const shown = await signedIn(service, tenant, 'owner')
    await service.sql('update members set proven_email = email where id = $1', [shown.id])
    expectError(await start(shown.email), 500, 'record_tampered')
    const other = await service.newTenant()
    await service.sql(
      `insert into member_sign_in select $1, method, enabled, updated_at, version, mac from member_sign_in where tenant_id = $2`,
      [other.tenantId, tenant.tenantId],
    )
    expectError(await start(eve.email, other.tenantId), 500, 'record_tampered')
  })

  test('is limited for an address, whoever asks, and for other tenants not at all', async () => {
    const { email } = await proven()
    for (let count = 0; count < 10; count += 1) expect((await start(email)).status).toBe(200)
    const limited = await start(email)
    expectError(limited, 429, 'rate_limited')
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(3_000)
    for (let count = 0; count < 4; count += 1) {
      const started = await start('guessed@example.com')
      const asked = { challengeId: started.body.data.challengeId, code: '000000', cookie: cookieOf(started) }
      for (let guess = 0; guess < 5; guess += 1) expectError(await enter(asked), 400, 'invalid_code')
    }
    const locked = await start('guessed@example.com')
    expectError(locked, 429, 'email_locked')
    expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(80_000)
    const stranger = await mailing.service.newTenant()
    expectError(await start(email, stranger.tenantId), 404, 'member_email_code_disabled')
    expectError(await start(email, 'ten_none'), 404, 'member_email_code_disabled')
  })
})

test('how members sign in is changed by owners with a step-up and by the operator, and by no admin and no key; all is in the log', async () => {
  const { service } = mailing
  const admin = await signedIn(service, tenant, 'admin')
  const body = { emailCode: false }
  expectError(await admin.page.call('PATCH', '/member-sign-in', { body }), 403, 'insufficient_scope')
  const byKey = await tenant.patch('/member-sign-in', body)
  expectError(byKey, 403, 'insufficient_scope')
  expect(byKey.body.details[0].code).toBe('wider_than_own')
  expect((await tenant.get('/member-sign-in')).body.data).toEqual({
    emailCode: true,
    oidc: null,
    signInUrl: expect.stringMatching(new RegExp(`/dashboard\\?tenant=${tenant.tenantId}$`)),
  })
  const ways = (id?: string) =>
    call(service.url, 'GET', `${API}/ways${id === undefined ? '' : `?tenant=${id}`}`, { headers: ownHeaders(service) })
  expect((await ways(tenant.tenantId)).body.data).toEqual({ emailCode: true, oidc: null })
  for (const id of [undefined, 'ten_none', (await service.newTenant()).tenantId])
    expect((await ways(id)).body.data).toEqual({ emailCode: false, oidc: null })
  expect((await owner.call('PATCH', '/member-sign-in', { body })).body.data.emailCode).toBe(false)
  expect((await owner.call('PATCH', '/member-sign-in', { body })).status).toBe(200)
  const [operator, entries] = [
    await openPage(service, { link: (await invited(service, tenant, 'owner')).link.url.split('#link=')[1] as string }),
    await eventually('both changes are in the log', async () => {
      const { data } = (await tenant.get('/audit-log?action=member_sign_in.updated')).body
      return data.length >= 2 && data
    }),
  ]
  expect(entries).toHaveLength(2)
  service.advance(6 * 60_000)
  expectError(await operator.call('PATCH', '/member-sign-in', { body }), 403, 'reauthentication_required')
})
