// An app's page whose users have shared wallets: what the tests of recovery click through. Served with the packages' sources.
import {
  createSharedWallet,
  executeShared,
  joinHeldShares,
  loadHeldShare,
  newPrfSalt,
  openProtected,
  prfOutput,
  protectionContext,
  protectShare,
  readHeldShare,
  releaseKey,
  reshare,
  signWithScalar,
  storeHeldShare,
  toHex,
  utf8,
  writeHeldShare,
} from '@halfkey/keys'
import { createClient } from '@halfkey/sdk'

const { searchParams } = new URL(location.href)
const service = { baseUrl: searchParams.get('service'), apiKey: searchParams.get('key'), pin: searchParams.get('pin') }
const app = createClient(service)
const rpId = 'localhost'
/** What the page remembers of the person; nothing outlives it but what is returned to be written down. */
let mine
let wallet
let credentialId

/** Signs up with a passkey that has the PRF extension. */
export async function signUp(email) {
  await register(await app.auth.passkeys.registerOptions({ email }))
}

/** Takes up a challenge for a passkey: one's own, or one that the app's server has made for somebody who lost theirs. */
export async function register({ challengeId, publicKey }) {
  const options = PublicKeyCredential.parseCreationOptionsFromJSON(publicKey)
  options.extensions = { ...options.extensions, prf: {} }
  const credential = await navigator.credentials.create({ publicKey: options })
  if (credential.getClientExtensionResults().prf?.enabled !== true) throw new Error('a passkey without PRF')
  signedIn(await app.auth.passkeys.registerVerify({ challengeId, credential: credential.toJSON() }), credential)
  wallet = await mine.wallet.get().catch(() => undefined)
}

/** Signs in with a token of the app's own login. */
export async function signInWithToken(token) {
  const { accessToken } = await app.auth.exchangeToken({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: token,
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
  })
  mine = createClient({ ...service, accessToken })
  wallet = await mine.wallet.get().catch(() => undefined)
}

/** Adds a passkey to the account that is signed in, and goes on with the session that it begins. */
export async function addPasskey() {
  await register(await mine.auth.passkeys.registerOptions({}))
}

/** Shows the passkey in the session that there is. */
export async function prove() {
  const { challengeId, publicKey } = await app.auth.passkeys.loginOptions()
  const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey)
  const credential = await navigator.credentials.get({ publicKey: options })
  signedIn(await mine.auth.passkeys.prove({ challengeId, credential: credential.toJSON() }), credential)
}

/** Signs in with the passkey. */
export async function signIn() {
  const { challengeId, publicKey } = await app.auth.passkeys.loginOptions()
  const options = PublicKeyCredential.parseRequestOptionsFromJSON(publicKey)
  const credential = await navigator.credentials.get({ publicKey: options })
  signedIn(await app.auth.passkeys.loginVerify({ challengeId, credential: credential.toJSON() }), credential)
  wallet = await mine.wallet.get().catch(() => undefined)
}

function signedIn({ accessToken }, credential) {
  mine = createClient({ ...service, accessToken })
  credentialId = credential.id
}

async function keepByPasskey(held) {
  const prfSalt = newPrfSalt()
  const by = { credentialId, rpId, prfSalt, prfOutput: await prfOutput({ credentialId, rpId, prfSalt }) }
  await storeHeldShare(mine, wallet, held, await protectShare(held.share, protectionContext(held), by))
}

/** Makes the wallet; the device share is kept sealed by the passkey. @returns the recovery sheet */
export async function createWallet() {
  const made = await createSharedWallet(mine)
  wallet = made.wallet
  await keepByPasskey(made.device)
  return { wallet, sheet: writeHeldShare(made.recovery) }
}

/** The device share again, opened by the passkey. */
async function deviceShare() {
  const { id: walletId, publicKey } = wallet
  return loadHeldShare(mine, { walletId, publicKey, index: 2 }, async (ciphertext, context) => {
    const [wrap] = ciphertext.wraps
    return openProtected(ciphertext, context, { credentialId: wrap.credentialId, prfOutput: await prfOutput(wrap) })
  })
}

/** Pays with the service's help: by the passkey's share, or by one that was written down. */
export async function pay({ commands, policy, sheet }) {
  const { id: sessionId, token } = await mine.delegatedSessions.create({ policy })
  const delegate = createClient({ ...service, delegateToken: token })
  const held = sheet === undefined ? await deviceShare() : readHeldShare(sheet)
  return executeShared(delegate, { sessionId, held, commands })
}

/** Writes the passkey's share down. */
export async function deviceSheet() {
  return writeHeldShare(await deviceShare())
}

/** Shares the key anew from one sheet. @returns both new sheets */
export async function renew(sheet) {
  let kept
  const fresh = await reshare(mine, [sheet === undefined ? await deviceShare() : readHeldShare(sheet)], (shares) => {
    kept = { device: writeHeldShare(shares.device), recovery: writeHeldShare(shares.recovery) }
  })
  if (credentialId !== undefined) await keepByPasskey(fresh.device)
  return kept
}

/** Signs by two sheets alone: no call is made. */
export function signAlone(sheets, text) {
  return toHex(signWithScalar(utf8(text), joinHeldShares(sheets.map(readHeldShare))))
}

/** Has the service give its share out. @returns a signature by the key that this makes */
export async function leave(sheet, text) {
  return toHex(signWithScalar(utf8(text), await releaseKey(mine, readHeldShare(sheet))))
}
