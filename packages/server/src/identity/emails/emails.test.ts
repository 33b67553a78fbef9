import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { call, eventually, startService } from '../../../test/harness/harness.ts'
import { requestText, sendBytes } from '../../../test/harness/raw-http.ts'
import { answer, startReceiver } from '../../../test/harness/receiver.ts'
import { codeIn, FROM, type MailingService, newEmailApp, startMailing } from '../email-sign-in/email.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

/** Makes every queued email due, instead of waiting for its next attempt. */
const hurry = () => mailing.service.sql("update emails set next_at = now() where status = 'queued' and next_at > now()")

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

describe('what an email says', () => {
  test('the code and nothing that a user wrote, as text and HTML, in the language that was asked for', async () => {
    const app = await newEmailApp(mailing, { language: 'de' })
    const german = await app.ask('ada@example.com')
    expect(german.mail.headers.subject).toMatch(/^=\?UTF-8\?/)
    expect(german.mail.parts['text/plain']).toContain('Geben Sie diesen Code ein, um sich bei Shop anzumelden:')
    const { user } = (await app.verify(german.challengeId, german.code)).body.data
    await app.tenant.patch(`/users/${user.id}`, { name: 'You won! https://evil.example' })
    const { mail, code } = await app.ask('ada@example.com', { language: 'en' })
    expect(mail.headers).toMatchObject({
      subject: 'Your code for Shop',
      from: `Shop <${FROM}>`,
      to: 'ada@example.com',
      'auto-submitted': 'auto-generated',
    })
    expect(Object.keys(mail.parts)).toEqual(['text/plain', 'text/html'])
    expect(mail.parts['text/html']).toContain(`>${code}</p>`)
    expect(mail.parts['text/html']).toContain('<html lang="en">')
    expect(mail.raw).not.toContain('evil.example')
    expect(mail.headers.subject).not.toContain(code)
  })

  test("an app's name adds no header, no recipient and no markup", async () => {
    const app = await newEmailApp(mailing)
    const names = [
      'Shop\r\nBcc: eve@example.com\r\n\r\nGive us your code',
      'Shop\u2028Bcc: eve@example.com',
      'Shop" <eve@example.com>, "x',
      '<img src=x onerror=alert(1)>',
      '{minutes}{__proto__}',
    ]
    for (const name of names) {
      const changed = await app.tenant.patch(`/apps/${app.tenant.appId}`, { name })
      expect(changed.status, changed.text).toBe(200)
      const { mail } = await app.ask('ada@example.com')
      expect(mail.to, name).toEqual(['ada@example.com'])
      expect(mail.headers.bcc, name).toBeUndefined()
      expect(mail.headers.from, name).toContain(`<${FROM}>`)
      expect(mail.headers.from?.match(/<[^>]*@/g), name).toHaveLength(1)
      expect(mail.parts['text/html'], name).not.toContain('<img')
    }
  })

  test('goes to one mailbox, whatever an address looks like', async () => {
    const app = await newEmailApp(mailing)
    const before = mailing.smtp.received.length
    const wrong = [
      'ada@evil.example,victim@example.com',
      'ada@evil.example,victim.example',
      'ada@example.com\r\nRCPT TO:<eve@example.com>',
      'ada@example.com>\r\nDATA',
      'ada@exa mple.com',
      'ada@[127.0.0.1]',
      'ada@example.com ',
      '"ada@evil.example"@example.com',
      'ada@<example.com>',
      'ada@-example-.com',
      'ada@ex_ample!.com',
    ]
    for (const email of wrong.filter((one) => one.trim() === one)) {
      const refused = await app.start(email)
      expect(expectRefusal(refused, 'validation_failed', email)[0].field, email).toBe('email')
    }
    const { mail } = await app.ask('ada@xn--bcher-kva.example')
    expect(mail.to).toEqual(['ada@xn--bcher-kva.example'])
    expect(mailing.smtp.received).toHaveLength(before + 1)
  })
})

describe('the queue', () => {
  test('tries again what a mail server refuses for now, and shows what it refuses for good', async () => {
    const app = await newEmailApp(mailing)
    mailing.smtp.refuse('451 try later')
    await app.start('ada@example.com')
    await eventually('a first attempt', async () => {
      const { body } = await app.tenant.get('/emails?status=queued')
      return body.data[0]?.error === 'The mail server refused it: 451.'
    })
    mailing.smtp.refuse(null)
    await hurry()
    codeIn(await mailing.smtp.next('ada@example.com'))
    const sent = await eventually('it is sent', async () => {
      const { body } = await app.tenant.get('/emails?status=sent')
      return body.data[0]
    })
    expect(sent).toMatchObject({ attempts: 2, error: null, sentAt: expect.any(String), purpose: 'sign_in' })
    mailing.smtp.refuse('550 no such user ada@example.com')
    await app.start('gone@example.com')
    const failed = await eventually('it has failed', async () => {
      const { body } = await app.tenant.get('/emails?status=failed')
      return body.data[0]
    })
    mailing.smtp.refuse(null)
    expect(failed).toMatchObject({
      address: 'gone@example.com',
      attempts: 1,
      error: 'The mail server refused it: 550.',
    })
    expect(Object.keys(failed)).not.toContain('content')
    const other = await mailing.service.newTenant()
    expect((await other.get('/emails')).body.total).toBe(0)
    const weak = await app.tenant.newKey({ scopes: ['webhooks:read', 'audit:read', 'users:read'] })
    expectError(await app.tenant.get('/emails', { key: weak }), 403, 'insufficient_scope')
  })

  test('gives up on a code that nobody could use any more', async () => {
    const app = await newEmailApp(mailing)
    mailing.smtp.refuse('451 try later')
    await app.start('late@example.com')
    await eventually('a first attempt has ended', async () => (await app.tenant.get('/emails')).body.data[0].error)
    mailing.service.advance(11 * 60_000)
    mailing.smtp.refuse(null)
    await hurry()
    await eventually('it has failed', async () => (await app.tenant.get('/emails?status=failed')).body.total === 1)
    expect(mailing.smtp.received.filter(({ to }) => to.includes('late@example.com'))).toEqual([])
  })
})

describe('email.requested', () => {
  test("goes to the app's own server alone, signed, and lies in no feed, audit log or table", async () => {
    const receiver = await startReceiver()
    const other = await startReceiver()
    const email = { sender: 'webhook', webhookUrl: `${receiver.url}/emails`, webhookSecret: SECRET }
    const app = await newEmailApp(mailing, email)
    await app.tenant.post('/webhooks', { url: other.url, events: ['*'] })
    const settings = (await app.tenant.get(`/apps/${app.tenant.appId}`)).body.data.email
    expect(settings).toMatchObject({ sender: 'webhook', webhookSecretSet: true })
    expect(settings).not.toHaveProperty('webhookSecret')
    const { body } = await app.start('ada@example.com')
    const got = await receiver.until('the event', ({ event }) => event.type === 'email.requested')
    const { id, data } = got.event
    expect(data).toMatchObject({
      address: 'ada@example.com',
      appId: app.tenant.appId,
      appName: 'Shop',
      purpose: 'sign_in',
      code: expect.stringMatching(/^\d{6}$/),
      subject: 'Your code for Shop',
      link: null,
    })
    const text = `${id}.${got.headers['webhook-timestamp']}.${got.body}`
    const signature = createHmac('sha256', Buffer.alloc(32, 7)).update(text).digest('base64')
    expect(got.headers['webhook-signature']).toBe(`v1,${signature}`)
    const signedIn = await app.verify(body.data.challengeId, data.code)
    expect(signedIn.status, signedIn.text).toBe(200)
    // After the sign-in's event was delivered, one of before would have been.
    await other.until('the sign-in', ({ event }) => event.type === 'user.signed_in')
    expect(other.received.filter(({ body: each }) => each.includes(data.code))).toEqual([])
    const feed = await app.tenant.get('/events?limit=1000')
    const audit = await app.tenant.get('/audit-log')
    for (const { text: each } of [feed, audit]) expect(each).not.toContain('email.requested')
    expectError(await app.tenant.get(`/events/${id}`), 404, 'not_found')
    // What the server answered is stored after its answer.
    await eventually('it is sent', async () => (await app.tenant.get('/emails')).body.data[0].status === 'sent')
    expect((await app.tenant.get('/emails')).body.data[0].id).toBe(data.emailId)
    await receiver.close()
    await other.close()
  })

  test('is sent again with the same id until the server takes it', async () => {
    const receiver = await startReceiver(answer(503))
    const app = await newEmailApp(mailing, { sender: 'webhook', webhookUrl: receiver.url, webhookSecret: SECRET })
    await app.start('ada@example.com')
    const first = await receiver.until('the first attempt', () => true)
    await eventually('it waits', async () => (await app.tenant.get('/emails?status=queued')).body.data[0]?.error)
    receiver.behave(answer(204))
    await hurry()
    const second = await receiver.until('the second attempt', (each) => each !== first)
    expect(second.body).toBe(first.body)
    await receiver.close()
  })

  test('needs an address and a secret, and reaches no private address', async () => {
    const app = await newEmailApp(mailing)
    const patch = (email: object) => app.tenant.patch(`/apps/${app.tenant.appId}`, { email })
    const incomplete: [object, string][] = [
      [{ sender: 'webhook' }, 'email.webhookUrl'],
      [{ sender: 'webhook', webhookUrl: 'https://example.com/' }, 'email.webhookSecret'],
      [{ webhookUrl: 'ftp://example.com/' }, 'email.webhookUrl'],
      [{ webhookUrl: 'http://example.com/' }, 'email.webhookUrl'],
      [{ webhookSecret: 'secret' }, 'email.webhookSecret'],
    ]
    for (const [email, field] of incomplete)
      expect(expectRefusal(await patch(email), 'validation_failed')[0].field).toBe(field)
    await patch({ sender: 'webhook', webhookUrl: 'https://10.0.0.1/', webhookSecret: SECRET })
    await app.start('ada@example.com')
    const { error } = await eventually('an attempt', async () => {
      const { body } = await app.tenant.get('/emails')
      return body.data[0].error !== null && body.data[0]
    })
    expect(error).toMatch(/^Your server did not take it: /)
    expectRefusal(await patch({ webhookSecret: null }), 'validation_failed')
  })
})

describe('without a mail server', () => {
  test('development shows emails at /dev/mail, and they are nowhere with a mail server', async () => {
    const service = await startService()
    const tenant = await service.newTenant()
    await tenant.patch(`/apps/${tenant.appId}`, { name: '<b>Shop</b>', email: { enabled: true } })
    await tenant.post('/auth/email/start', { email: 'ada@example.com' })
    const [mail] = await eventually('the email', async () => {
      const { body } = await call(service.url, 'GET', '/dev/mail.json')
      return body.length > 0 && body
    })
    expect(mail).toMatchObject({ to: 'ada@example.com', code: expect.stringMatching(/^\d{6}$/) })
    const page = await call(service.url, 'GET', '/dev/mail')
    expect(page.text).toContain(mail.code)
    expect(page.text).not.toContain('<b>Shop')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    // By DNS rebinding, a page of a stranger could read it.
    const [rebound] = await sendBytes(service.url, [requestText('GET /dev/mail.json', { host: 'evil.example' })])
    expect(rebound?.status).not.toBe(200)
    expect(rebound?.body).not.toContain(mail.code)
    await service.stop()
    for (const path of ['/dev/mail', '/dev/mail.json'])
      expect((await call(mailing.service.url, 'GET', path)).status).toBe(404)
  })
})
