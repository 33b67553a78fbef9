import { ApiError } from './client.js'
import { make } from './dom.js'
import { endSession } from './session.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'
import { showCreation } from './wallet-create.js'
import { keyApi, loadCanton, openShare } from './wallet-keys.js'
import { readPayment, showPayment } from './wallet-pay.js'
import { recoveryButton } from './wallet-recover.js'
import { Refused } from './words.js'

/** @typedef {import('./page.js').Page} Page */

const POLL_MS = 1_500

/**
 * The wallet of the person who is signed in: creates it, has its key sign for its party, and pays.
 * @param {Page} page
 * @param {string} [said] what happened before
 */
export async function showWallet(page, said) {
  page.show([make('h1', {}, t`One moment…`), make('p', { class: 'lead' }, t`Loading your wallet.`)])
  try {
    const wallet = await page.client.call('GET', 'users/me/wallet').catch((error) => {
      if (error instanceof ApiError && error.code === 'wallet_not_found') return null
      throw error
    })
    if (wallet === null) showCreation(page)
    else if (wallet.custody !== 'shared')
      showEnd(page, t`Your wallet`, t`${page.config.appName} keeps your wallet, or you sign for it elsewhere.`, wallet)
    else if (wallet.status === 'pending') await showParty(page, wallet, said)
    else if (wallet.status === 'failed')
      showEnd(
        page,
        t`Your wallet could not be made`,
        t`The ledger refused it. Please contact the app’s support.`,
        wallet,
      )
    else goOn(page, wallet, said)
  } catch (error) {
    const words =
      error instanceof Refused ? error.message : t`This could not be loaded. Check your network and try again.`
    showEnd(page, t`Not loaded`, words, null, true)
  }
}

/**
 * @param {Page} page
 * @param {any} wallet
 * @param {string} [said]
 */
function goOn(page, wallet, said) {
  const payment = readPayment(location.hash)
  if (payment === null) return showEnd(page, t`Your wallet is ready`, said ?? t`You can go back to the app.`, wallet)
  if (wallet.ledger === 'embedded')
    return showEnd(page, t`Not on this page`, t`This page pays from wallets on Canton only.`, wallet)
  if (payment === 'invalid') return showEnd(page, t`This link does not work`, t`It does not say what to pay.`, wallet)
  showPayment(page, wallet, payment)
}

/**
 * @param {Page} page
 * @param {string} title
 * @param {string} words
 * @param {any} wallet
 * @param {boolean} [retry]
 */
export function showEnd(page, title, words, wallet, retry = false) {
  const place = notice()
  const again = button({ label: t`Try again`, kind: 'primary' })
  const leave = button({ label: t`Sign out`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, retry && again, leave, place.element)
  const run = runner(content, place)
  again.addEventListener('click', () => showWallet(page))
  leave.addEventListener('click', () =>
    run(leave, t`Signing out…`, async () => {
      await endSession(page)
      page.startAgain(t`You are signed out.`)
    }),
  )
  const party = wallet === null ? [] : [make('dt', {}, t`Party`), make('dd', {}, exact(wallet.partyId))]
  page.show([
    make('h1', {}, title),
    make('p', { class: 'lead', dir: 'auto' }, words),
    make('dl', { class: 'facts' }, ...party),
    content,
  ])
}

/** @param {string} text */
export const exact = (text) => make('code', { class: 'exact' }, text)

/**
 * What is to be signed, in sentences. Others chose names and values in them: they are text.
 * @param {string[]} words
 */
export const sentences = (words) =>
  make('ol', { class: 'sentences', lang: 'en' }, ...words.map((each) => make('li', { dir: 'auto' }, each)))

/**
 * A wallet whose party is not on its ledger yet. What its key is to sign is read here, from the bytes alone.
 * @param {Page} page
 * @param {any} wallet
 * @param {string} [said]
 */
async function showParty(page, wallet, said) {
  const api = keyApi(page.client)
  const waiting = await api.wallets.onboarding(wallet.id)
  if (waiting.state !== 'signature_required') return showWaiting(page, said)
  const { readOnboarding } = await loadCanton()
  const { publicKey, partyId: party } = wallet
  let view
  try {
    view = readOnboarding(waiting.prepared, { party, publicKey })
  } catch (error) {
    return showRefused(page, wallet, /** @type {Error} */ (error))
  }
  const place = notice()
  const sign = button({ label: t`Sign with your passkey`, kind: 'primary', iconName: 'passkey' })
  const content = make('div', { class: 'stack' }, sign, recoveryButton(page, wallet), place.element)
  const run = runner(content, place)
  sign.addEventListener('click', () => run(sign, t`Waiting for your passkey…`, () => signParty(page, wallet, view)))
  page.show([
    make('h1', {}, t`Sign for your wallet`),
    make('p', { class: 'lead', dir: 'auto' }, t`The ledger needs your signature once. This is all that it does:`),
    sentences(view.words),
    content,
  ])
  if (said !== undefined) place.say(said)
}

/**
 * @param {Page} page
 * @param {any} wallet
 * @param {{ payload: Uint8Array, participant: string }} shown
 */
async function signParty(page, wallet, shown) {
  const { signOnboarding } = await loadCanton()
  const api = keyApi(page.client)
  const key = await openShare(api, wallet)
  try {
    // It is read once more: only the participant that was shown may host the party.
    await signOnboarding(api, { key, participant: shown.participant })
  } catch (error) {
    if (/** @type {Error} */ (error).name !== 'CantonError') throw error
    return showRefused(page, wallet, /** @type {Error} */ (error))
  }
  await showWallet(page)
}

/**
 * The ledger or the service said something else than what may be signed.
 * @param {Page} page
 * @param {any} wallet
 * @param {Error} error
 */
export function showRefused(page, wallet, error) {
  const why = t`Your key will not sign this: ${error.message}. Nothing was signed. Please tell the app’s support.`
  showEnd(page, t`Not signed`, why, wallet)
}

/**
 * The ledger is at work: looks again until it is done.
 * @param {Page} page
 * @param {string} [said]
 */
function showWaiting(page, said) {
  page.show([
    make('h1', {}, t`Setting up your wallet…`),
    make(
      'p',
      { class: 'lead', role: 'status' },
      said ?? t`The ledger is creating your party. This takes a few seconds.`,
    ),
  ])
  const timer = setTimeout(() => showWallet(page), POLL_MS)
  page.whenLeft(() => clearTimeout(timer))
}
