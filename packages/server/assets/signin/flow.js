import { showAccount } from './account.js'
import { showApproval } from './approval.js'
import { showConnect } from './connect.js'
import { focusOn, make } from './dom.js'
import { mayOpen } from './leaving.js'
import { mfaForm } from './mfa-form.js'
import { endPrompts } from './passkeys.js'
import { endSession } from './session.js'
import { showSignIn } from './sign-in.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'
import { showWallet } from './wallet.js'

/**
 * Goes on after any sign-in: second factor, if there is one, then back to the app or to the account. A link from an app
 * always leads back to it: there the account is out of the way.
 * @param {import('./page.js').Page} page
 * @param {any} result what the sign-in answered: `user`, or a guest's record, and tokens
 */
export function signedIn(page, result) {
  endPrompts()
  page.client.adopt(result)
  page.user = result.user ?? { id: result.userId, email: null, name: null, mfaEnabled: false, createdAt: null }
  page.guest = result.user === undefined ? result : null
  if (page.user.mfaEnabled) showSecondStep(page)
  else goOn(page)
}

/** @param {import('./page.js').Page} page */
export function goOn(page) {
  if (page.config.approval !== null) showApproval(page)
  else if (page.config.connect !== null) showConnect(page)
  else if (page.config.wallet) showWallet(page)
  else if (page.config.redirect === null) showAccount(page)
  else showReturning(page)
}

/**
 * @param {import('./page.js').Page} page
 * @param {string} said
 */
export function startAgain(page, said) {
  page.client.forget()
  page.user = null
  page.guest = null
  showSignIn(page, { said })
}

/** @param {import('./page.js').Page} page */
function showSecondStep(page) {
  const form = mfaForm(page.client, async () => goOn(page))
  const place = notice()
  const leave = button({ label: t`Cancel and sign out`, kind: 'quiet' })
  const exit = make('div', { class: 'stack' }, leave, place.element)
  const run = runner(exit, place)
  leave.addEventListener('click', () =>
    run(leave, t`Signing out…`, async () => {
      await endSession(page)
      startAgain(page, t`You are signed out.`)
    }),
  )
  page.show([
    make('h1', {}, t`Two-step verification`),
    make('p', { class: 'lead' }, t`One more step: enter the code that your authenticator app shows now.`),
    form.element,
    exit,
  ])
  focusOn(form.input)
}

/**
 * The app's URL with the code and state added to its query, the rest of it unchanged to the letter.
 * @param {{ uri: string, state: string | null }} redirect
 * @param {string} code
 */
function destinationOf(redirect, code) {
  const added = new URLSearchParams({ code })
  if (redirect.state !== null) added.set('state', redirect.state)
  const joint = redirect.uri.includes('?') ? (/[?&]$/.test(redirect.uri) ? '' : '&') : '?'
  return `${redirect.uri}${joint}${added}`
}

/** @param {import('./page.js').Page} page */
function showReturning(page) {
  const { redirect, appName } = page.config
  const url = URL.parse(redirect.uri)
  const place = notice()
  const again = button({ label: t`Try again`, kind: 'primary' })
  const onward = make('div', { class: 'stack' })
  const content = make('div', { class: 'stack' }, place.element, onward)
  const run = runner(content, place)
  const go = () =>
    run(null, '', async () => {
      onward.replaceChildren(again)
      if (!mayOpen(redirect.uri)) throw new Error('not a place to go')
      const body = { redirectUri: redirect.uri, codeChallenge: redirect.codeChallenge }
      const { code } = await withStepUp(page, () => page.client.call('POST', 'code', body))
      const href = destinationOf(redirect, code)
      // Apps open by a custom scheme only at a tap in some browsers: the link stays, whatever the next line does.
      onward.replaceChildren(make('a', { class: 'button secondary', href, rel: 'noreferrer' }, t`Continue`))
      location.replace(href)
    })
  again.addEventListener('click', go)
  page.show([
    make('h1', { dir: 'auto' }, t`Taking you back to ${url?.host || appName}…`),
    make('p', { class: 'lead' }, t`You are signed in.`),
    content,
  ])
  go()
}
