import { PasskeyFailed, sorted, usedPasskey } from './passkeys.js'
import { t } from './texts.js'
import { Refused } from './words.js'

const NO_PRF = t`This passkey cannot keep a share of a key: the device or browser lacks the PRF extension. Use another one.`

/**
 * The modules that sign: large, and only of use to somebody who opens their wallet. Their address is the server's, and not known here.
 * @param {'keys' | 'canton'} name
 * @returns {Promise<any>}
 */
async function load(name) {
  const address = `/signin/keys/${name}.js`
  try {
    return await import(address)
  } catch {
    throw new Refused(t`This page could not load what signs for your wallet. Check your network and try again.`)
  }
}

export const loadKeys = () => load('keys')
export const loadCanton = () => load('canton')

/**
 * The calls that `@halfkey/keys` makes, by this page's client. The page comes from the service itself: it has nothing to pin it by.
 * @param {import('./client.js').Client} client
 */
export function keyApi(client) {
  const post = (/** @type {string} */ path) => (/** @type {object} */ body) => client.call('POST', path, body)
  return {
    mpc: {
      trust: { trustOnFirstUse: true },
      config: () => client.call('GET', 'mpc/config'),
      startDkg: post('mpc/dkg'),
      dkgRound2: (/** @type {string} */ id, /** @type {object} */ body) =>
        client.call('POST', `mpc/dkg/${id}/round2`, body),
      confirmDkg: (/** @type {string} */ id, /** @type {object} */ body) =>
        client.call('POST', `mpc/dkg/${id}/confirm`, body),
      challenge: post('mpc/challenge'),
      recover: post('mpc/recover'),
      storeShare: post('mpc/shares'),
      getShares: (/** @type {string} */ walletId) => client.call('GET', `mpc/shares/${walletId}`),
    },
    wallets: {
      onboarding: (/** @type {string} */ id) => client.call('GET', `wallets/${id}/onboarding`),
      signOnboarding: (/** @type {string} */ id, /** @type {object} */ body) =>
        client.call('POST', `wallets/${id}/onboarding`, body),
    },
    delegatedSessions: {
      execute: (/** @type {string} */ id, /** @type {object} */ body) =>
        client.call('POST', `delegated-sessions/${id}/execute`, body),
    },
  }
}

/**
 * Asks a passkey for its secret, with the prompt's failures as the page tells them.
 * @template T
 * @param {() => Promise<T>} ask
 */
async function asking(ask) {
  try {
    return await ask()
  } catch (error) {
    const { name } = /** @type {Error} */ (error)
    if (name === 'PrfUnavailableError') throw new PasskeyFailed(NO_PRF, { cause: error })
    if (error instanceof DOMException) throw sorted(error)
    throw error
  }
}

/**
 * Asks the passkey that signed the person in for what seals a share. Ask before there is a share: without it there is no place for one.
 * @throws PasskeyFailed if they did not use one, or it has no PRF
 */
export async function askToSeal() {
  const { newPrfSalt, prfOutput } = await loadKeys()
  const passkey = usedPasskey()
  if (passkey === null)
    throw new PasskeyFailed(t`A passkey keeps your share of the key. Sign out, and sign in with a passkey.`)
  const by = { ...passkey, prfSalt: newPrfSalt() }
  return { ...by, prfOutput: await asking(() => prfOutput(by)) }
}

/**
 * Leaves the device share with the service, which cannot open it.
 * @param {any} api
 * @param {any} wallet
 * @param {any} held
 * @param {Awaited<ReturnType<typeof askToSeal>>} by
 */
export async function keepShare(api, wallet, held, by) {
  const { protectionContext, protectShare, storeHeldShare } = await loadKeys()
  await storeHeldShare(api, wallet, held, await protectShare(held.share, protectionContext(held), by))
}

/**
 * The device share, opened by one of the passkeys that it is sealed by.
 * @param {any} api
 * @param {{ id: string, publicKey: string }} wallet
 */
export async function openShare(api, { id: walletId, publicKey }) {
  const { HOLDER_INDEX, loadHeldShare, openProtected, prfOutputOfAny } = await loadKeys()
  return loadHeldShare(
    api,
    { walletId, publicKey, index: HOLDER_INDEX.device },
    async (/** @type {any} */ ciphertext, /** @type {any} */ context) =>
      openProtected(ciphertext, context, await asking(() => prfOutputOfAny(ciphertext.wraps))),
  )
}
