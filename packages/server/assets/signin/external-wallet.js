import { ApiError } from './client.js'
import { make } from './dom.js'
import { offerPasskey } from './email.js'
import { passkeysWork } from './passkeys.js'
import { showSignIn } from './sign-in.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'
import { Declined, Refused } from './words.js'

/** Wallets announce themselves at once, because they are scripts in this page. */
const ANNOUNCEMENTS_MS = 200
const WALLETS_MAX = 20
const NAME_CHARS_MAX = 60

/**
 * A wallet in this browser (EIP-1193), with the name that it gives itself.
 * @typedef {{ name: string, provider: { request(call: { method: string, params?: unknown[] }): Promise<unknown> } }} Wallet
 */

/** @param {unknown} provider */
const isProvider = (provider) =>
  typeof provider === 'object' && provider !== null && typeof Reflect.get(provider, 'request') === 'function'

/** @param {unknown} name */
function nameOf(name) {
  const text = typeof name === 'string' ? name.trim().slice(0, NAME_CHARS_MAX) : ''
  return text === '' ? t`Wallet` : text
}

/**
 * The wallets in this browser: those that announce themselves (EIP-6963), otherwise the one that has taken `window.ethereum`.
 * @returns {Promise<Wallet[]>}
 */
async function findWallets() {
  /** @type {Map<unknown, Wallet>} */
  const found = new Map()
  const listen = (/** @type {any} */ { detail }) => {
    const provider = detail?.provider
    if (isProvider(provider) && found.size < WALLETS_MAX)
      found.set(provider, { name: nameOf(detail.info?.name), provider })
  }
  addEventListener('eip6963:announceProvider', listen)
  dispatchEvent(new Event('eip6963:requestProvider'))
  await new Promise((done) => setTimeout(done, ANNOUNCEMENTS_MS))
  removeEventListener('eip6963:announceProvider', listen)
  const own = Reflect.get(globalThis, 'ethereum')
  if (found.size === 0 && isProvider(own)) found.set(own, { name: 'Wallet', provider: own })
  return [...found.values()]
}

/**
 * Asks a wallet. Its own words are not shown: they come from another program.
 * @param {Wallet} wallet
 * @param {string} method
 * @param {unknown[]} [params]
 */
async function ask({ provider }, method, params) {
  try {
    return await provider.request(params === undefined ? { method } : { method, params })
  } catch (error) {
    const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
    // EIP-1193: the person said no.
    if (code === 4001) throw new Declined()
    // The wallet has a window open.
    if (code === -32002) throw new Refused(t`Your wallet is waiting for an answer. Open it, answer, and try again.`)
    throw new Refused(t`Your wallet returned an error. Open it, unlock it, and try again.`)
  }
}

/** @param {unknown} accounts */
function firstOf(accounts) {
  const address = Array.isArray(accounts) ? accounts[0] : undefined
  if (typeof address !== 'string' || !/^0x[0-9a-fA-F]{40}$/.test(address))
    throw new Refused(t`Your wallet has no account to sign in with. Create or unlock one, and try again.`)
  return address.toLowerCase()
}

/**
 * The chain that the wallet is on, if the app takes it. Otherwise the app's first one is named, which changes nothing for the user.
 * @param {Wallet} wallet
 * @param {number[]} allowed
 */
async function chainOf(wallet, allowed) {
  const chainId = Number(await ask(wallet, 'eth_chainId'))
  return allowed.includes(chainId) ? { chainId } : {}
}

/** @param {string} text */
const hexOf = (text) =>
  `0x${Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, '0')).join('')}`

/**
 * Signs in by a wallet: it names an account and signs what the server has written for it.
 * @param {import('./page.js').Page} page
 * @param {Wallet} wallet
 */
async function signInBy(page, wallet) {
  const address = firstOf(await ask(wallet, 'eth_requestAccounts'))
  const chain = await chainOf(wallet, page.config.externalWallets.chainIds)
  const asked = await page.client.call('POST', 'auth/wallet/start', { type: 'eip4361', address, ...chain })
  const signature = await ask(wallet, 'personal_sign', [hexOf(asked.message), address])
  const body = { challengeId: asked.challengeId, signature }
  try {
    return await page.client.call('POST', 'auth/wallet/verify', body)
  } catch (error) {
    if (error instanceof ApiError && error.code === 'validation_failed')
      throw new Refused(t`Your wallet did not return a signature. Please try again.`)
    throw error
  }
}

/**
 * The button of the first view.
 * @param {import('./page.js').Page} page
 */
export function walletButton(page) {
  const go = button({ label: t`Continue with a wallet`, kind: 'secondary', iconName: 'wallet' })
  go.addEventListener('click', () => showWallets(page))
  return go
}

/**
 * Finds wallets. Signs in with the only one, or with the one that the user chooses.
 * @param {import('./page.js').Page} page
 */
async function showWallets(page) {
  const place = notice()
  const choice = make('div', { class: 'stack' })
  const content = make('div', { class: 'stack' }, place.element, choice)
  const back = button({ label: t`Sign in another way`, kind: 'quiet' })
  back.addEventListener('click', () => showSignIn(page))
  const run = runner(content, place)
  let left = false
  page.show([
    make('h1', { dir: 'auto' }, t`Sign in to ${page.config.appName} with a wallet`),
    make('p', { class: 'lead' }, t`Your wallet asks you to sign a message. This is free and does not move any funds.`),
    content,
    make('div', { class: 'stack' }, back),
  ])
  page.whenLeft(() => {
    left = true
  })
  const goBy = (/** @type {HTMLElement} */ pressed, /** @type {Wallet} */ wallet) =>
    run(pressed, t`Waiting for your wallet…`, async () => {
      const result = await signInBy(page, wallet)
      // Wallets may answer long after the user left this view.
      if (left) return
      if (result.isNewUser && passkeysWork()) offerPasskey(page, result)
      else page.signedIn(result)
    })
  const wallets = await findWallets()
  if (left) return
  for (const wallet of wallets) {
    const one = button({ label: t`Continue with ${wallet.name}`, kind: 'primary', iconName: 'wallet' })
    one.addEventListener('click', () => goBy(one, wallet))
    choice.append(one)
    if (wallets.length === 1) goBy(one, wallet)
  }
  if (wallets.length === 0)
    place.say(
      t`No wallet was found in this browser. Install an Ethereum wallet, or open this page in the browser of your wallet’s app.`,
    )
}
