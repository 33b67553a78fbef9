import { make } from './dom.js'
import { showEmail } from './email.js'
import { walletButton } from './external-wallet.js'
import { icon } from './icons.js'
import { markLeaving, messengerHref } from './messenger.js'
import { endPrompts, login, offerAutofill, passkeysWork, register } from './passkeys.js'
import { providerButtons } from './provider.js'
import { showRecovery } from './recovery.js'
import { t } from './texts.js'
import { button, field, notice, onSubmit, runner } from './ui.js'

const NO_PASSKEYS = t`This browser cannot use passkeys. Use a newer browser, or choose another way to sign in.`

/**
 * The first view: sign in with a passkey, or in another way.
 * @param {import('./page.js').Page} page
 * @param {{ still?: boolean, said?: string, email?: string }} [options] `said`: what happened before
 */
export function showSignIn(page, { still = false, said, email = '' } = {}) {
  const place = notice()
  const address = field({
    label: t`Email`,
    optional: true,
    attributes: {
      name: 'email',
      type: 'email',
      autocomplete: 'username webauthn',
      inputmode: 'email',
      maxlength: 320,
      value: email,
    },
  })
  const submit = button({ label: t`Sign in with a passkey`, kind: 'primary', iconName: 'passkey', submit: true })
  const form = make('form', { class: 'stack' }, address.element, submit)
  const create = button({ label: t`Create an account`, kind: 'secondary' })
  const content = make('div', { class: 'stack' })
  const run = runner(content, place, { email: address })
  const offer = autofill(page, run, submit)

  onSubmit(form, () =>
    run(submit, t`Waiting for your passkey…`, async () => {
      try {
        page.signedIn(await login(page.client, address.input.value.trim()))
      } catch (error) {
        // The prompt took the place of the one that waited for the field.
        offer()
        throw error
      }
    }),
  )
  create.addEventListener('click', () => showSignUp(page, address.input.value.trim()))
  const able = passkeysWork()
  if (!able) place.say(NO_PASSKEYS)
  const before = notice()
  for (const kind of ['click', 'submit']) content.addEventListener(kind, () => before.clear(), { capture: true })
  // Who is asked to approve something has an account.
  const isNew = page.config.approval === null
  const passkey = able ? [form, ...(isNew ? [create] : [])] : []
  const ways = inOrder({ passkey, ...otherWays(page, run, address) }, page.config.methodOrder)
  content.append(
    before.element,
    ...(able ? [ways[0], place.element, ...ways.slice(1)] : [place.element, ...ways]),
    ...(page.config.recovery ? [lostPasskey(page, address)] : []),
  )
  if (page.config.methodOrder.length > 0) emphasizeFirst(content)
  const byPasskey = able && ways[0] === form
  page.show(
    [
      make('h1', { dir: 'auto' }, t`Sign in to ${page.config.appName}`),
      make(
        'p',
        { class: 'lead' },
        byPasskey ? t`Use your fingerprint, face or screen lock. No password.` : t`Choose how to sign in.`,
      ),
      content,
    ],
    { still },
  )
  if (said !== undefined) before.say(said)
  offer()
}

/**
 * @param {import('./page.js').Page} page
 * @param {ReturnType<typeof runner>} run
 * @param {HTMLElement} submit says that it is busy
 */
function autofill(page, run, submit) {
  const ended = new AbortController()
  return () => {
    if (page.config.preview) return
    page.whenLeft(() => {
      ended.abort()
      endPrompts()
    })
    offerAutofill(page.client, ended.signal, (finish) =>
      run(submit, t`Signing in…`, async () => page.signedIn(await finish())),
    ).catch(() => {
      // The button beside the field does the same, and tells what is wrong.
    })
  }
}

/**
 * For who lost their passkey.
 * @param {import('./page.js').Page} page
 * @param {ReturnType<typeof field>} address
 */
function lostPasskey(page, address) {
  const lost = button({ label: t`I lost my passkey`, kind: 'quiet' })
  lost.addEventListener('click', () => showRecovery(page, address.input.value.trim()))
  return lost
}

/** @typedef {'passkey' | 'email' | 'wallet' | 'provider' | 'messenger' | 'guest'} Way */

/** @type {Way[]} */
const USUAL_ORDER = ['passkey', 'email', 'wallet', 'provider', 'messenger', 'guest']

/**
 * The ways in as the app orders them, then the rest. A line divides the passkey, which has a field, from the others.
 * @param {Record<Way, HTMLElement[]>} ways
 * @param {Way[]} first
 */
function inOrder(ways, first) {
  const order = [...new Set([...first, ...USUAL_ORDER])]
  const at = ways.passkey.length === 0 ? order.length : order.indexOf('passkey')
  const parts = [order.slice(0, at), order.slice(at, at + 1), order.slice(at + 1)]
    .map((names) => names.flatMap((name) => ways[name]))
    .filter((part) => part.length > 0)
  return parts.flatMap((part, index) =>
    index === 0 ? part : [make('p', { class: 'divider' }, make('span', {}, t`or`)), ...part],
  )
}

/**
 * Makes the first way in the main button, and no other.
 * @param {HTMLElement} content
 */
function emphasizeFirst(content) {
  for (const control of content.querySelectorAll('.button.primary')) control.classList.replace('primary', 'secondary')
  content.querySelector('.button.secondary')?.classList.replace('secondary', 'primary')
}

/**
 * Email, external wallets, providers, messenger and guest.
 * @param {import('./page.js').Page} page
 * @param {ReturnType<typeof runner>} run
 * @param {ReturnType<typeof field>} address
 */
function otherWays(page, run, address) {
  const { config } = page
  // Some ways leave this page, and would come back without what it is about.
  const mayLeave = config.approval === null && !config.wallet
  const guest = button({ label: t`Continue as guest`, kind: 'secondary', iconName: 'guest' })
  guest.addEventListener('click', () =>
    run(guest, t`One moment…`, async () => page.signedIn(await page.client.call('POST', 'guests'))),
  )
  return {
    email: config.email ? [emailButton(page, address)] : [],
    wallet: config.externalWallets === null ? [] : [walletButton(page)],
    provider: mayLeave ? providerButtons(page, run) : [],
    messenger: mayLeave && config.messenger !== null ? [messengerLink(config.messenger)] : [],
    guest: mayLeave ? [guest] : [],
  }
}

/**
 * @param {import('./page.js').Page} page
 * @param {ReturnType<typeof field>} address
 */
function emailButton(page, address) {
  const byEmail = button({ label: t`Email me a code`, kind: 'secondary', iconName: 'mail' })
  byEmail.addEventListener('click', () => showEmail(page, address.input.value.trim()))
  return byEmail
}

/** @param {{ authUrl: string }} messenger */
function messengerLink({ authUrl }) {
  const link = make(
    'a',
    { class: 'button secondary', href: messengerHref(authUrl), rel: 'noreferrer' },
    icon('send'),
    make('span', { class: 'label' }, t`Continue with Telegram`),
  )
  link.addEventListener('click', markLeaving)
  return link
}

/**
 * @param {import('./page.js').Page} page
 * @param {string} email as typed in the view before
 */
function showSignUp(page, email) {
  const place = notice()
  const address = field({
    label: t`Email`,
    optional: true,
    hint: t`Identifies your account and lets the app contact you.`,
    attributes: {
      name: 'email',
      type: 'email',
      autocomplete: 'email',
      inputmode: 'email',
      maxlength: 320,
      value: email,
    },
  })
  const name = field({
    label: t`Name`,
    optional: true,
    attributes: { name: 'name', autocomplete: 'name', maxlength: 200 },
  })
  const submit = button({ label: t`Create a passkey`, kind: 'primary', iconName: 'passkey', submit: true })
  const back = button({ label: t`I already have an account`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, address.element, name.element, submit, place.element, back)
  const run = runner(form, place, { email: address, name })
  onSubmit(form, () =>
    run(submit, t`Waiting for your device…`, async () => {
      const person = Object.fromEntries(
        Object.entries({ email: address.input.value.trim(), name: name.input.value.trim() }).filter(
          ([, text]) => text !== '',
        ),
      )
      page.signedIn(await register(page.client, person))
    }),
  )
  back.addEventListener('click', () => showSignIn(page, { email: address.input.value.trim() }))
  page.show([
    make('h1', { dir: 'auto' }, t`Create your account`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`For ${page.config.appName}. Your device creates a passkey, so that you can sign in with your fingerprint, face or screen lock.`,
    ),
    form,
  ])
}
