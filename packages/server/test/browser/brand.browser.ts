import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { png } from '../../src/tenancy/apps/logo/png.fixture.ts'
import { violationsOf } from './accessibility.ts'
import { SMOKE, useSignIn } from './stage.ts'

const PHONE = { width: 390, height: 844 }
const LINKS = {
  termsUrl: 'https://shop.example.com/terms',
  privacyUrl: 'https://shop.example.com/privacy',
  supportUrl: 'https://shop.example.com/help',
}

const { arrive } = useSignIn()

/** Rows of one colour, each after its filter's byte. */
const LOGO = png({
  width: 320,
  height: 80,
  raw: Buffer.alloc((1 + 3 * 320) * 80, Buffer.from([0, ...Array(960).fill(0x8c)])),
})

const words = (page: Page) => page.getByRole('main').getByRole('button').allTextContents()
const groundsOf = (page: Page) =>
  page.evaluate(
    `[...document.querySelectorAll('main .button')].map((button) => getComputedStyle(button).backgroundColor)`,
  )

test(
  'a branded page has the logo, the colours, the links and the order of the app, in light and in dark on a phone',
  SMOKE,
  async () => {
    const { ada, page, tenant } = await arrive({
      app: {
        email: { enabled: true },
        branding: {
          name: 'Shop',
          accentColor: '#0f766e',
          cornerRadius: 'round',
          methodOrder: ['email', 'guest'],
          ...LINKS,
        },
      },
    })
    expect((await tenant.post(`/apps/${tenant.appId}/logo`, { png: LOGO.toString('base64') })).status).toBe(200)
    await page.setViewportSize(PHONE)
    await page.reload()
    await page.getByRole('heading', { name: 'Sign in to Shop' }).waitFor()
    expect(await words(page)).toEqual([
      'Email me a code',
      'Continue as guest',
      'Sign in with a passkey',
      'Create an account',
    ])
    await page.getByRole('banner').getByRole('img', { name: 'Shop' }).waitFor()
    const size = '[document.images[0].naturalWidth, document.images[0].width, document.images[0].height]'
    expect(await page.evaluate(size)).toEqual([320, 192, 48])
    expect(await groundsOf(page)).toEqual(['rgb(15, 118, 110)', ...Array(3).fill('rgb(255, 255, 255)')])
    for (const [name, href] of [
      ['Terms', LINKS.termsUrl],
      ['Privacy', LINKS.privacyUrl],
      ['Support', LINKS.supportUrl],
    ] as const)
      expect(await page.getByRole('contentinfo').getByRole('link', { name }).getAttribute('href')).toBe(href)
    await ada.look('branded')
    await page.setViewportSize(PHONE)
    // The darkest colour that an app can choose, in both schemes; the app's own choice of one counts more than the browser's.
    await tenant.patch(`/apps/${tenant.appId}`, { branding: { accentColor: '#000000', methodOrder: [] } })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await page.reload()
      await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor()
      expect(await violationsOf(page, 'colours'), colorScheme).toEqual([])
    }
    await ada.look('branded-black')
    await tenant.patch(`/apps/${tenant.appId}`, { branding: { colorScheme: 'dark' } })
    await page.emulateMedia({ colorScheme: 'light' })
    await page.reload()
    await page.getByRole('button', { name: 'Continue as guest' }).click()
    await page.getByRole('heading', { name: 'Save your account' }).waitFor()
    expect(await page.evaluate('getComputedStyle(document.body).colorScheme')).toBe('dark')
    expect(await violationsOf(page)).toEqual([])
    await ada.look('branded-dark')
  },
)
