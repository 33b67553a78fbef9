import { Client } from './client.js'
import { make } from './dom.js'
import { withStepUp } from './step-up.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'
import { exact, sentences, showEnd, showRefused } from './wallet.js'
import { keyApi, loadCanton, openShare } from './wallet-keys.js'
import { recoveryButton } from './wallet-recover.js'
import { Declined, tell } from './words.js'

/** @typedef {import('./page.js').Page} Page */

/**
 * What a link asks to pay: one command of the API, and the assets that it spends.
 * @typedef {{ command: any, assets: { issuer: string, symbol: string }[] }} Payment
 */

const LINK_CHARS_MAX = 20_000
/** Long enough to read what is signed; the session ends with the payment anyway. */
const SESSION_SECONDS = 600

/** @param {any} given */
const isText = (given) => typeof given === 'string' && given !== ''

/** @param {any} given */
function isCommand(given) {
  const { create, exercise } = given ?? {}
  if ((create === undefined) === (exercise === undefined)) return false
  const of = create ?? exercise
  return isText(of?.templateId) && (create !== undefined || (isText(of.contractId) && isText(of.choice)))
}

/**
 * What the address asks to pay: `#pay=` and base64url of `{"command": …, "assets": […]}` in JSON. Null if it asks nothing.
 * @param {string} hash
 * @returns {Payment | 'invalid' | null}
 */
export function readPayment(hash) {
  if (!hash.startsWith('#pay=')) return null
  if (hash.length > LINK_CHARS_MAX) return 'invalid'
  try {
    const bytes = atob(hash.slice('#pay='.length).replaceAll('-', '+').replaceAll('_', '/'))
    const text = new TextDecoder('utf-8', { fatal: true }).decode(
      Uint8Array.from(bytes, (character) => character.charCodeAt(0)),
    )
    const { command, assets = [] } = JSON.parse(text)
    const isValid =
      isCommand(command) &&
      Array.isArray(assets) &&
      assets.length <= 10 &&
      assets.every(({ issuer, symbol }) => isText(issuer) && isText(symbol))
    return isValid ? { command, assets } : 'invalid'
  } catch {
    return 'invalid'
  }
}

/**
 * A session that can do what the link asks, once, and nothing else of consequence: it ends with the payment.
 * @param {Payment} payment
 */
function sessionFor({ command, assets }) {
  const { templateId, choice } = command.exercise ?? command.create
  const rule =
    command.exercise === undefined
      ? { templateId, actions: ['create'] }
      : { templateId, actions: ['exercise'], choices: [choice] }
  const spend = assets.map(({ issuer, symbol }) => ({ asset: { issuer, symbol }, unlimited: true }))
  return {
    name: 'A payment on the wallet’s page',
    policy: { allow: [rule], ...(spend.length > 0 && { spend }) },
    expiresInSeconds: SESSION_SECONDS,
    maxUses: 1,
  }
}

/**
 * A text of the link in quotes, with what nobody sees of it escaped: it cannot be taken for words of the page.
 * @param {string} text
 */
const quoted = (text) =>
  JSON.stringify(text).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (seen) =>
    seen.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  )

/**
 * Says that there is something to pay. What exactly is known once the ledger has prepared it, which needs the share.
 * @param {Page} page
 * @param {any} wallet
 * @param {Payment} payment
 */
export function showPayment(page, wallet, payment) {
  const place = notice()
  const yes = button({ label: t`See what you would sign`, kind: 'primary', iconName: 'passkey' })
  const no = button({ label: t`Cancel`, kind: 'secondary' })
  const content = make('div', { class: 'stack' }, yes, no, recoveryButton(page, wallet), place.element)
  const run = runner(content, place)
  yes.addEventListener('click', () => run(yes, t`Waiting for your passkey…`, () => pay(page, wallet, payment)))
  no.addEventListener('click', () => showEnd(page, t`Nothing was paid`, t`You canceled.`, wallet))
  const { templateId, choice = 'create' } = payment.command.exercise ?? payment.command.create
  page.show([
    make('h1', {}, t`Pay from your wallet?`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`A link brought you here. Go on only if you expected to pay something in ${page.config.appName}.`,
    ),
    make(
      'dl',
      { class: 'facts' },
      make('dt', {}, t`It asks for`),
      make('dd', { dir: 'auto' }, exact(`${quoted(choice)} on ${quoted(templateId)}`)),
    ),
    content,
  ])
}

/**
 * What became of a payment so far: whether the person agreed, and what was sent with their signature.
 * @typedef {{ agreed: boolean, signed: { signingRequestId: string, signature: string } | null }} Progress
 */

/**
 * @param {Page} page
 * @param {any} wallet
 * @param {Payment} payment
 */
async function pay(page, wallet, payment) {
  const key = await openShare(keyApi(page.client), wallet)
  const session = await withStepUp(page, () => page.client.call('POST', 'delegated-sessions', sessionFor(payment)))
  // Best effort: it allows one execution, and ends by itself soon.
  const end = () => page.client.call('DELETE', `delegated-sessions/${session.id}`).catch(() => undefined)
  /** @type {Progress} */
  const progress = { agreed: false, signed: null }
  const api = delegateApi(page, session, progress)
  try {
    showPaid(page, wallet, await execute(page, payment, { key, session, api, progress }))
  } catch (error) {
    const { signed } = progress
    if (signed !== null) {
      const again = () => api.delegatedSessions.execute(session.id, signed)
      return showUnknown(page, wallet, { error, again, end })
    }
    const { name } = /** @type {Error} */ (error)
    if (name === 'CantonError') showRefused(page, wallet, /** @type {Error} */ (error))
    else if (error instanceof Declined) showEnd(page, t`Nothing was paid`, t`You refused to sign.`, wallet)
    else if (progress.agreed) showEnd(page, t`Nothing was paid`, tell(error).text, wallet)
    else {
      await end()
      throw error
    }
  }
  await end()
}

/**
 * @param {Page} page
 * @param {any} wallet
 * @param {any} done what `execute` answered
 */
function showPaid(page, wallet, done) {
  const isDone = done.status === 'completed'
  const words = isDone
    ? t`You signed it, and it is done.`
    : t`You signed it. The ledger has not said yet that it is done.`
  showEnd(page, isDone ? t`Paid` : t`Sent`, words, wallet)
}

/**
 * A signed payment without a good answer may have happened, or may still happen. It can be sent again only as it was signed: that
 * is paid once at most, where a new one could be paid besides. The session stays for that, and ends by itself.
 * @param {Page} page
 * @param {any} wallet
 * @param {{ error: unknown, again: () => Promise<any>, end: () => Promise<unknown> }} of
 */
function showUnknown(page, wallet, { error, again, end }) {
  const place = notice()
  const retry = button({ label: t`Send the same payment again`, kind: 'primary' })
  const content = make('div', { class: 'stack' }, retry, place.element)
  const run = runner(content, place)
  retry.addEventListener('click', () =>
    run(retry, t`Sending…`, async () => {
      showPaid(page, wallet, await again())
      await end()
    }),
  )
  page.show([
    make('h1', {}, t`It is not known whether this was paid`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`You signed it. Before you make a new payment, check the transactions of your wallet in ${page.config.appName}. Sending the same payment again is safe: it is paid at most once.`,
    ),
    make('dl', { class: 'facts' }, make('dt', {}, t`Party`), make('dd', {}, exact(wallet.partyId))),
    content,
  ])
  place.warn(tell(error).text)
}

/**
 * The calls of the session's delegate. Before anything that was signed is sent, it is noted, and the link leaves the address: a
 * reload must not offer the payment once more.
 * @param {Page} page
 * @param {any} session
 * @param {Progress} progress
 */
function delegateApi(page, session, progress) {
  const delegate = new Client(page.config.appId)
  delegate.adopt({ accessToken: session.token, refreshToken: '', sessionId: '' })
  const { execute } = keyApi(delegate).delegatedSessions
  return {
    delegatedSessions: {
      execute(/** @type {string} */ id, /** @type {any} */ body) {
        if ('signature' in body) {
          progress.signed = body
          history.replaceState(null, '', location.pathname + location.search)
        }
        return execute(id, body)
      },
    },
  }
}

/**
 * Has it prepared, shows all that it does, and signs if the person agrees.
 * @param {Page} page
 * @param {Payment} payment
 * @param {{ key: any, session: any, api: any, progress: Progress }} by
 */
async function execute(page, { command }, { key, session, api, progress }) {
  const { executeOnCanton, wordsOf } = await loadCanton()
  return executeOnCanton(api, {
    sessionId: session.id,
    commands: [command],
    key,
    approve: async (/** @type {any} */ { view }) => {
      await askToSign(page, wordsOf(view))
      progress.agreed = true
    },
  })
}

/**
 * @param {Page} page
 * @param {string[]} words
 * @returns {Promise<void>} when the person has agreed
 * @throws Declined
 */
function askToSign(page, words) {
  return new Promise((resolve, reject) => {
    const yes = button({ label: t`Sign this`, kind: 'primary' })
    const no = button({ label: t`Refuse`, kind: 'secondary' })
    yes.addEventListener('click', () => {
      resolve()
      page.show([make('h1', {}, t`Paying…`), make('p', { class: 'lead' }, t`The ledger is at work.`)])
    })
    no.addEventListener('click', () => reject(new Declined()))
    page.show([
      make('h1', {}, t`Sign this?`),
      make('p', { class: 'lead' }, t`This is all that happens. Sign it only if you want exactly this.`),
      sentences(words),
      make('div', { class: 'stack' }, yes, no),
    ])
    page.whenLeft(() => reject(new Declined()))
  })
}
