import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { newAuthenticator } from '../../../../test/harness/authenticator.ts'
import { ownHeaders, type Page, pageOf, pageWith } from '../../../../test/harness/dashboard-page.ts'
import { expectError } from '../../../../test/harness/envelope.ts'
import { call, eventually, type Tenant } from '../../../../test/harness/harness.ts'
import { type MailingService, startMailing } from '../../../identity/email-sign-in/email.fixture.ts'
import {
  answering,
  type Browser,
  CLIENT_ID,
  type FakeProvider,
  newBrowser,
  newSubject,
  startFakeProvider,
} from '../../../identity/providers/provider.fixture.ts'
import { newId } from '../../../platform/ids.ts'
import type { Role } from '../../../platform/security/roles/roles.ts'
import { addPasskey, mailedLink, opens, proofBy, signedIn } from '../members.fixture.ts'
import { createMemberByOperator } from '../service.ts'

const LOGIN = '/dashboard/api/session/login'

let mailing: MailingService
let fake: FakeProvider
let other: FakeProvider
let tenant: Tenant
let owner: Page
/** The base of the page's addresses. */
let base: string
beforeAll(async () => {
  mailing = await startMailing()
  ;[fake, other] = [await startFakeProvider(mailing.service), await startFakeProvider(mailing.service)]
  base = `http://localhost:${new URL(mailing.service.url).port}/dashboard`
})
afterAll(async () => {
  await Promise.all([fake.close(), other.close()])
  await mailing.stop()
})
beforeEach(async () => {
  tenant = await mailing.service.newTenant()
  owner = (await signedIn(mailing.service, tenant, 'owner')).page
  await setLogin({})
})

/** Sets the tenant's login to the fake one. @returns its address for callbacks */
async function setLogin(more: object, by = owner): Promise<string> {
  const oidc = { name: 'Acme', issuer: fake.issuer, clientId: CLIENT_ID, clientSecret: 'a secret', ...more }
  const answer = await by.call('PATCH', '/member-sign-in', { body: { oidc } })
  expect(answer.status, answer.text).toBe(200)
  expect(answer.text).not.toContain('a secret')
  return answer.body.data.oidc.callbackUrl
}
const callbackUrl = async () => (await tenant.get('/member-sign-in')).body.data.oidc.callbackUrl as string

/** A member whose address is proven, in the session of the invitation. */
async function proven(role: Role = 'viewer') {
  const email = `${newId('job')}@example.com`
  const { deps } = mailing.service
  const { id } = await createMemberByOperator(deps, tenant.tenantId as never, { email, role, delivery: 'email' })
  const page = pageOf(mailing.service, await opens(mailing.service, (await mailedLink(mailing, email)).url))
  return { email, id, page, subject: newSubject() }
}

/** Keeps the cookies of an answer as a browser does. */
function keep(browser: Browser, headers: Headers): void {
  const { host } = new URL(base)
  const jar = browser.cookies.get(host) ?? new Map<string, string>()
  browser.cookies.set(host, jar)
  for (const set of headers.getSetCookie()) {
    const [pair = ''] = set.split(';')
    jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1))
  }
}

/** Begins at the page, to sign in or, with a page of a member, to connect. @returns the query that the browser is sent with */
async function leave(browser: Browser, page?: Page): Promise<URLSearchParams> {
  const answer =
    page === undefined
      ? await call(mailing.service.url, 'POST', LOGIN, {
          body: { tenantId: tenant.tenantId },
          headers: ownHeaders(mailing.service),
        })
      : await page.call('POST', '/session/login/connect', { body: {} })
  expect(answer.status, answer.text).toBe(200)
  keep(browser, answer.headers)
  return new URL(answer.body.data.url).searchParams
}

/** Comes back with a code for somebody. @returns where the browser is sent */
async function comeBack(
  browser: Browser,
  sent: URLSearchParams,
  claims: object,
  { by = fake, query = {} as Record<string, string>, to = '' } = {},
) {
  answering(by, () => by.idToken({ claims: { nonce: sent.get('nonce'), ...claims } }))
  const all = { code: 'a code', state: sent.get('state') as string, iss: by.issuer, ...query }
  const answer = await browser.visit(`${to || (await callbackUrl())}?${new URLSearchParams(all)}`)
  expect(answer.status, answer.text).toBe(303)
  expect(answer.location.startsWith(base), answer.location).toBe(true)
  return answer.location.slice(base.length)
}

const claimsOf = ({ email, subject }: { email: string; subject: string }) => ({
  sub: subject,
  email,
  email_verified: true,
})

/** Connects the account of a member in a fresh session. */
async function connected(role: Role = 'viewer') {
  const member = await proven(role)
  const browser = newBrowser()
  const sent = await leave(browser, member.page)
  expect(await comeBack(browser, sent, claimsOf(member))).toBe('/account#login=connected')
  return member
}

/** Signs in. @returns where the browser lands, and its session */
async function signIn(claims: object, browser = newBrowser()) {
  const sent = await leave(browser)
  const at = await comeBack(browser, sent, claims)
  const token = browser.cookies.get(new URL(base).host)?.get('halfkey_dashboard')
  return { at, page: token === undefined ? undefined : await pageWith(mailing.service, `halfkey_dashboard=${token}`) }
}

const home = () => `?tenant=${tenant.tenantId}`
const refused = () => `${home()}#login=not_connected`

describe('an account at the organisation’s login', () => {
  test('signs in the member who connected it in a fresh session, weakly, until it is disconnected', async () => {
    const { service } = mailing
    const member = await connected('owner')
    const sent = await leave(newBrowser())
    expect(Object.fromEntries(sent)).toMatchObject({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: await callbackUrl(),
      code_challenge_method: 'S256',
      scope: 'openid email profile',
    })
    const { at, page } = await signIn(claimsOf(member))
    expect(at).toBe(home())
    expect(page?.session).toMatchObject({ via: 'member', member: { id: member.id, verifiedAt: null } })
    for (const path of ['/session/passkeys/options', '/session/login/connect', '/session/login/disconnect'])
      expectError(await (page as Page).call('POST', path, { body: {} }), 403, 'reauthentication_required')
    const body = { oidc: null }
    expectError(await (page as Page).call('PATCH', '/member-sign-in', { body }), 403, 'reauthentication_required')
    expect((await member.page.call('GET', '/session/login')).body.data).toEqual({ name: 'Acme', connected: true })
    await service.sql('create table kept_account as select * from member_identities where member_id = $1', [member.id])
    expect((await member.page.call('POST', '/session/login/disconnect', { body: {} })).status).toBe(200)
    expect((await signIn(claimsOf(member))).at).toBe(refused())
    // As somebody who writes the database would put it back.
    await service.sql('insert into member_identities select * from kept_account', [])
    await service.sql('drop table kept_account', [])
    expect((await signIn(claimsOf(member))).at).toBe(refused())
    await eventually('all of it is in the log', async () => {
      const { data } = (await tenant.get(`/audit-log?actor=${member.id}`)).body
      const actions = data.map(({ action }: { action: string }) => action)
      return ['member.account_connected', 'member.account_disconnected', 'dashboard.signed_in'].every((each) =>
        actions.includes(each),
      )
    })
  })

  test('is nobody’s for having a member’s verified email, and is connected only with the address that they proved', async () => {
    const member = await proven()
    expect(await signIn(claimsOf(member))).toEqual({ at: refused(), page: undefined })
    for (const claims of [
      { ...claimsOf(member), email_verified: false },
      { ...claimsOf(member), email_verified: 'yes' },
      { ...claimsOf(member), email: 'eve@example.com' },
      { sub: member.subject },
    ]) {
      const browser = newBrowser()
      const at = await comeBack(browser, await leave(browser, member.page), claims)
      expect(at).toBe('/account#login=email_mismatch')
    }
    // An address that an admin typed is no proof.
    const shown = await signedIn(mailing.service, tenant, 'viewer')
    const browser = newBrowser()
    const claims = claimsOf({ email: shown.email, subject: newSubject() })
    expect(await comeBack(browser, await leave(browser, shown.page), claims)).toBe('/account#login=email_mismatch')
    // An account of one member is not another's too.
    const first = await connected()
    const again = newBrowser()
    const theirs = { ...claimsOf(member), sub: first.subject }
    expect(await comeBack(again, await leave(again, member.page), theirs)).toBe('/account#login=account_taken')
    expect((await signIn(claimsOf(first))).page?.session.member.id).toBe(first.id)
  })

  test('an existing member confirms with a passkey once: without a fresh proof, and after a sign-out, nothing is connected', async () => {
    const { service } = mailing
    const member = await proven()
    const authenticator = newAuthenticator()
    expect((await addPasskey(service, member.page, authenticator)).status).toBe(200)
    service.advance(6 * 60_000)
    expectError(
      await member.page.call('POST', '/session/login/connect', { body: {} }),
      403,
      'reauthentication_required',
    )
    const shown = await member.page.call('POST', '/session/step-up', { body: await proofBy(service, authenticator) })
    expect(shown.status).toBe(200)
    const browser = newBrowser()
    const sent = await leave(browser, member.page)
    expect((await member.page.call('DELETE', '/session')).status).toBe(200)
    expect(await comeBack(browser, sent, claimsOf(member))).toBe('/account#login=session_invalid')
    expect((await signIn(claimsOf(member))).at).toBe(refused())
  })

  test('answers only the browser that asked, once, for this login and in time', async () => {
    const { service } = mailing
    const member = await connected()
    const browser = newBrowser()
    const sent = await leave(browser)
    // Login CSRF: the attacker's answer in another browser, and with another browser's cookie.
    const victim = newBrowser()
    expect(await comeBack(victim, sent, claimsOf(member))).toBe('#login=stale')
    await leave(victim)
    expect(await comeBack(victim, sent, claimsOf(member))).toBe('#login=stale')
    expect(await comeBack(browser, sent, claimsOf(member), { query: { state: `${sent.get('state')}x` } })).toBe(
      '#login=stale',
    )
    // Mix-up: another login's answer, and another tenant's callback.
    const stranger = await service.newTenant()
    const theirs = (await signedIn(service, stranger, 'owner')).page
    const otherUrl = await setLogin({ issuer: other.issuer }, theirs)
    expect(await comeBack(browser, sent, claimsOf(member), { by: other, to: otherUrl })).toBe('#login=stale')
    expect(await comeBack(browser, sent, claimsOf(member))).toBe(home())
    expect(await comeBack(browser, sent, claimsOf(member))).toBe('#login=stale')
    for (const [query, claims] of [
      [{ iss: other.issuer }, {}],
      [{ iss: '' }, {}],
      [{}, { nonce: 'another' }],
      [{}, { iss: other.issuer }],
      [{}, { aud: 'another client' }],
      [{}, { exp: 1 }],
    ] as const) {
      const at = await comeBack(browser, await leave(browser), { ...claimsOf(member), ...claims }, { query })
      expect(at, JSON.stringify([query, claims])).toBe(`${home()}#login=provider_failed`)
    }
    const declined = await leave(browser)
    expect(await comeBack(browser, declined, {}, { query: { error: 'access_denied' } })).toBe(
      `${home()}#login=access_denied`,
    )
    const slow = await leave(browser)
    service.advance(15 * 60_000)
    expect(await comeBack(browser, slow, claimsOf(member))).toBe('#login=stale')
    const cross = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    expectError(
      await call(service.url, 'POST', LOGIN, { body: { tenantId: tenant.tenantId }, headers: cross }),
      403,
      'origin_not_allowed',
    )
  })

  test('signs in no more once rights change, the member is removed, or the login is another or off', async () => {
    const { service } = mailing
    const changed = await connected()
    const [open, browser] = [newBrowser(), newBrowser()]
    const sent = await leave(open)
    expect((await owner.call('PATCH', `/members/${changed.id}`, { body: { role: 'support' } })).status).toBe(200)
    expect(await comeBack(open, sent, claimsOf(changed))).toBe(refused())
    expect((await signIn(claimsOf(changed))).at).toBe(home())
    const gone = await connected()
    expect((await owner.call('DELETE', `/members/${gone.id}`)).status).toBe(200)
    expect((await signIn(claimsOf(gone))).at).toBe(refused())
    const late = await leave(browser)
    const before = await callbackUrl()
    // A new secret alone keeps the accounts; another client does not, nor the old one that comes back.
    expect(await setLogin({ clientSecret: 'another', name: 'Acme Ltd' })).toBe(before)
    expect((await signIn(claimsOf(changed))).at).toBe(home())
    await setLogin({ clientId: 'another' })
    expect(await comeBack(browser, late, claimsOf(changed), { to: before })).toBe('#login=stale')
    await setLogin({})
    expect((await signIn(claimsOf(changed))).at).toBe(refused())
    expect((await owner.call('PATCH', '/member-sign-in', { body: { oidc: null } })).body.data.oidc).toBeNull()
    const off = await call(service.url, 'POST', LOGIN, {
      body: { tenantId: tenant.tenantId },
      headers: ownHeaders(service),
    })
    expectError(off, 404, 'member_oidc_disabled')
  })

  test('of another member, or a login that was changed in the database, signs nobody in', async () => {
    const { service } = mailing
    const [ada, eve] = [await connected('owner'), await connected()]
    await service.sql('update member_identities set member_id = $1 where member_id = $2', [ada.id, eve.id])
    const browser = newBrowser()
    const sent = await leave(browser)
    answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce'), ...claimsOf(eve) } }))
    const query = new URLSearchParams({ code: 'x', state: sent.get('state') as string, iss: fake.issuer })
    const answer = await browser.visit(`${await callbackUrl()}?${query}`)
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([500, 'record_tampered'])
    await service.sql('update member_sign_in set issuer = $1 where tenant_id = $2', [other.issuer, tenant.tenantId])
    const changed = await call(service.url, 'POST', LOGIN, {
      body: { tenantId: tenant.tenantId },
      headers: ownHeaders(service),
    })
    expectError(changed, 500, 'record_tampered')
  })
})

test('a login is set by owners alone, at an address that Halfkey may fetch from', async () => {
  const oidc = { name: 'Acme', issuer: 'https://169.254.169.254', clientId: 'x' }
  expectError(await owner.call('PATCH', '/member-sign-in', { body: { oidc } }), 400, 'issuer_url_blocked')
  const admin = await signedIn(mailing.service, tenant, 'admin')
  expectError(await admin.page.call('PATCH', '/member-sign-in', { body: { oidc } }), 403, 'insufficient_scope')
  expectError(await tenant.patch('/member-sign-in', { oidc }), 403, 'insufficient_scope')
})
