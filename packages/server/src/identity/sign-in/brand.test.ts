import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { DEFAULT_LOOK, NO_LINKS } from '../../tenancy/apps/branding/branding.ts'
import { contrast, contrastWithWhite } from '../../tenancy/apps/branding/colours.ts'
import { png } from '../../tenancy/apps/logo/png.fixture.ts'
import { paletteOf } from '../../tenancy/apps/service.ts'

let service: Service
let origin: string
beforeAll(async () => {
  service = await startService()
  // In development the page is shown under the name in the public URL.
  origin = service.url.replace('127.0.0.1', 'localhost')
})
afterAll(() => service.stop())

const brand = (tenant: Tenant, branding: object): Promise<Answer> => tenant.patch(`/apps/${tenant.appId}`, { branding })

const brandingOf = async (answer: Promise<Answer>) => {
  const { status, text, body } = await answer
  expect(status, text).toBe(200)
  return body.data.branding
}

const open = (tenant: Tenant, path = '/signin', query = '') =>
  call(origin, 'GET', `${path}?app=${tenant.appId}${query}`)

const configOf = ({ text }: Answer) =>
  JSON.parse(/<script type="application\/json" id="config">([^<]*)<\/script>/.exec(text)?.[1] ?? '')

/** An address on the page, as a browser reads it. */
const addressOf = ({ text }: Answer, pattern: RegExp) => (pattern.exec(text)?.[1] ?? '').replaceAll('&amp;', '&')

const LINKS = {
  termsUrl: 'https://shop.example.com/terms?a=1&b=%22',
  privacyUrl: 'https://shop.example.com/privacy',
  supportUrl: 'https://help.example.com/',
}

test('an app has no brand until it is set, each field alone, and a change names what changed', async () => {
  const tenant = await service.newTenant()
  const plain = { ...DEFAULT_LOOK, ...NO_LINKS }
  expect(await brandingOf(tenant.get(`/apps/${tenant.appId}`))).toEqual(plain)
  const look = { cornerRadius: 'round', colorScheme: 'dark', methodOrder: ['email', 'passkey'] }
  await brand(tenant, { ...look, ...LINKS })
  expect(await brandingOf(brand(tenant, { supportUrl: null }))).toEqual({
    ...plain,
    ...look,
    ...LINKS,
    supportUrl: null,
  })
  await brand(tenant, look)
  const rows = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type = 'app.updated' order by id`,
    [tenant.tenantId],
  )
  const changed = rows.map(({ body }) => JSON.parse(body).data.changed.toSorted())
  const all = [...Object.keys(look), ...Object.keys(LINKS)].map((field) => `branding.${field}`)
  expect(changed).toEqual([all.toSorted(), ['branding.supportUrl']])
})

test('links lead to https addresses and nowhere else, and words of a brand are known words', async () => {
  const tenant = await service.newTenant()
  const refused: [field: string, values: unknown[], message: RegExp][] = [
    [
      'termsUrl',
      [
        'javascript:alert(1)',
        'JaVaScRiPt:alert(1)',
        ' javascript:alert(1)',
        'java\nscript:alert(1)',
        'data:text/html,<script>alert(1)</script>',
        'http://127.0.0.1/terms',
        'https:terms',
        '/terms',
        '',
        `https://shop.example.com/${'a'.repeat(2_048)}`,
      ],
      /^Must be an https: URL of at most 2048 characters\.$/,
    ],
    ['privacyUrl', ['https://shop.example.com@evil.example/', 'https://a:b@evil.example/'], /user name or password/],
    ['supportUrl', ['https://', 'https://[', 'https://a b.example/'], /absolute https: URL/],
    ['supportUrl', ['https://*.example.com/help'], /one host/],
    [
      'supportUrl',
      ['https://shop.example.com\\@evil.example/', 'https://shop.exam\nple.com/', 'https://shop.example.com/a b'],
      /as browsers write it/,
    ],
    [
      'name',
      ['Shop\u202egnp.exe', '\u2066Shop', 'Shop\u0007', 'a\nb', '\u061c', ' ', 'x'.repeat(101)],
      /^Must be text of 1 to 100 characters, not only spaces, without control characters and characters that change the direction of text\.$/,
    ],
    ['cornerRadius', ['huge', '4px', null], /./],
    ['colorScheme', ['light"><script>', 'Dark', null], /./],
    ['methodOrder.0', [['admin'], ['__proto__'], [null]], /./],
    ['methodOrder', [['email', 'email'], 'email', null], /different ways in: passkey, email, wallet, provider/],
  ]
  for (const [field, values, message] of refused)
    for (const value of values) {
      const name = field.split('.')[0] as string
      const [detail] = expectRefusal(await brand(tenant, { [name]: value }), 'validation_failed', JSON.stringify(value))
      expect(detail, JSON.stringify(value)).toMatchObject({
        field: `branding.${field}`,
        message: expect.stringMatching(message),
      })
    }
  expectRefusal(await brand(tenant, { logo: null }), 'validation_failed')
  expect(await brandingOf(tenant.get(`/apps/${tenant.appId}`))).toMatchObject({
    name: null,
    termsUrl: null,
    methodOrder: [],
  })
})

test('the pages of a branded app have its name, logo, colours and links, and their policy stays strict', async () => {
  const tenant = await service.newTenant()
  const hostile = `"><script>alert(1)</script><img src=x onerror='alert(2)'>`
  await brand(tenant, {
    ...LINKS,
    name: hostile,
    accentColor: '#1d4ed8',
    cornerRadius: 'round',
    colorScheme: 'dark',
    methodOrder: ['guest', 'passkey'],
  })
  await tenant.post(`/apps/${tenant.appId}/logo`, { png: png({}).toString('base64') })
  for (const page of [
    await open(tenant),
    await open(tenant, '/wallet'),
    await open(tenant, '/approve', '&id=apr_01jb2m7x9kq4t8v6w0r3s5y1zb'),
  ]) {
    expect(page.status).toBe(200)
    expect(page.text).toContain('<html lang="en" dir="ltr" data-theme="dark">')
    expect(page.text).toContain('<meta name="color-scheme" content="dark">')
    expect(page.text).toContain('width="4" height="2"')
    for (const url of Object.values(LINKS))
      expect(page.text).toContain(`<a href="${url.replace('&', '&amp;')}" target="_blank" rel="noopener noreferrer">`)
    expect(page.text.match(/<(?:script>|img )/g)).toHaveLength(1)
    expect(page.text).not.toMatch(/\sstyle=|<style/)
    const policy = page.headers.get('content-security-policy')
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("style-src 'self';")
    expect(policy).not.toContain('unsafe')
    expect(configOf(page)).toMatchObject({ appName: hostile, methodOrder: ['guest', 'passkey'] })
  }
  const page = await open(tenant)
  const styles = await call(origin, 'GET', addressOf(page, /href="(\/signin\/brand\.css[^"]*)"/))
  expect(styles.headers.get('content-type')).toContain('text/css')
  expect(styles.text).toContain('--radius: 16px;')
  expect(styles.text).toContain('--primary: light-dark(#1d4ed8, ')
})

test('a logo is under an address that names its content, for its own app alone', async () => {
  const [tenant, other] = [await service.newTenant(), await service.newTenant()]
  await tenant.post(`/apps/${tenant.appId}/logo`, { png: png({}).toString('base64') })
  const src = addressOf(await open(tenant), /<img src="(\/signin\/logo\.png[^"]*)"/)
  const logo = await fetch(`${origin}${src}`)
  expect([logo.status, logo.headers.get('content-type')]).toEqual([200, 'image/png'])
  expect(logo.headers.get('cache-control')).toContain('immutable')
  expect(logo.headers.get('x-content-type-options')).toBe('nosniff')
  expect(Buffer.from(await logo.arrayBuffer())).toEqual(png({}))
  await other.post(`/apps/${other.appId}/logo`, { png: png({ width: 8 }).toString('base64') })
  for (const wrong of [
    src.replace(tenant.appId, other.appId),
    src.replace(tenant.appId, 'app_none'),
    src.replace(/v=./, 'v=x'),
    src.replace(/&v=.*/, ''),
  ])
    expect((await fetch(`${origin}${wrong}`)).status, wrong).toBe(404)
  await tenant.delete(`/apps/${tenant.appId}/logo`)
  expect((await fetch(`${origin}${src}`)).status).toBe(404)
  expect((await open(tenant)).text).not.toContain('<img')
})

test('the preview is shown to the own origin alone, can be pressed nowhere, and calls nothing', async () => {
  const tenant = await service.newTenant()
  await brand(tenant, LINKS)
  // In whatever place the dashboard is: in development, it may be under an address.
  for (const at of [origin, service.url]) {
    const page = await call(
      at,
      'GET',
      `/signin/preview?app=${tenant.appId}&name=Evil&redirect_uri=https://evil.example/`,
    )
    expect(page.status).toBe(200)
    const directives = page.headers.get('content-security-policy')?.split('; ')
    for (const directive of [
      "default-src 'none'",
      "connect-src 'none'",
      "form-action 'none'",
      "frame-ancestors 'self'",
    ])
      expect(directives).toContain(directive)
    expect(page.headers.get('x-frame-options')).toBe('SAMEORIGIN')
    expect(page.text).toContain('<body inert>')
    expect(page.text).not.toContain('evil')
    expect(configOf(page)).toMatchObject({ preview: true, redirect: null, approval: null, connect: null })
  }
  const page = await open(tenant, '/signin', '&preview=true')
  expect(configOf(page).preview).toBe(false)
  expect(page.headers.get('x-frame-options')).toBe('DENY')
  expect((await call(origin, 'GET', '/signin/preview?app=app_none')).headers.get('x-frame-options')).toBe('DENY')
})

test('no address of the stylesheet puts words of others into it', async () => {
  for (const query of [
    'accent=red',
    'accent=1d4ed8;}body{display:none}',
    'accent=1d4ed8%0A',
    'accent=%231d4ed8',
    'corners=16px',
    'corners=constructor',
    'corners=rounded',
  ])
    expect((await call(origin, 'GET', `/signin/brand.css?${query}`)).status, query).toBe(404)
  const plain = await call(origin, 'GET', '/signin/brand.css?corners=square&more=}body{}')
  expect(plain.text).toBe(':root {\n  --radius: 0px;\n}\n')
})

test('an app without a brand, and a link that does not work, look as they do without one', async () => {
  const tenant = await service.newTenant()
  // The name of an app may have characters that turn the words around it: they are seen, and turn nothing.
  await tenant.patch(`/apps/${tenant.appId}`, { name: 'Shop \u202ekcab' })
  const page = await open(tenant)
  expect(configOf(page).appName).toBe('Shop \\u{202e}kcab')
  expect(page.text).not.toContain('\u202e')
  await brand(tenant, { ...LINKS, colorScheme: 'dark', accentColor: '#1d4ed8' })
  for (const { text } of [page, await open(tenant, '/signin', '&redirect_uri=https://evil.example/')]) {
    expect(text).toContain('<html lang="en" dir="ltr">')
    expect(text).toContain('class="monogram"')
    expect(text).not.toMatch(/brand\.css|<footer|<img/)
  }
})

test('whatever colour an app may choose, all that is drawn in it can be read, in light and in dark', () => {
  // All greys and a grid of colours, of which the app's schema takes those that white text is readable on.
  const steps = [0, 36, 73, 109, 146, 182, 219, 255]
  const hex = (value: number) => value.toString(16).padStart(2, '0')
  const grid = steps.flatMap((r) => steps.flatMap((g) => steps.map((b) => `#${hex(r)}${hex(g)}${hex(b)}`)))
  const greys = Array.from({ length: 0x77 }, (_, value) => `#${hex(value).repeat(3)}`)
  const allowed = [...grid, ...greys].filter((color) => contrastWithWhite(color) >= 4.5)
  expect(allowed.length).toBeGreaterThan(200)
  const grounds = { light: ['#ffffff', '#f1f2f6'], dark: ['#16191f', '#20242d'] }
  for (const color of allowed)
    for (const scheme of ['light', 'dark'] as const) {
      const { primary, primaryHover, accent, wash } = paletteOf(color, scheme)
      for (const ground of [primary, primaryHover])
        expect(contrastWithWhite(ground), `${color} ${scheme}`).toBeGreaterThanOrEqual(4.5)
      expect(contrast(primary, grounds[scheme][0] as string), `${color} ${scheme}`).toBeGreaterThanOrEqual(3)
      for (const ground of [...grounds[scheme], wash])
        expect(contrast(accent, ground), `${color} ${scheme}`).toBeGreaterThanOrEqual(4.5)
    }
})
