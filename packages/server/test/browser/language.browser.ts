import { expect, test } from 'vitest'
import { inLanguage } from '../../src/identity/sign-in/language.ts'
import { call, eventually } from '../harness/harness.ts'
import { SMOKE, useSignIn } from './stage.ts'

const stage = useSignIn()
const PHONE = { width: 390, height: 844 }

test.each(['de', 'ar'] as const)(
  'in %s, somebody signs up with a code on a phone, makes a passkey, and reads every step in their language',
  SMOKE,
  async (language) => {
    const t = (english: string, value = '') =>
      inLanguage(language, english).replace('{0}', language === 'ar' ? `\u2068${value}\u2069` : value)
    const app = { email: { enabled: true } }
    const { ada, page, tenant } = await stage.arrive({ app, query: { ui_locales: language } })
    await page.setViewportSize(PHONE)
    await page.getByRole('heading', { name: t('Sign in to {0}', 'Acme Wallet') }).waitFor()
    expect(await page.evaluate('getComputedStyle(document.body).direction')).toBe(language === 'ar' ? 'rtl' : 'ltr')
    await ada.look(`language-${language}-first`)
    await page.getByRole('button', { name: t('Email me a code') }).click()
    await page.getByRole('button', { name: t('Send code') }).click()
    await page.getByText(t('Enter your email address.')).waitFor()
    await page.getByLabel(t('Email'), { exact: true }).fill('ada@example.com')
    await page.getByRole('button', { name: t('Send code') }).click()
    await page.getByRole('heading', { name: t('Check your email') }).waitFor()
    const { code, language: emailed } = await eventually('the email', async () => {
      const { body } = await call(stage.service.url, 'GET', '/dev/mail.json')
      return body.find((mail: { appId: string }) => mail.appId === tenant.appId)
    })
    if (language === 'de') expect(emailed).toBe('de')
    await page.getByLabel(t('6-digit code')).fill(code === '000000' ? '000001' : '000000')
    await page.getByRole('button', { name: t('Sign in'), exact: true }).click()
    await page.getByText(`${t('That code is incorrect.')} ${t('Attempts left: {0}', '4')}`).waitFor()
    await ada.look(`language-${language}-code`)
    await page.getByLabel(t('6-digit code')).fill(code)
    await page.getByRole('button', { name: t('Sign in'), exact: true }).click()
    await page.getByRole('heading', { name: t('Sign in faster next time') }).waitFor()
    await page.getByRole('button', { name: t('Create a passkey') }).click()
    await page.getByText(t('This device'), { exact: true }).waitFor()
    await ada.look(`language-${language}-account`)
    // Everything that the page has is in the language: names and times aside, there is nothing left of the English texts.
    const shown = await page.evaluate('document.body.innerText')
    for (const english of ['Sign out', 'Add a passkey', 'Two-step verification', 'Where you are signed in'])
      expect(shown, english).not.toContain(english)
  },
)

test('another language is chosen on the page, until somebody has signed in', async () => {
  const { ada, page } = await stage.arrive({ query: { state: 'kept' } })
  await page.getByRole('combobox', { name: 'Language' }).selectOption('fr')
  await page.getByRole('button', { name: inLanguage('fr', 'Sign in with a passkey') }).waitFor()
  expect(new URL(page.url()).searchParams.get('state')).toBe('kept')
  await page.getByRole('combobox', { name: 'Langue' }).selectOption('en')
  await page.getByRole('button', { name: 'Create an account' }).click()
  await page.getByRole('button', { name: 'Create a passkey' }).click()
  await page.getByText('This device', { exact: true }).waitFor()
  expect(await page.getByRole('combobox').count()).toBe(0)
  await ada.look('language-signed-in')
})
