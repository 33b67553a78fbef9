import { make } from './dom.js'
import { resumeEmail } from './email.js'
import { cameFromHere, readReturn } from './messenger.js'
import { resumeProvider } from './provider.js'
import { resumeRecovery } from './recovery.js'
import { showSignIn } from './sign-in.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'

/**
 * Takes up a sign-in by email, provider or messenger that the page was opened with.
 * @param {import('./page.js').Page} page
 * @returns {boolean} whether there was one
 */
export function resume(page) {
  if (resumeEmail(page) || resumeProvider(page) || resumeRecovery(page)) return true
  const returned = readReturn(location.hash)
  if (returned === null) return false
  // What signs somebody in must not stay in the address bar and the history.
  history.replaceState(null, '', location.pathname + location.search)
  if (page.config.messenger === null) return false
  if (returned.payload === null) {
    showSignIn(page, { still: true, said: t`Telegram did not sign you in. You can try again.` })
    return true
  }
  showContinue(page, returned.payload, returned.displayName, cameFromHere())
  return true
}

/**
 * Signs in with what the messenger said. Where it was not this tab that asked for it, the person is asked first:
 * a link somebody sent must not sign them in to the sender's account.
 * @param {import('./page.js').Page} page
 * @param {object} payload
 * @param {string | null} displayName
 * @param {boolean} asked
 */
function showContinue(page, payload, displayName, asked) {
  const place = notice()
  const confirm = button({ label: asked ? t`Try again` : t`Continue`, kind: 'primary', iconName: 'send' })
  const other = button({ label: t`Sign in another way`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, confirm, other, place.element)
  const run = runner(content, place)
  const { appName } = page.config
  const title = displayName === null ? t`Continue?` : t`Continue as ${displayName}?`
  const lead =
    displayName === null
      ? t`Telegram signs you in to ${appName}.`
      : t`Telegram signs you in to ${appName} as ${displayName}.`
  const go = () =>
    run(confirm, t`Signing in…`, async () =>
      page.signedIn(await page.client.call('POST', 'auth/messenger/verify', payload)),
    )
  confirm.addEventListener('click', go)
  other.addEventListener('click', () => showSignIn(page))
  page.show(
    [
      make('h1', { dir: 'auto' }, asked ? t`Signing in to ${appName}` : title),
      make('p', { class: 'lead', dir: 'auto' }, asked ? t`Checking with Telegram.` : lead),
      content,
    ],
    { still: true },
  )
  if (asked) go()
}
