import { ApiError } from './client.js'
import { focusOn, make } from './dom.js'
import { pageUrl } from './leaving.js'
import { digitsOf } from './mfa-form.js'
import { passkeysWork, register } from './passkeys.js'
import { endUnused } from './session.js'
import { showSignIn } from './sign-in.js'
import { t } from './texts.js'
import { button, field, notice, onSubmit, runner } from './ui.js'
import { Refused } from './words.js'

const LINK_CHARS_MAX = 2_000

/**
 * What this browser asked for: only it has the challenge, which the email does not contain. In the browser's storage, because
 * the link in the email opens another tab.
 * @typedef {{ challengeId: string, email: string, expiresAt: string }} Pending
 */

/** @param {import('./page.js').Page} page */
const nameOf = (page) => `halfkey.email.${page.config.appId}`

/**
 * @param {import('./page.js').Page} page
 * @param {Pending | null} pending
 */
function keep(page, pending) {
  try {
    if (pending === null) localStorage.removeItem(nameOf(page))
    else localStorage.setItem(nameOf(page), JSON.stringify(pending))
  } catch {
    // No storage in this browser: the code is typed then.
  }
}

/**
 * @param {import('./page.js').Page} page
 * @returns {Pending | null}
 */
function kept(page) {
  try {
    const pending = JSON.parse(localStorage.getItem(nameOf(page)) ?? 'null')
    return pending !== null && Date.parse(pending.expiresAt) > Date.now() ? pending : null
  } catch {
    return null
  }
}

/** This page as the email links to it; undefined if it is too long for a link. */
function linkUrl(/** @type {string} */ appId) {
  const href = pageUrl(appId)
  return href.length > LINK_CHARS_MAX ? undefined : href
}

/**
 * Has a code sent by an email in the page's language.
 * @param {import('./page.js').Page} page
 * @param {{ email: string, purpose?: string, linkUrl?: string | undefined }} asked
 */
export function startEmail({ client, config: { emailLanguage } }, asked) {
  return client.call('POST', 'auth/email/start', emailLanguage === null ? asked : { ...asked, language: emailLanguage })
}

/**
 * Sends a code, and shows where to type it.
 * @param {import('./page.js').Page} page
 * @param {string} email
 */
async function send(page, email) {
  const { challengeId, expiresAt } = await startEmail(page, {
    email,
    linkUrl: linkUrl(page.config.appId),
  })
  const pending = { challengeId, email, expiresAt }
  keep(page, pending)
  showCode(page, pending)
}

/**
 * The field for an email address.
 * @param {string} value what it begins with
 */
export const addressField = (value) =>
  field({
    label: t`Email`,
    attributes: { name: 'email', type: 'email', autocomplete: 'email', inputmode: 'email', maxlength: 320, value },
  })

/**
 * Asks for the address that a code is sent to.
 * @param {import('./page.js').Page} page
 * @param {string} typed in the view before
 */
export function showEmail(page, typed) {
  const place = notice()
  const address = addressField(typed)
  const submit = button({ label: t`Send code`, kind: 'primary', iconName: 'mail', submit: true })
  const back = button({ label: t`Sign in another way`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, address.element, submit, place.element, back)
  const run = runner(form, place, { email: address })
  onSubmit(form, () => {
    const email = address.input.value.trim()
    if (email === '') return address.refuse(t`Enter your email address.`)
    run(submit, t`Sending…`, () => send(page, email))
  })
  back.addEventListener('click', () => showSignIn(page, { email: address.input.value.trim() }))
  page.show([
    make('h1', { dir: 'auto' }, t`Sign in to ${page.config.appName}`),
    make('p', { class: 'lead' }, t`We send you an email with a code of 6 digits.`),
    form,
  ])
  if (typed === '') focusOn(address.input)
}

/**
 * Signs in with a code.
 * @param {import('./page.js').Page} page
 * @param {Pending} pending
 * @param {string} code
 * @param {boolean} [newAccount]
 */
async function verify(page, pending, code, newAccount = false) {
  const { challengeId } = pending
  let result
  try {
    const body = newAccount ? { challengeId, code, newAccount } : { challengeId, code }
    result = await page.client.call('POST', 'auth/email/verify', body)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'email_not_linked') return showNotLinked(page, pending, code, error)
    throw codeRefusal(error)
  }
  keep(page, null)
  if (result.isNewUser && passkeysWork()) offerPasskey(page, result)
  else page.signedIn(result)
}

/**
 * What is wrong with a code out of an email, in words for it; any other error as it is.
 * @param {unknown} error
 * @param {string} [address] where the code was sent, if there is another one beside it
 */
export function codeRefusal(error, address) {
  if (!(error instanceof ApiError)) return error
  if (error.code === 'challenge_expired') return new Refused(t`This code is no longer valid. Ask for a new one.`)
  if (error.code !== 'invalid_code') return error
  const wrong = address === undefined ? t`That code is incorrect.` : t`The code sent to ${address} is incorrect.`
  const left = error.details[0]?.attemptsRemaining ?? 0
  const next = left === 0 ? t`It was the last attempt: ask for a new code.` : t`Attempts left: ${left}`
  return new Refused(`${wrong} ${next}`, 'code')
}

/**
 * Where the code is typed.
 * @param {import('./page.js').Page} page
 * @param {Pending} pending
 * @param {{ filled?: string }} [options] `filled`: the code of the link that was opened, which is tried at once
 */
function showCode(page, pending, { filled = '' } = {}) {
  const place = notice()
  const code = field({
    label: t`6-digit code`,
    attributes: {
      name: 'code',
      autocomplete: 'one-time-code',
      inputmode: 'numeric',
      maxlength: 12,
      class: 'input code',
      value: filled,
    },
  })
  const submit = button({ label: t`Sign in`, kind: 'primary', submit: true })
  const again = button({ label: t`Send a new code`, kind: 'quiet' })
  const back = button({ label: t`Sign in another way`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, code.element, submit, place.element, again, back)
  const run = runner(form, place, { code })
  const go = () => {
    const digits = digitsOf(code.input.value)
    if (!/^\d{6}$/.test(digits)) return code.refuse(t`Enter the 6 digits from the email.`)
    run(submit, t`Signing in…`, () => verify(page, pending, digits))
  }
  onSubmit(form, go)
  again.addEventListener('click', () =>
    run(again, t`Sending…`, async () => {
      await send(page, pending.email)
    }),
  )
  back.addEventListener('click', () => showSignIn(page, { email: pending.email }))
  page.show([
    make('h1', {}, t`Check your email`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`Enter the code that we sent to ${pending.email}. It is valid for 10 minutes. Look in your spam folder too.`,
    ),
    form,
  ])
  focusOn(code.input)
  if (filled !== '') go()
}

/**
 * The code is right, and the account with this address was there before anybody confirmed the address.
 * @param {import('./page.js').Page} page
 * @param {Pending} pending
 * @param {string} code
 * @param {ApiError & { details: { canStartNew?: boolean }[] }} error
 */
function showNotLinked(page, pending, code, error) {
  const place = notice()
  const own = button({ label: t`Sign in to my account`, kind: 'primary' })
  const fresh = button({ label: t`Create a new account`, kind: 'secondary' })
  const canStartNew = error.details[0]?.canStartNew === true
  const content = make('div', { class: 'stack' }, own, canStartNew && fresh, place.element)
  const run = runner(content, place)
  own.addEventListener('click', () => showSignIn(page, { email: pending.email }))
  fresh.addEventListener('click', () => run(fresh, t`One moment…`, () => verify(page, pending, code, true)))
  const words = t`There is an account that names ${pending.email}, but nobody has confirmed it by email yet. If the account is yours, sign in as before, for example with your passkey.`
  page.show([
    make('h1', {}, t`Is this your account?`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      canStartNew ? `${words} ${t`If it is not, create a new account.`}` : words,
    ),
    content,
  ])
}

/**
 * A new account has only a mailbox, or an account elsewhere, to come back with: a passkey is safer and faster.
 * @param {import('./page.js').Page} page
 * @param {any} result of the sign-in
 */
export function offerPasskey(page, result) {
  page.client.adopt(result)
  const place = notice()
  const add = button({ label: t`Create a passkey`, kind: 'primary', iconName: 'passkey' })
  const later = button({ label: t`Not now`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, add, later, place.element)
  const run = runner(content, place)
  add.addEventListener('click', () =>
    run(add, t`Waiting for your device…`, async () => {
      // The session that the passkey begins takes the place of the one by email, which reaches less from now on.
      const stronger = await register(page.client, {})
      await endUnused(page, result)
      page.signedIn(stronger)
    }),
  )
  later.addEventListener('click', () => page.signedIn(result))
  page.show([
    make('h1', {}, t`Sign in faster next time`),
    make(
      'p',
      { class: 'lead' },
      t`Create a passkey to sign in with your fingerprint, face or screen lock, and nothing else.`,
    ),
    content,
  ])
}

/**
 * Takes up the link of an email. Opening it does nothing by itself: the browser that asked finishes with the challenge that it
 * kept, and any other one shows the code.
 * @param {import('./page.js').Page} page
 * @returns {boolean} whether there was one
 */
export function resumeEmail(page) {
  const code = new URLSearchParams(location.hash.slice(1)).get('email_code')
  if (code === null) return false
  // What signs somebody in must not stay in the address bar and the history.
  history.replaceState(null, '', location.pathname + location.search)
  if (!/^\d{6}$/.test(code) || !page.config.email) return false
  const pending = kept(page)
  if (pending !== null) showCode(page, pending, { filled: code })
  else showCodeElsewhere(page, code)
  return true
}

/**
 * @param {import('./page.js').Page} page
 * @param {string} code
 */
function showCodeElsewhere(page, code) {
  const here = button({ label: t`Sign in here instead`, kind: 'quiet' })
  here.addEventListener('click', () => showSignIn(page))
  page.show(
    [
      make('h1', {}, t`Your code`),
      make(
        'p',
        { class: 'lead', dir: 'auto' },
        t`Type this code in the browser in which you asked ${page.config.appName} for it. Never give it to anybody who asks you for it.`,
      ),
      make('p', { class: 'shown-code' }, code),
      make('div', { class: 'stack' }, here),
    ],
    { still: true },
  )
}
