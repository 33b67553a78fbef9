import { make } from './dom.js'
import { emailPart } from './email-part.js'
import { saveAccountPart } from './guest.js'
import { passkeysPart } from './passkey-list.js'
import { endSession } from './session.js'
import { sessionsPart } from './session-list.js'
import { t } from './texts.js'
import { twoStepPart } from './two-step.js'
import { button, notice, runner } from './ui.js'

/**
 * The account of whoever is signed in. Each part loads, fails and is retried by itself.
 * @param {import('./page.js').Page} page
 * @param {{ said?: string }} [options]
 */
export function showAccount(page, { said } = {}) {
  const again = (/** @type {string} */ words) => showAccount(page, { said: words })
  const place = notice()
  const isGuest = page.guest !== null
  page.show(
    [
      make('h1', { class: 'unseen' }, t`Your account`),
      identity(page),
      place.element,
      ...(isGuest
        ? [saveAccountPart(page, again)]
        : [passkeysPart(page), ...(page.config.email ? [emailPart(page, again)] : []), twoStepPart(page)]),
      sessionsPart(page),
    ],
    { wide: true },
  )
  document.title = t`Your account – ${page.config.appName}`
  if (said !== undefined) place.say(said)
}

/** @param {import('./page.js').Page} page */
function identity(page) {
  const { user, guest, config } = page
  const title = guest === null ? (user.name ?? user.email ?? t`Your account`) : t`Guest`
  const below = guest === null ? (user.name === null ? null : user.email) : t`Your account is not saved yet.`
  const leave = button({ label: t`Sign out`, kind: 'secondary' })
  const place = notice()
  const element = make(
    'section',
    { class: 'identity', 'aria-label': t`Signed in as` },
    make(
      'div',
      { class: 'who' },
      make('p', { class: 'who-app', dir: 'auto' }, t`Signed in to ${config.appName}`),
      make('p', { class: 'who-name', dir: 'auto' }, title),
      below && make('p', { class: 'who-more', dir: 'auto' }, below),
    ),
    leave,
    place.element,
  )
  const run = runner(element, place)
  leave.addEventListener('click', () =>
    run(leave, t`Signing out…`, async () => {
      await endSession(page)
      page.startAgain(t`You are signed out.`)
    }),
  )
  return element
}
