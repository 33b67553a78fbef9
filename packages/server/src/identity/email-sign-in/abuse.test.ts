import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { refillsNothing } from '../../../test/harness/harness.ts'
import { signInAs } from '../sessions/sessions.fixture.ts'
import { type MailingService, newEmailApp, startMailing, wrongFor } from './email.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

const HOUR_MS = 3_600_000

test('answers look the same for an address that a user has and for one that nobody has', async () => {
  for (const signUp of [true, false]) {
    const app = await newEmailApp(mailing, { signUp })
    await app.tenant.post('/users', { email: 'known@example.com' })
    const shapes = []
    for (const email of ['known@example.com', 'nobody@example.com']) {
      const started = await app.start(email)
      const { challengeId } = started.body.data
      const answers = [started]
      for (let i = 0; i < 6; i += 1) answers.push(await app.verify(challengeId, wrongFor('999999', i)))
      shapes.push(
        answers.map(({ status, text, headers }) => ({
          status,
          headers: [...headers.keys()].sort(),
          text: text.replace(/chl_\w+/g, 'chl').replace(/\d{4}-[\dT:.-]+Z/g, 'time'),
        })),
      )
    }
    expect(shapes[0]).toEqual(shapes[1])
  }
})

test('an address gets ten emails an hour, whoever asks and for what, also from many at once', async () => {
  const app = await newEmailApp(mailing)
  const answers = await Promise.all(
    Array.from({ length: 25 }, (_, i) => app.start(i % 2 === 0 ? 'victim@example.com' : 'VICTIM@example.com')),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
  for (const answer of answers) if (answer.status !== 200) expectError(answer, 429, 'rate_limited')
  const refused = await app.start('victim@example.com')
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_500)
  expect((await app.start('other@example.com')).status).toBe(200)
  const appId = (await app.tenant.post('/apps', { name: 'Two', email: { enabled: true } })).body.data.id
  const key = await app.tenant.newKey({ publishable: true, appId })
  expect((await app.start('victim@example.com', {}, { key })).status).toBe(200)
  mailing.service.advance(HOUR_MS + 1_000)
  expect((await app.start('victim@example.com')).status).toBe(200)
})

test('a user who changes an address that was never confirmed causes ten emails an hour, however many addresses they name', async () => {
  const app = await newEmailApp(mailing)
  const person = await signInAs(mailing.service, app.tenant, { email: 'unconfirmed@example.com' })
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      person.post('/auth/email/start', { email: `new${i}@example.com`, purpose: 'change' }),
    ),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10)
  for (const answer of answers) if (answer.status !== 200) expectError(answer, 429, 'rate_limited')
})

test('twenty wrong answers a day, over any number of challenges, lock an address', async () => {
  const app = await newEmailApp(mailing)
  for (let round = 0; round < 4; round += 1) {
    const { challengeId, code } = await app.ask('ada@example.com')
    for (let i = 1; i <= 5; i += 1)
      expectError(await app.verify(challengeId, wrongFor(code, i)), 400, 'invalid_code', `${round} ${i}`)
  }
  const locked = await app.start('ada@example.com')
  expectError(locked, 429, 'email_locked')
  expect(Number(locked.headers.get('retry-after'))).toBeGreaterThan(80_000)
  expect((await app.start('grace@example.com')).status).toBe(200)
  mailing.service.advance(24 * HOUR_MS + 1_000)
  const { challengeId, code } = await app.ask('ada@example.com')
  expect((await app.verify(challengeId, code)).status).toBe(200)
})

test('a right code is not accepted once the address is locked', async () => {
  const app = await newEmailApp(mailing)
  const { user } = await app.signIn('ada@example.com')
  const last = await app.ask('ada@example.com')
  await mailing.service.sql(
    "update email_challenges set wrong_answers = 20 where tenant_id = $1 and id <> $2 and email_key = 'ada@example.com'",
    [app.tenant.tenantId, last.challengeId],
  )
  expectError(await app.verify(last.challengeId, last.code), 429, 'email_locked')
  expect(user.email).toBe('ada@example.com')
})

test('a network can have an app send fifty emails at once, to any addresses', async () => {
  const limited = await startMailing({ HALFKEY_RATE_LIMITS: 'on', HALFKEY_RATE_LIMIT_SIGN_IN: '1000/1000' })
  refillsNothing(limited.service, 'rateLimitAccount')
  const app = await newEmailApp(limited)
  const answers = []
  for (let i = 0; i < 60; i += 1) answers.push(await app.start(`user${i}@example.com`, {}, { key: app.tenant.key }))
  // Tokens come back slowly: a slow machine gets one more.
  const sent = answers.filter(({ status }) => status === 200).length
  expect(sent).toBeGreaterThanOrEqual(50)
  expect(sent).toBeLessThan(55)
  expectError(answers.at(-1) as never, 429, 'rate_limited')
  await limited.stop()
})

test('a link leads to pages of the app only', async () => {
  const app = await newEmailApp(mailing)
  const page = 'https://shop.example.com/signed-in'
  await app.tenant.patch(`/apps/${app.tenant.appId}`, { allowedRedirectUrls: [page] })
  const own = `http://localhost:${mailing.service.deps.config.port}/signin?app=${app.tenant.appId}`
  for (const linkUrl of [page, own, `${own}&state=x`]) {
    const { mail, code } = await app.ask('ada@example.com', { linkUrl })
    expect(mail.parts['text/plain']).toContain(`\n${linkUrl}#email_code=${code}\n`)
  }
  const foreign = [
    `${page}/`,
    'https://evil.example/',
    'javascript:alert(1)',
    `${own}#x`,
    `${own}\n\nGive us your code`,
    `${own} <b>`,
    own.replace('localhost', 'evil.example'),
    own.replace(app.tenant.appId, 'app_01jb2m7x9kq4t8v6w0r3s5y1zb'),
    own.replace('/signin', '/dashboard'),
  ]
  for (const linkUrl of foreign)
    expect(expectRefusal(await app.start('ada@example.com', { linkUrl }), 'validation_failed', linkUrl)[0].field).toBe(
      'linkUrl',
    )
})

test('fixed codes are for listed addresses, which get no email, and not for production unless allowed', async () => {
  const testCodes = [{ email: 'Review@example.com', code: '424242' }]
  const app = await newEmailApp(mailing, { testCodes })
  const { body } = await app.start('review@example.com')
  expect((await app.verify(body.data.challengeId, '424242')).status).toBe(200)
  expect((await app.tenant.get('/emails')).body.data[0].status).toBe('skipped')
  const other = await app.ask('other@example.com')
  if (other.code !== '424242') expectError(await app.verify(other.challengeId, '424242'), 400, 'invalid_code')
  Object.assign(mailing.service.deps.config, { env: 'production' })
  try {
    const inProduction = await app.start('review@example.com')
    const refused = await app.verify(inProduction.body.data.challengeId, '424242')
    expectError(refused, 400, 'invalid_code')
    Object.assign(mailing.service.deps.config, { testCodes: true })
    const allowed = await app.start('review@example.com')
    expect((await app.verify(allowed.body.data.challengeId, '424242')).status).toBe(200)
  } finally {
    Object.assign(mailing.service.deps.config, { env: 'development', testCodes: false })
  }
})
