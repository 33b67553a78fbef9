import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, ORIGIN, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, call } from '../../../test/harness/harness.ts'
import { codeIn, type EmailApp, type MailingService, newEmailApp, startMailing } from './email.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

const VICTIM = 'victim@example.com'

const bearer = ({ accessToken }: { accessToken: string }) => ({ authorization: `Bearer ${accessToken}` })

/** What a page with a session calls. */
const as =
  (app: EmailApp, session: { accessToken: string }) =>
  (method: string, path: string, body?: object): Promise<Answer> =>
    app.tenant.call(method, path, {
      key: app.key,
      headers: { origin: ORIGIN, ...bearer(session) },
      ...(body === undefined ? {} : { body }),
    })

/** Somebody signs up with a passkey and names an address that is not theirs. */
async function squatter(app: EmailApp) {
  const authenticator = newAuthenticator()
  const answer = await register({ url: mailing.service.url, key: app.key }, { email: VICTIM }, { authenticator })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

describe('an account that others prepared (pre-account hijacking)', () => {
  test('is not opened by a code; the owner of the address starts a new one, which has the address', async () => {
    const app = await newEmailApp(mailing)
    const stranger = await squatter(app)
    const { challengeId, code } = await app.ask(VICTIM)
    const refused = await app.verify(challengeId, code)
    expectError(refused, 409, 'email_not_linked')
    expect(refused.body.details[0].canStartNew).toBe(true)
    const answer = await app.verify(challengeId, code, { newAccount: true })
    expect(answer.status, answer.text).toBe(200)
    const mine = answer.body.data
    expect(mine).toMatchObject({ isNewUser: true, user: { email: VICTIM, emailVerified: true } })
    expect(mine.user.id).not.toBe(stranger.user.id)
    const theirs = (await app.tenant.get(`/users/${stranger.user.id}`)).body.data
    expect(theirs).toMatchObject({ email: null, emailVerified: false, status: 'active' })
    // Whatever the stranger still has reaches nothing of the new account.
    const { data } = (await as(app, stranger)('GET', '/auth/sessions')).body
    expect(data.map(({ id }: { id: string }) => id)).toEqual([stranger.sessionId])
    expect((await as(app, mine)('GET', '/auth/passkeys')).body.data).toEqual([])
    expect((await app.signIn(VICTIM)).user.id).toBe(mine.user.id)
  })

  test('by a server, in which nobody has ever been, belongs to the owner of the address, and pending ways in end', async () => {
    const app = await newEmailApp(mailing)
    const { id } = (await app.tenant.post('/users', { email: VICTIM, name: 'Vic' })).body.data
    const headers = { 'x-user-id': id }
    const options = (await app.tenant.post('/auth/passkey/register-options', {}, { headers })).body.data
    const mine = await app.signIn(VICTIM)
    expect(mine).toMatchObject({ isNewUser: false, user: { id, email: VICTIM, emailVerified: true } })
    const credential = newAuthenticator().create(options.publicKey)
    const body = { challengeId: options.challengeId, credential }
    const late = await app.tenant.post('/auth/passkey/register-verify', body, {
      key: app.key,
      headers: { origin: ORIGIN },
    })
    expectError(late, 404, 'not_found')
  })

  test('by a server that acts for somebody there is not opened, unless the server says that the address is verified', async () => {
    const app = await newEmailApp(mailing)
    const { id } = (await app.tenant.post('/users', { email: VICTIM })).body.data
    const headers = { 'x-user-id': id }
    expect((await app.tenant.post('/users/me/wallet', {}, { headers })).status).toBe(201)
    const { challengeId, code } = await app.ask(VICTIM)
    expectError(await app.verify(challengeId, code), 409, 'email_not_linked')
    // As an import does.
    await mailing.service.sql('update users set email_verified = true where id = $1', [id])
    await mailing.service.recode()
    expect((await app.verify(challengeId, code)).body.data).toMatchObject({ isNewUser: false, user: { id } })
  })

  test('by a guest who named the address is not opened, while their session is still alive or after', async () => {
    const app = await newEmailApp(mailing)
    const guest = (await app.tenant.post('/guests', {})).body.data
    const converted = await as(app, guest)('POST', `/guests/${guest.id}/convert`, { email: VICTIM })
    expect(converted.status, converted.text).toBe(200)
    await as(app, converted.body.data)('POST', '/auth/logout', { everywhere: true })
    const { challengeId, code } = await app.ask(VICTIM)
    expectError(await app.verify(challengeId, code), 409, 'email_not_linked')
  })

  test('is not opened because its email counts as verified elsewhere, and keeps the address', async () => {
    const app = await newEmailApp(mailing)
    const stranger = await squatter(app)
    await mailing.service.sql('update users set email_verified = true where id = $1', [stranger.user.id])
    await mailing.service.recode()
    const { challengeId, code } = await app.ask(VICTIM)
    for (const more of [{}, { newAccount: true }]) {
      const refused = await app.verify(challengeId, code, more)
      expectError(refused, 409, 'email_not_linked')
      expect(refused.body.details[0].canStartNew).toBe(false)
    }
    expect((await app.tenant.get(`/users/${stranger.user.id}`)).body.data.email).toBe(VICTIM)
  })

  test('becomes theirs by linking the address while signed in, and by nothing else', async () => {
    const app = await newEmailApp(mailing)
    const authenticator = newAuthenticator()
    const session = await register({ url: mailing.service.url, key: app.key }, { email: VICTIM }, { authenticator })
    const own = as(app, session.body.data)
    const { challengeId, code } = await app.ask(VICTIM, { purpose: 'link' }, { headers: bearer(session.body.data) })
    const stranger = await app.signIn('other@example.com')
    expectError(await as(app, stranger)('POST', '/auth/email/link', { challengeId, code }), 404, 'not_found')
    const linked = await own('POST', '/auth/email/link', { challengeId, code })
    expect(linked.status, linked.text).toBe(200)
    expect(linked.body.data).toMatchObject({ email: VICTIM, emailVerified: true })
    expectError(await own('POST', '/auth/email/link', { challengeId, code }), 410, 'challenge_expired')
    expect((await app.signIn(VICTIM)).user.id).toBe(session.body.data.user.id)
    const { data } = (await own('GET', '/auth/identities')).body
    expect(data).toMatchObject([{ provider: 'email', subject: VICTIM, issuer: null }])
    expect((await own('DELETE', `/auth/identities/${data[0].id}`)).status).toBe(200)
    const again = await app.ask(VICTIM)
    expectError(await app.verify(again.challengeId, again.code), 409, 'email_not_linked')
  })

  test('cannot take an address that another user has, nor another one than its own', async () => {
    const app = await newEmailApp(mailing)
    await app.signIn('taken@example.com')
    const guest = (await app.tenant.post('/guests', {})).body.data
    const converted = await as(app, guest)('POST', `/guests/${guest.id}/convert`, { externalId: 'x' })
    const session = converted.body.data
    const taken = await app.ask('taken@example.com', { purpose: 'link' }, { headers: bearer(session) })
    const body = { challengeId: taken.challengeId, code: taken.code }
    expectError(await as(app, session)('POST', '/auth/email/link', body), 409, 'already_exists')
    const owner = await app.signIn('taken@example.com')
    const other = await as(app, owner)('POST', '/auth/email/start', { email: 'x@example.com', purpose: 'link' })
    expectError(other, 400, 'validation_failed')
    expectError(await app.start('x@example.com', { purpose: 'link' }), 401, 'session_missing')
  })
})

describe('an address that only looks like another', () => {
  test.each([
    ['sharp s', 'strasse@example.com', 'straße@example.com'],
    ['sharp s in the host', 'ada@fass.example', 'ada@faß.example'],
    ['a dotless i', 'I@example.com', 'ı@example.com'],
    ['final sigma', 'σ@example.com', 'ς@example.com'],
  ])('and counts as the same one (%s) gets no email, and no account of the other', async (_, stored, typed) => {
    const app = await newEmailApp(mailing)
    await app.tenant.post('/users', { email: stored })
    const before = mailing.smtp.received.length
    const { status, body } = await app.start(typed)
    expect(status).toBe(200)
    expect((await app.tenant.get('/emails')).body.data).toMatchObject([{ address: typed, status: 'skipped' }])
    expectError(await app.verify(body.data.challengeId, '000000'), 400, 'invalid_code')
    expect(mailing.smtp.received).toHaveLength(before)
  })

  test('and is the same one after normalisation (the Kelvin sign) is sent to as the address that it is', async () => {
    const app = await newEmailApp(mailing)
    const { id } = (await app.tenant.post('/users', { email: 'kim@example.com' })).body.data
    const { body } = await app.start('\u212Aim@example.com')
    const mail = await mailing.smtp.next('Kim@example.com')
    expect(mail.to).toEqual(['Kim@example.com'])
    expect((await app.verify(body.data.challengeId, codeIn(mail))).body.data.user.id).toBe(id)
  })

  test('and is written with other letters is another user', async () => {
    const app = await newEmailApp(mailing)
    const latin = await app.signIn('ada@example.com')
    const cyrillic = await app.ask('\u0430da@example.com')
    const other = (await app.verify(cyrillic.challengeId, cyrillic.code)).body.data
    expect(other.isNewUser).toBe(true)
    expect(other.user.id).not.toBe(latin.user.id)
  })
})

test('a session by email reaches nothing that a passkey protects, until one is shown', async () => {
  const app = await newEmailApp(mailing)
  const authenticator = newAuthenticator()
  const strong = (await register({ url: mailing.service.url, key: app.key }, { email: VICTIM }, { authenticator })).body
    .data
  const { challengeId, code } = await app.ask(VICTIM, { purpose: 'link' }, { headers: bearer(strong) })
  await as(app, strong)('POST', '/auth/email/link', { challengeId, code })
  const weak = await app.signIn(VICTIM)
  expect(weak.user.id).toBe(strong.user.id)
  const [passkey] = (await as(app, strong)('GET', '/auth/passkeys')).body.data
  const [identity] = (await as(app, strong)('GET', '/auth/identities')).body.data
  const acts: [string, string, object?][] = [
    ['DELETE', `/auth/passkeys/${passkey.id}`],
    ['DELETE', `/auth/identities/${identity.id}`],
    ['POST', '/auth/passkey/register-options', {}],
    ['POST', '/mfa/setup', {}],
    ['POST', '/auth/email/start', { email: VICTIM, purpose: 'link' }],
  ]
  for (const [method, path, body] of acts)
    expectError(await as(app, weak)(method, path, body), 403, 'stronger_sign_in_required', path)
  expect((await as(app, weak)('GET', '/auth/sessions')).status).toBe(200)
  // The hosted page hands the session over to the app, as weak as it is.
  const redirectUri = 'https://shop.example.com/signed-in'
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { allowedRedirectUrls: [redirectUri] })
  const codeVerifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(codeVerifier).digest('base64url')
  const handed = await call(mailing.service.url, 'POST', '/signin/api/code', {
    body: { redirectUri, codeChallenge },
    headers: { 'x-halfkey-app': app.tenant.appId, ...bearer(weak) },
  })
  expect(handed.status, handed.text).toBe(200)
  const exchanged = await app.tenant.post('/auth/exchange', { code: handed.body.data.code, codeVerifier, redirectUri })
  const still = as(app, exchanged.body.data)
  expectError(await still('DELETE', `/auth/passkeys/${passkey.id}`), 403, 'stronger_sign_in_required')
})
