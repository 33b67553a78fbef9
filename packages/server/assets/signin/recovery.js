import { ApiError } from './client.js'
import { focusOn, make } from './dom.js'
import { addressField, codeRefusal, showEmail, startEmail } from './email.js'
import { digitsOf } from './mfa-form.js'
import { passkeysWork, registerWith } from './passkeys.js'
import { showSignIn } from './sign-in.js'
import { locale, t } from './texts.js'
import { button, field, notice, onSubmit, runner } from './ui.js'

const NO_PASSKEYS = t`This browser cannot create passkeys. Open this page in a newer one.`

/**
 * Asks for the address of an account whose passkeys are lost.
 * @param {import('./page.js').Page} page
 * @param {string} typed in the view before
 */
export function showRecovery(page, typed) {
  const place = notice()
  const address = addressField(typed)
  const submit = button({ label: t`Send code`, kind: 'primary', iconName: 'mail', submit: true })
  const back = button({ label: t`Back to signing in`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, address.element, submit, place.element, back)
  const run = runner(form, place, { email: address })
  onSubmit(form, () => {
    const email = address.input.value.trim()
    if (email === '') return address.refuse(t`Enter the email address of your account.`)
    run(submit, t`Sending…`, () => send(page, email))
  })
  back.addEventListener('click', () => showSignIn(page, { email: address.input.value.trim() }))
  page.show([
    make('h1', {}, t`Lost your passkey?`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`Get a new one for your account at ${page.config.appName}, if you confirmed an email address. For your safety this takes some days: we tell you by email, and you can stop it at any time if it was not you. Do you have another device with your passkey? Then sign in there instead.`,
    ),
    form,
  ])
  if (typed === '') focusOn(address.input)
}

/**
 * @param {import('./page.js').Page} page
 * @param {string} email
 */
async function send(page, email) {
  const { challengeId } = await startEmail(page, { email, purpose: 'recovery' })
  showCode(page, { challengeId, email })
}

/**
 * @param {import('./page.js').Page} page
 * @param {{ challengeId: string, email: string }} asked
 */
function showCode(page, { challengeId, email }) {
  const place = notice()
  const code = field({
    label: t`6-digit code`,
    attributes: {
      name: 'code',
      autocomplete: 'one-time-code',
      inputmode: 'numeric',
      maxlength: 12,
      class: 'input code',
    },
  })
  const submit = button({ label: t`Continue`, kind: 'primary', submit: true })
  const again = button({ label: t`Send a new code`, kind: 'quiet' })
  const back = button({ label: t`Back to signing in`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, code.element, submit, place.element, again, back)
  const run = runner(form, place, { code })
  onSubmit(form, () => {
    const digits = digitsOf(code.input.value)
    if (!/^\d{6}$/.test(digits)) return code.refuse(t`Enter the 6 digits from the email.`)
    run(submit, t`Checking…`, () => prove(page, { challengeId, code: digits }, email))
  })
  again.addEventListener('click', () => run(again, t`Sending…`, () => send(page, email)))
  back.addEventListener('click', () => showSignIn(page, { email }))
  page.show([
    make('h1', {}, t`Check your email`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`If an account has confirmed ${email}, we sent a code there. It is valid for 10 minutes. Look in your spam folder too.`,
    ),
    form,
  ])
  focusOn(code.input)
}

/**
 * @param {import('./page.js').Page} page
 * @param {{ challengeId: string, code: string }} answer
 * @param {string} email
 */
async function prove(page, answer, email) {
  let step
  try {
    step = await page.client.call('POST', 'auth/email/recovery', answer)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'recovery_not_needed') return showNotNeeded(page, error, email)
    throw codeRefusal(error)
  }
  if (step.registration === null) showWaiting(page, step.recovery)
  else showNewPasskey(page, step.registration)
}

/** @param {string} at */
const timeWords = (at) => new Date(at).toLocaleString(locale, { dateStyle: 'full', timeStyle: 'short' })

/**
 * The wait, and until when.
 * @param {import('./page.js').Page} page
 * @param {{ availableAt: string }} recovery
 */
function showWaiting(page, { availableAt }) {
  const back = button({ label: t`Back to signing in`, kind: 'secondary' })
  back.addEventListener('click', () => showSignIn(page))
  page.show([
    make('h1', {}, t`Your request is waiting`),
    make('p', { class: 'lead' }, t`You can create a new passkey from this time on:`),
    make('p', { class: 'until' }, make('time', { datetime: availableAt }, timeWords(availableAt))),
    make(
      'p',
      { class: 'lead' },
      t`Come back then, choose “I lost my passkey” again, and enter a new code. We sent you an email about this, and remind you before the time has come. Signing in with an old passkey stops the request.`,
    ),
    make('div', { class: 'stack' }, back),
  ])
}

/**
 * The wait is over.
 * @param {import('./page.js').Page} page
 * @param {{ challengeId: string, publicKey: any }} registration
 */
function showNewPasskey(page, registration) {
  const place = notice()
  const create = button({ label: t`Create a passkey`, kind: 'primary', iconName: 'passkey' })
  const back = button({ label: t`Not now`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, create, place.element, back)
  const run = runner(content, place)
  create.addEventListener('click', () =>
    run(create, t`Waiting for your device…`, async () => page.signedIn(await registerWith(page.client, registration))),
  )
  back.addEventListener('click', () => showSignIn(page))
  if (!passkeysWork()) {
    create.disabled = true
    place.say(NO_PASSKEYS)
  }
  page.show([
    make('h1', {}, t`Create your new passkey`),
    make(
      'p',
      { class: 'lead' },
      t`It opens your account with your fingerprint, face or screen lock. Everybody who is signed in to your account now is signed out.`,
    ),
    content,
  ])
}

/**
 * @param {import('./page.js').Page} page
 * @param {ApiError} error
 * @param {string} email
 */
function showNotNeeded(page, error, email) {
  const hasFactor = error.details[0]?.code === 'second_factor'
  const go = button({ label: t`Email me a code`, kind: 'primary', iconName: 'mail' })
  go.addEventListener('click', () => showEmail(page, email))
  page.show([
    make('h1', {}, hasFactor ? t`Use your second factor` : t`You can sign in by email`),
    make(
      'p',
      { class: 'lead' },
      hasFactor
        ? t`Your account has two-step verification. Sign in with a code by email, then add a passkey: that asks for a code of your authenticator app, or one of your recovery codes.`
        : t`Your account has no passkey yet. Sign in with a code by email, then create one.`,
    ),
    make('div', { class: 'stack' }, go),
  ])
}

/**
 * Takes up the link of a notice. Opening it stops nothing: programs that check emails open links too.
 * @param {import('./page.js').Page} page
 * @returns {boolean} whether there was one
 */
export function resumeRecovery(page) {
  const token = new URLSearchParams(location.hash.slice(1)).get('cancel_recovery')
  if (token === null) return false
  history.replaceState(null, '', location.pathname + location.search)
  showStop(page, token)
  return true
}

/**
 * @param {import('./page.js').Page} page
 * @param {string} token
 */
function showStop(page, token) {
  const place = notice()
  const stop = button({ label: t`Stop the recovery`, kind: 'primary' })
  const keep = button({ label: t`It was me`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, stop, place.element, keep)
  const run = runner(content, place)
  stop.addEventListener('click', () =>
    run(stop, t`One moment…`, async () =>
      showStopped(page, await page.client.call('POST', 'auth/email/recovery/cancel', { token })),
    ),
  )
  keep.addEventListener('click', () => showSignIn(page))
  page.show(
    [
      make('h1', {}, t`Did you ask for a new passkey?`),
      make(
        'p',
        { class: 'lead', dir: 'auto' },
        t`Somebody who reads your mailbox asked for a new passkey of your account at ${page.config.appName}. If it was not you, stop it.`,
      ),
      content,
    ],
    { still: true },
  )
}

/**
 * @param {import('./page.js').Page} page
 * @param {{ status: string }} recovery
 */
function showStopped(page, { status }) {
  const back = button({ label: t`Sign in`, kind: 'secondary' })
  back.addEventListener('click', () => showSignIn(page))
  const isLate = status === 'completed'
  page.show([
    make('h1', {}, isLate ? t`It was already completed` : t`Stopped`),
    make(
      'p',
      { class: 'lead' },
      isLate
        ? t`The account has its new passkey already. If that was not you, contact the app’s support at once.`
        : t`Nobody gets a new passkey. Change the password of your mailbox: somebody else may read it.`,
    ),
    make('div', { class: 'stack' }, back),
  ])
}
