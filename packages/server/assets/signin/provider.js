import { make } from './dom.js'
import { offerPasskey } from './email.js'
import { markReturn, pageUrl, takeReturn } from './leaving.js'
import { passkeysWork } from './passkeys.js'
import { showSignIn } from './sign-in.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'

/** The server's redirect URLs have at most so many characters. */
const URL_CHARS_MAX = 2_048

/** Why a provider's sign-in came back without one. The rest is told in general words. */
const REFUSALS = new Map([
  ['access_denied', t`You did not continue there, so you are not signed in. You can try again.`],
  ['identity_unknown', t`No account here is linked to that sign-in. Sign in another way.`],
  ['user_suspended', t`This account is suspended. Please contact the app’s support.`],
  ['sign_in_refused', t`This app does not let you sign in now. Please contact the app’s support.`],
  ['sign_in_hook_failed', t`You cannot sign in right now. Please try again in a minute.`],
  ['guest_expired', t`This guest session has ended. Go back and start again.`],
])

/**
 * A button for each provider.
 * @param {import('./page.js').Page} page
 * @param {ReturnType<typeof runner>} run
 */
export function providerButtons(page, run) {
  return page.config.providers.map(({ id, name }) => {
    const go = button({ label: t`Continue with ${name}`, kind: 'secondary', iconName: 'person' })
    go.addEventListener('click', () => run(go, t`One moment…`, () => leaveFor(page, id)))
    return go
  })
}

/** @param {ArrayBuffer | Uint8Array} bytes */
const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=+$/, '')

/**
 * Goes to the provider. This tab keeps the verifier of the code that comes back, so that no other one can use it, and nobody can
 * send this one a code of theirs.
 * @param {import('./page.js').Page} page
 * @param {string} id
 */
async function leaveFor(page, id) {
  const redirectUrl = pageUrl(page.config.appId)
  if (redirectUrl.length > URL_CHARS_MAX) throw new Error('the address of this page is too long to come back to')
  const codeVerifier = base64url(crypto.getRandomValues(new Uint8Array(32)))
  const codeChallenge = base64url(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(codeVerifier)))
  const { authorizationUrl } = await page.client.call('POST', `auth/providers/${id}/start`, {
    redirectUrl,
    codeChallenge,
  })
  markReturn(page.config.appId, { codeVerifier, redirectUrl })
  location.assign(authorizationUrl)
  // Until the browser has left, the button stays busy.
  await new Promise(() => undefined)
}

/**
 * Takes up a sign-in that came back from a provider.
 * @param {import('./page.js').Page} page
 * @returns {boolean} whether there was one
 */
export function resumeProvider(page) {
  const kept = takeReturn(page.config.appId)
  const query = new URLSearchParams(location.search)
  // Ours are the last ones: a link to this page may have others before them.
  const [code, error] = [query.getAll('code').at(-1), query.getAll('error').at(-1)]
  if (code === undefined && error === undefined) return false
  if (kept === null) {
    // What signs somebody in must not stay in the address bar and the history.
    query.delete('code')
    query.delete('error')
    history.replaceState(null, '', `${location.pathname}?${query}`)
    return false
  }
  history.replaceState(null, '', kept.redirectUrl)
  if (code === undefined) {
    showSignIn(page, {
      still: true,
      said: REFUSALS.get(error ?? '') ?? t`That sign-in did not work. Please try again.`,
    })
    return true
  }
  finish(page, { code, ...kept })
  return true
}

/**
 * @param {import('./page.js').Page} page
 * @param {{ code: string, codeVerifier: string, redirectUrl: string }} returned
 */
function finish(page, { code, codeVerifier, redirectUrl }) {
  const place = notice()
  const back = button({ label: t`Sign in another way`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, place.element, back)
  back.addEventListener('click', () => showSignIn(page))
  const run = runner(content, place)
  page.show([make('h1', { dir: 'auto' }, t`Signing in to ${page.config.appName}`), content], { still: true })
  run(null, '', async () => {
    const body = { code, codeVerifier, redirectUri: redirectUrl }
    const result = await page.client.call('POST', 'auth/exchange', body)
    if (result.isNewUser && passkeysWork()) offerPasskey(page, result)
    else page.signedIn(result)
  })
}
