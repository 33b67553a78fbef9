import { Client } from './client.js'
import { focusOn } from './dom.js'
import { signedIn, startAgain } from './flow.js'
import { resume } from './resume.js'
import { showSignIn } from './sign-in.js'
import { t } from './texts.js'

/**
 * What every view gets.
 * @typedef {object} Page
 * @property {any} config as `SignInPageConfig` in src/identity/sign-in/page.ts
 * @property {Client} client
 * @property {any} user null before sign-in
 * @property {any} guest the guest's record, null for everybody else
 * @property {() => void} enrolled called when a second factor was set up, wherever that came up
 * @property {(content: (Node | string)[], options?: ShowOptions) => void} show puts a view in the place of the last one
 * @property {(end: () => void) => void} whenLeft runs it when the view makes room for the next
 * @property {(result: any) => void} signedIn goes on with what a sign-in answered
 * @property {(said: string) => void} startAgain back to the first view, without tokens
 */

/**
 * @typedef {object} ShowOptions
 * @property {boolean} [wide]
 * @property {boolean} [still] leaves the focus where it is: for what stands there when the page opens
 */

const view = /** @type {HTMLElement} */ (document.getElementById('view'))
const config = JSON.parse(document.getElementById('config')?.textContent ?? '{}')

/** @type {(() => void)[]} */
let endings = []

/** @type {Page} */
const page = {
  config,
  client: new Client(config.appId, () => page.startAgain(t`Your session has ended. Please sign in again.`)),
  user: null,
  guest: null,
  enrolled() {},
  show(content, { wide = false, still = false } = {}) {
    for (const end of endings.splice(0)) end()
    for (const dialog of document.querySelectorAll('dialog')) dialog.close()
    view.replaceChildren(...content)
    document.body.classList.toggle('wide', wide)
    const heading = view.querySelector('h1')
    document.title = heading?.textContent ?? document.title
    if (still) return
    scrollTo(0, 0)
    focusOn(heading)
  },
  whenLeft(end) {
    endings = [...endings, end]
  },
  signedIn(result) {
    // Another language loads the page again, which would end the session.
    choice?.remove()
    signedIn(page, result)
  },
  startAgain: (said) => startAgain(page, said),
}

const choice = document.getElementById('language')
if (choice !== null) choice.hidden = false
choice?.addEventListener('change', ({ target }) => {
  const url = new URL(location.href)
  if (target instanceof HTMLSelectElement) url.searchParams.set('ui_locales', target.value)
  location.replace(url)
})

// Out of the browser's page cache it would show a sign-in that is over: its code is used, its tokens may be revoked.
addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload()
})

if (config.preview || !resume(page)) showSignIn(page, { still: true })
