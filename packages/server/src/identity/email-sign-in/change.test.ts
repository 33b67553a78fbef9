import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newAuthenticator, ORIGIN, register } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Answer } from '../../../test/harness/harness.ts'
import { enrol, stepUp } from '../mfa/mfa.fixture.ts'
import { eventsOf, personOf } from '../sessions/sessions.fixture.ts'
import { codeIn, type EmailApp, type MailingService, newEmailApp, startMailing, wrongFor } from './email.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

const OLD = 'old@example.com'
const NEW = 'new@example.com'

type Session = { accessToken: string; user: { id: string } }

/** What a page with a session calls. */
const as =
  (app: EmailApp, { accessToken }: Session) =>
  (method: string, path: string, body?: object): Promise<Answer> =>
    app.tenant.call(method, path, {
      key: app.key,
      headers: { origin: ORIGIN, authorization: `Bearer ${accessToken}` },
      ...(body === undefined ? {} : { body }),
    })

const start = (app: EmailApp, session: Session, email: string, more: object = {}) =>
  as(app, session)('POST', '/auth/email/start', { email, purpose: 'change', ...more })

const change = (app: EmailApp, session: Session, body: object) => as(app, session)('POST', '/auth/email/change', body)

/** Asks for a change, and reads both mailboxes. */
async function ask(app: EmailApp, session: Session, email = NEW, from = OLD) {
  const started = await start(app, session, email)
  expect(started.status, started.text).toBe(200)
  const { challengeId, currentChallengeId } = started.body.data
  expect(currentChallengeId).toMatch(/^chl_/)
  const [ours, theirs] = [await mailing.smtp.next(email), await mailing.smtp.next(from)]
  return { body: { challengeId, code: codeIn(ours), currentChallengeId, currentCode: codeIn(theirs) }, ours, theirs }
}

/** Somebody who signs in with an address. */
async function newUser(email = OLD) {
  const app = await newEmailApp(mailing)
  return { app, ada: (await app.signIn(email)) as Session }
}

const emailOf = async (app: EmailApp, { user }: Session) => (await app.tenant.get(`/users/${user.id}`)).body.data.email

describe('an email address', () => {
  test('changes by the codes of both mailboxes; from then on the new one signs in, and the old one is nobody’s', async () => {
    const { app, ada } = await newUser()
    const { body, ours, theirs } = await ask(app, ada)
    // What they are for is in each email, and neither names the other address.
    expect(ours.headers.subject).toBe('Confirm your new email address for Shop')
    expect(theirs.headers.subject).toBe('Your email address for Shop is about to change')
    expect(theirs.raw).not.toContain(NEW)
    expect(ours.raw).not.toContain(OLD)
    const changed = await change(app, ada, body)
    expect(changed.status, changed.text).toBe(200)
    expect(changed.body.data).toMatchObject({ id: ada.user.id, email: NEW, emailVerified: true })
    const identities = (await as(app, ada)('GET', '/auth/identities')).body.data
    expect(identities).toMatchObject([{ provider: 'email', subject: NEW }])
    expect((await app.signIn(NEW)).user.id).toBe(ada.user.id)
    expect((await app.signIn(OLD)).user.id).not.toBe(ada.user.id)
    expectError(await change(app, ada, body), 410, 'challenge_expired')
    const service = mailing.service
    expect(await eventsOf(service, app.tenant, 'user.updated')).toMatchObject([{ changed: ['email'] }])
    expect(await eventsOf(service, app.tenant, 'identity.unlinked')).toMatchObject([{ userId: ada.user.id }])
  })

  test('does not change by one code, and a wrong one leaves the other unused', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    const { challengeId, code } = body
    const half = await change(app, ada, { challengeId, code })
    expectError(half, 400, 'validation_failed')
    expect(half.body.details[0].field).toBe('currentCode')
    for (const field of ['currentCode', 'currentChallengeId'] as const)
      expectError(await change(app, ada, { ...body, [field]: undefined }), 400, 'validation_failed')
    const wrongNew = await change(app, ada, { ...body, code: wrongFor(code) })
    expectError(wrongNew, 400, 'invalid_code')
    expect(wrongNew.body.details).toMatchObject([{ field: 'code', attemptsRemaining: 4 }])
    const wrongOld = await change(app, ada, { ...body, currentCode: wrongFor(body.currentCode) })
    expect(wrongOld.body.details).toMatchObject([{ field: 'currentCode', attemptsRemaining: 4 }])
    // Neither code stands for the other, and a code for another purpose for none of them.
    const swapped = { challengeId: body.currentChallengeId, code: body.currentCode }
    expectError(await change(app, ada, swapped), 404, 'not_found')
    const twice = { ...body, currentChallengeId: challengeId, currentCode: code }
    expectError(await change(app, ada, twice), 404, 'not_found')
    expectError(await app.verify(challengeId, code), 404, 'not_found')
    expectError(await as(app, ada)('POST', '/auth/email/link', { challengeId, code }), 404, 'not_found')
    expect(await emailOf(app, ada)).toBe(OLD)
    expect((await change(app, ada, body)).status).toBe(200)
  })

  test('is guessed five times in all, also at once', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    const guesses = Array.from({ length: 8 }, (_, i) =>
      change(app, ada, { ...body, currentCode: wrongFor(body.currentCode, i + 1) }),
    )
    const codes = (await Promise.all(guesses)).map((answer) => answer.body.code)
    expect(codes.filter((code) => code === 'invalid_code')).toHaveLength(5)
    expectError(await change(app, ada, body), 410, 'challenge_expired')
    expect(await emailOf(app, ada)).toBe(OLD)
  })

  test('changes once, of any number of attempts at once', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    const all = await Promise.all(Array.from({ length: 5 }, () => change(app, ada, body)))
    expect(all.map(({ status }) => status).sort()).toEqual([200, 410, 410, 410, 410])
    expect(await eventsOf(mailing.service, app.tenant, 'user.updated')).toHaveLength(1)
  })

  test('of another user is not taken, which only the owner of its mailbox learns', async () => {
    const { app, ada } = await newUser()
    const owner = await app.signIn(NEW)
    const { body } = await ask(app, ada)
    expectError(await change(app, ada, { ...body, code: wrongFor(body.code) }), 400, 'invalid_code')
    expectError(await change(app, ada, body), 409, 'already_exists')
    expect((await app.signIn(NEW)).user.id).toBe(owner.user.id)
    expect(await emailOf(app, ada)).toBe(OLD)
  })

  test('that two users change to each other’s, at once, stays whose it is', async () => {
    const { app, ada } = await newUser()
    const grace = (await app.signIn(NEW)) as Session
    const [one, two] = [await ask(app, ada), await ask(app, grace, OLD, NEW)]
    const both = await Promise.all([change(app, ada, one.body), change(app, grace, two.body)])
    for (const answer of both) expectError(answer, 409, 'already_exists')
    expect([await emailOf(app, ada), await emailOf(app, grace)]).toEqual([OLD, NEW])
  })
})

describe('a change of address', () => {
  test('belongs to the user and session that asked, and to the address that the user had then', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    const other = (await app.signIn('other@example.com')) as Session
    expectError(await change(app, other, body), 404, 'not_found')
    expectError(await change(app, (await app.signIn(OLD)) as Session, body), 401, 'session_revoked')
    const second = await ask(app, ada, 'third@example.com')
    expectError(await change(app, ada, { ...body, currentCode: '000000' }), 410, 'challenge_expired')
    // A server gave the user another address meanwhile.
    const path = `/users/${ada.user.id}`
    expect((await app.tenant.patch(path, { email: 'server@example.com' })).status).toBe(200)
    expectError(await change(app, ada, second.body), 410, 'challenge_expired')
    expect(await emailOf(app, ada)).toBe('server@example.com')
  })

  test('needs a recent sign-in, and a session that has not ended since', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    expect((await as(app, ada)('POST', '/auth/logout', {})).status).toBe(200)
    expectError(await change(app, ada, body), 401, 'session_revoked')
    const late = (await app.signIn(OLD)) as Session
    mailing.service.advance(6 * 60_000)
    try {
      expectError(await start(app, late, NEW), 403, 'reauthentication_required')
    } finally {
      mailing.service.advance(-6 * 60_000)
    }
    expectError(await app.start(NEW, { purpose: 'change' }), 401, 'session_missing')
  })

  test('is not reached by a session of the mailbox where the account has a passkey, also one that was added meanwhile', async () => {
    const { app, ada } = await newUser()
    const { body } = await ask(app, ada)
    const by = { url: mailing.service.url, key: app.key }
    const headers = { authorization: `Bearer ${ada.accessToken}` }
    const strong = await register(by, {}, { authenticator: newAuthenticator(), headers })
    expect(strong.status, strong.text).toBe(200)
    expectError(await change(app, ada, body), 403, 'stronger_sign_in_required')
    expectError(await start(app, (await app.signIn(OLD)) as Session, NEW), 403, 'stronger_sign_in_required')
    const { data } = strong.body
    expect((await change(app, data, (await ask(app, data)).body)).status).toBe(200)
  })

  test('needs the second factor of a user who has one', async () => {
    const { app, ada } = await newUser()
    const person = personOf(
      mailing.service.url,
      app.key,
      { userId: ada.user.id, appId: app.tenant.appId },
      ada as never,
    )
    const factor = await enrol(mailing.service, person)
    mailing.service.advance(6 * 60_000)
    try {
      expectError(await start(app, ada, NEW), 403, 'mfa_required')
      await stepUp(mailing.service, person, factor)
      expect((await change(app, ada, (await ask(app, ada)).body)).status).toBe(200)
    } finally {
      mailing.service.advance(-6 * 60_000)
    }
  })

  test('from an address that was never confirmed needs the code of the new one alone', async () => {
    const app = await newEmailApp(mailing)
    const { body } = await register({ url: mailing.service.url, key: app.key }, { email: 'mistyped@example.com' })
    const ada: Session = body.data
    const started = await start(app, ada, NEW)
    expect(started.body.data.currentChallengeId).toBeNull()
    const { challengeId } = started.body.data
    const answer = { challengeId, code: codeIn(await mailing.smtp.next(NEW)) }
    expect((await change(app, ada, answer)).body.data).toMatchObject({ email: NEW, emailVerified: true })
    expect(mailing.smtp.received.some(({ to }) => to.join().includes('mistyped'))).toBe(false)
    expect((await app.signIn(NEW)).user.id).toBe(ada.user.id)
  })

  test('that was asked for before the address was confirmed needs both codes after all', async () => {
    const app = await newEmailApp(mailing)
    const { body } = await register({ url: mailing.service.url, key: app.key }, { email: OLD })
    const ada: Session = body.data
    const { challengeId } = (await start(app, ada, NEW)).body.data
    const answer = { challengeId, code: codeIn(await mailing.smtp.next(NEW)) }
    const headers = { authorization: `Bearer ${ada.accessToken}` }
    const { mail: _, ...link } = await app.ask(OLD, { purpose: 'link' }, { headers })
    expect((await as(app, ada)('POST', '/auth/email/link', link)).status).toBe(200)
    expectError(await change(app, ada, answer), 400, 'validation_failed')
    expect(await emailOf(app, ada)).toBe(OLD)
  })

  test('is refused without an address, to the same address, and with a link', async () => {
    const { app, ada } = await newUser()
    expectError(await start(app, ada, 'OLD@example.com'), 400, 'validation_failed')
    expectError(await start(app, ada, NEW, { linkUrl: 'https://shop.example.com/' }), 400, 'validation_failed')
    expectError(await start(app, ada, 'no address'), 400, 'validation_failed')
    const guest = (await app.tenant.post('/guests', {})).body.data
    expectError(await start(app, guest, NEW), 400, 'validation_failed')
  })

  test('counts for the limits of the user, whatever addresses are named', async () => {
    const { app, ada } = await newUser('limits@example.com')
    // Two codes for each, of the ten an hour that a user may ask for.
    for (let i = 0; i < 5; i += 1) expect((await start(app, ada, `n${i}@example.com`)).status).toBe(200)
    expectError(await start(app, ada, 'n5@example.com'), 429, 'rate_limited')
  })

  test('by a server for its user needs both codes too', async () => {
    const { app, ada } = await newUser()
    const headers = { 'x-user-id': ada.user.id }
    const post = (path: string, body: object) => app.tenant.post(path, body, { headers })
    const { data } = (await post('/auth/email/start', { email: NEW, purpose: 'change' })).body
    const [ours, theirs] = [await mailing.smtp.next(NEW), await mailing.smtp.next(OLD)]
    const answer = { challengeId: data.challengeId, code: codeIn(ours) }
    expectError(await post('/auth/email/change', answer), 400, 'validation_failed')
    const both = { ...answer, currentChallengeId: data.currentChallengeId, currentCode: codeIn(theirs) }
    expectError(await change(app, ada, both), 401, 'session_revoked')
    expect((await post('/auth/email/change', both)).body.data.email).toBe(NEW)
  })
})
