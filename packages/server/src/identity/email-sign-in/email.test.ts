import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually } from '../../../test/harness/harness.ts'
import { eventsOf } from '../messenger/messenger.fixture.ts'
import { FROM, type MailingService, newEmailApp, startMailing, wrongFor } from './email.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

const MINUTE_MS = 60_000

describe('who signs in', () => {
  test('a new user the first time, the same one from then on, however the address is written', async () => {
    const app = await newEmailApp(mailing)
    const { challengeId, code, mail } = await app.ask('Ada@Example.com')
    expect(mail).toMatchObject({ from: FROM, to: ['Ada@example.com'] })
    const answer = await app.verify(challengeId, code)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const first = answer.body.data
    expect(first).toEqual({
      user: expect.objectContaining({ email: 'Ada@Example.com', emailVerified: true, lastSeenAt: expect.any(String) }),
      isNewUser: true,
      accessToken: expect.any(String),
      refreshToken: expect.any(String),
      tokenType: 'Bearer',
      expiresInSeconds: 900,
      sessionId: expect.any(String),
    })
    const again = await app.ask(' ada@example.COM ')
    const second = (await app.verify(again.challengeId, again.code)).body.data
    expect(second).toMatchObject({ isNewUser: false, user: { id: first.user.id } })
    const sessions = await app.tenant.get('/auth/sessions', {
      key: app.key,
      headers: { authorization: `Bearer ${second.accessToken}` },
    })
    expect(sessions.body.data).toMatchObject([{ methods: ['email'], current: true }, { methods: ['email'] }])
    expect(await eventsOf(mailing.service, app.tenant, 'user.signed_in')).toEqual(
      [first, second].map(({ sessionId }) => ({ userId: first.user.id, method: 'email', sessionId })),
    )
    expect(await eventsOf(mailing.service, app.tenant, 'user.created')).toHaveLength(1)
  })

  test('nobody, unless the app has turned it on; nobody new, unless users may sign up', async () => {
    const off = await newEmailApp(mailing, { enabled: false })
    expectError(await off.start('ada@example.com'), 404, 'email_sign_in_disabled')
    const app = await newEmailApp(mailing, { signUp: false })
    const before = mailing.smtp.received.length
    const { body } = await app.start('nobody@example.com')
    for (const code of ['000000', '123456'])
      expectError(await app.verify(body.data.challengeId, code), 400, 'invalid_code')
    await app.tenant.post('/users', { email: 'ada@example.com' })
    expect((await app.signIn('ada@example.com')).isNewUser).toBe(false)
    expect(mailing.smtp.received.slice(before).map(({ to }) => to)).toEqual([['ada@example.com']])
    const listed = await app.tenant.get('/emails?status=skipped')
    expect(listed.body.data).toMatchObject([{ address: 'nobody@example.com', attempts: 0, userId: null }])
  })

  test('not one who is suspended, whose code is not used up by that', async () => {
    const app = await newEmailApp(mailing)
    const { user } = await app.signIn('ada@example.com')
    await app.tenant.patch(`/users/${user.id}`, { status: 'suspended' })
    const { challengeId, code } = await app.ask('ada@example.com')
    for (let i = 0; i < 2; i += 1) expectError(await app.verify(challengeId, code), 403, 'user_suspended')
    await app.tenant.patch(`/users/${user.id}`, { status: 'active' })
    expect((await app.verify(challengeId, code)).status).toBe(200)
  })

  test('one who was deleted begins anew', async () => {
    const app = await newEmailApp(mailing)
    const { user } = await app.signIn('ada@example.com')
    await app.tenant.delete(`/users/${user.id}`)
    const anew = await app.signIn('ada@example.com')
    expect(anew.isNewUser).toBe(true)
    expect(anew.user.id).not.toBe(user.id)
  })

  test('not with an address that the account no longer has', async () => {
    const app = await newEmailApp(mailing)
    const { user } = await app.signIn('old@example.com')
    await app.tenant.patch(`/users/${user.id}`, { email: 'new@example.com' })
    const other = await app.signIn('old@example.com')
    expect(other).toMatchObject({ isNewUser: true })
    expect(other.user.id).not.toBe(user.id)
    const { challengeId, code } = await app.ask('new@example.com')
    expectError(await app.verify(challengeId, code), 409, 'email_not_linked')
  })
})

describe('a code', () => {
  test('is used once, of any number of attempts at once', async () => {
    const app = await newEmailApp(mailing)
    const { challengeId, code } = await app.ask('ada@example.com')
    const answers = await Promise.all(Array.from({ length: 20 }, () => app.verify(challengeId, code)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 410, 'challenge_expired')
    expect((await app.tenant.get('/users')).body.total).toBe(1)
    const sessions = await mailing.service.sql('select from sessions where tenant_id = $1', [app.tenant.tenantId])
    expect(sessions).toHaveLength(1)
  })

  test('is valid for ten minutes', async () => {
    const app = await newEmailApp(mailing)
    const late = await app.ask('late@example.com')
    mailing.service.advance(10 * MINUTE_MS + 1)
    expectError(await app.verify(late.challengeId, late.code), 410, 'challenge_expired')
    const early = await app.ask('early@example.com')
    mailing.service.advance(9 * MINUTE_MS)
    expect((await app.verify(early.challengeId, early.code)).status).toBe(200)
  })

  test('can be guessed five times, however many guesses come at once', async () => {
    const app = await newEmailApp(mailing)
    const { challengeId, code } = await app.ask('ada@example.com')
    const guesses = await Promise.all(
      Array.from({ length: 20 }, (_, i) => app.verify(challengeId, wrongFor(code, i + 1))),
    )
    const wrong = guesses.filter(({ status }) => status === 400)
    expect(wrong.map(({ body }) => body.details[0].attemptsRemaining).sort()).toEqual([0, 1, 2, 3, 4])
    for (const guess of guesses)
      expectError(guess, guess.status === 400 ? 400 : 410, guess.status === 400 ? 'invalid_code' : 'challenge_expired')
    expectError(await app.verify(challengeId, code), 410, 'challenge_expired')
  })

  test('is replaced by the next one of the address', async () => {
    const app = await newEmailApp(mailing)
    const first = await app.ask('ada@example.com')
    const other = await app.ask('grace@example.com')
    const second = await app.ask('ADA@example.com')
    expectError(await app.verify(first.challengeId, first.code), 410, 'challenge_expired')
    expect((await app.verify(second.challengeId, second.code)).status).toBe(200)
    expect((await app.verify(other.challengeId, other.code)).status).toBe(200)
  })

  test('belongs to its challenge, app, tenant and purpose', async () => {
    const [app, other] = [await newEmailApp(mailing), await newEmailApp(mailing)]
    const mine = await app.ask('ada@example.com')
    const theirs = await app.ask('grace@example.com')
    if (mine.code !== theirs.code)
      expectError(await app.verify(mine.challengeId, theirs.code), 400, 'invalid_code', "another challenge's code")
    expectError(await other.verify(mine.challengeId, mine.code), 404, 'not_found', 'another tenant')
    const appId = (await app.tenant.post('/apps', { name: 'Two', email: { enabled: true } })).body.data.id
    const key = await app.tenant.newKey({ publishable: true, appId })
    expectError(await app.verify(mine.challengeId, mine.code, {}, { key }), 404, 'not_found', 'another app')
    expectError(await app.verify('chl_none', mine.code), 404, 'not_found', 'no challenge')
    const session = (await app.verify(mine.challengeId, mine.code)).body.data
    const headers = { authorization: `Bearer ${session.accessToken}` }
    const link = await app.ask('ada@example.com', { purpose: 'link' }, { headers })
    expectError(await app.verify(link.challengeId, link.code), 404, 'not_found', 'another purpose')
    const signIn = await app.ask('ada@example.com')
    const linked = await app.tenant.post(
      '/auth/email/link',
      { challengeId: signIn.challengeId, code: signIn.code },
      { key: app.key, headers },
    )
    expectError(linked, 404, 'not_found', 'a sign-in as a link')
  })

  test('is stored only as a keyed hash, and not at all once its email is sent', async () => {
    const app = await newEmailApp(mailing)
    const { challengeId, code } = await app.ask('ada@example.com')
    await app.verify(challengeId, wrongFor(code))
    const rows = await mailing.service.sql<{ text: string }>(
      `select to_jsonb(c)::text as text from email_challenges c where tenant_id = $1
       union all select to_jsonb(e)::text from emails e where tenant_id = $1
       union all select body from events where tenant_id = $1`,
      [app.tenant.tenantId],
    )
    expect(rows.length).toBeGreaterThan(2)
    for (const { text } of rows) expect(text).not.toContain(`"${code}"`)
    const email = await eventually('it is sent', async () => {
      const [sent] = await mailing.service.sql<{ content_sealed: Buffer | null }>(
        "select content_sealed from emails where tenant_id = $1 and status = 'sent'",
        [app.tenant.tenantId],
      )
      return sent
    })
    expect(email.content_sealed).toBeNull()
    expect(mailing.service.logs()).not.toContain('ada@example.com')
  })
})
