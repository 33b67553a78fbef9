import { ApiError } from './client.js'
import { checkedForm, expiryField, namesRecipients, recipientsField, spendFields } from './connect-form.js'
import { make, visible } from './dom.js'
import { mayOpen } from './leaving.js'
import { endSession } from './session.js'
import { withStepUp } from './step-up.js'
import { inWords, t } from './texts.js'
import { button, notice, onSubmit, runner } from './ui.js'
import { Refused } from './words.js'

/** @typedef {import('./page.js').Page} Page */
/** @typedef {import('../../src/delegation/connect/connect-schema.ts').AgentRequest} AgentRequest */

/** What a refusal means here. The rest is told in general words. */
const REFUSALS = {
  not_found: t`This request is over. Start again in the agent.`,
  wallet_frozen: t`Your wallet is frozen, so nothing can be connected to it.`,
  approvals_unavailable: t`The agent wants to ask you before some payments. Your wallet cannot do that.`,
  session_limit_reached: t`Too many agents are connected to your wallet. Ask the app’s support to end one first.`,
}

/**
 * Shows what an agent's client asks for, and lets the owner of the wallet allow it, or less of it.
 * @param {Page} page
 */
export async function showConnect(page) {
  page.show([make('h1', {}, t`One moment…`), make('p', { class: 'lead' }, t`Loading what the agent asks for.`)])
  try {
    showQuestion(page, await page.client.call('GET', `agent-requests/${encodeURIComponent(page.config.connect)}`))
  } catch (error) {
    const isOver = error instanceof ApiError && error.status === 404
    const words = isOver ? REFUSALS.not_found : t`This could not be loaded. Check your network and try again.`
    showEnd(page, isOver ? t`Nothing to connect` : t`Not loaded`, words, !isOver)
  }
}

/**
 * @param {Page} page
 * @param {string} title
 * @param {string} words
 * @param {boolean} [retry]
 */
function showEnd(page, title, words, retry = false) {
  const place = notice()
  const again = button({ label: t`Try again`, kind: 'primary' })
  const leave = button({ label: t`Sign out`, kind: 'quiet' })
  const content = make('div', { class: 'stack' }, retry && again, leave, place.element)
  const run = runner(content, place)
  again.addEventListener('click', () => showConnect(page))
  leave.addEventListener('click', () =>
    run(leave, t`Signing out…`, async () => {
      await endSession(page)
      page.startAgain(t`You are signed out.`)
    }),
  )
  page.show([make('h1', {}, title), make('p', { class: 'lead', dir: 'auto' }, words), content])
}

/** @param {string} text */
const exact = (text) => make('code', { class: 'exact' }, text)

/** @param {AgentRequest} asked */
function destination({ client, redirect: { kind, name } }) {
  if (kind === 'device') return [t`A program on this device`]
  if (kind === 'app') return inWords`The app ${exact(name)} (nobody has checked whose app it is)`
  return name === client.host ? [exact(name)] : inWords`${exact(name)} (this is not the requester’s address)`
}

/**
 * Who asks. Nobody has checked the name: the address is what counts, so it stands beside it.
 * @param {AgentRequest} asked
 */
function facts(asked) {
  const name = make('bdi', {}, asked.client.name ?? t`An agent without a name`)
  return make(
    'dl',
    { class: 'facts' },
    make('dt', {}, t`Who asks`),
    make('dd', { dir: 'auto' }, ...inWords`${name} (nobody has checked this name)`),
    make('dd', { dir: 'auto' }, exact(asked.client.id)),
    make('dt', {}, t`Afterwards you go to`),
    make('dd', { dir: 'auto' }, ...destination(asked)),
    asked.maxUses !== null && make('dt', {}, t`Ends after`),
    asked.maxUses !== null && make('dd', {}, t`Transactions: ${asked.maxUses}`),
  )
}

/** @param {AgentRequest} asked */
const wordsOf = ({ policy, words }) =>
  policy === null
    ? [t`Can transfer tokens that you set an amount for, and no others.`, t`Sees the tokens in your wallet.`]
    : words.map(({ text }) => text)

/**
 * The policy as it is stored, beside its sentences.
 * @param {NonNullable<AgentRequest['policy']>} policy
 */
const exactly = (policy) =>
  make(
    'details',
    { class: 'exactly' },
    make('summary', {}, t`Exactly what it asks for`),
    make('pre', { tabindex: '0' }, visible(JSON.stringify(policy, null, 2))),
  )

/**
 * @param {Page} page
 * @param {AgentRequest} asked
 */
function showQuestion(page, asked) {
  const { client, wallet } = asked
  const place = notice()
  const spend = spendFields(asked)
  const recipients = recipientsField()
  const expiry = expiryField(asked)
  const yes = button({ label: t`Connect`, kind: 'primary', submit: true })
  const no = button({ label: t`Refuse`, kind: 'secondary' })
  const able = wallet !== null && !wallet.frozen
  const fields = {
    ...Object.fromEntries(spend.map(({ input }, index) => [`spend.${index}.amount`, input])),
    recipients,
    expiresInSeconds: expiry,
  }
  const form = make(
    'form',
    { class: 'stack' },
    ...(able ? spend.flatMap(({ elements }) => elements) : []),
    able && namesRecipients(asked) && recipients.element,
    able && expiry.element,
    able && yes,
    no,
    place.element,
  )
  const run = runner(form, place, fields)
  onSubmit(form, () =>
    run(yes, t`Connecting…`, async () => connect(page, asked, checkedForm(asked, { spend, recipients, expiry }))),
  )
  no.addEventListener('click', () =>
    run(no, t`Refusing…`, async () =>
      showReturning(page, await told(() => page.client.call('POST', `agent-requests/${asked.id}/refuse`))),
    ),
  )
  page.show([
    make('h1', { dir: 'auto' }, t`Connect an agent of ${client.host}?`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      t`It will act from your wallet in ${page.config.appName} without asking you, within these limits. You can lower them now. To end it sooner, ask the app’s support.`,
    ),
    facts(asked),
    make('h2', {}, t`What it can do`),
    make(
      'ul',
      { class: 'sentences', lang: asked.policy === null ? null : 'en' },
      ...wordsOf(asked).map((text) => make('li', { dir: 'auto' }, text)),
    ),
    ...asked.warnings.map(({ message }) => make('p', { class: 'row-more', lang: 'en', dir: 'auto' }, message)),
    asked.policy !== null && exactly(asked.policy),
    form,
  ])
  if (wallet === null)
    place.say(t`You have no wallet in ${page.config.appName} yet. Create one there, then start again.`)
  else if (wallet.frozen) place.say(REFUSALS.wallet_frozen)
}

/**
 * @template T
 * @param {() => Promise<T>} call
 */
async function told(call) {
  try {
    return await call()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const words = REFUSALS[/** @type {keyof typeof REFUSALS} */ (error.code)]
    if (words !== undefined) throw new Refused(words)
    const field = error.details.find((detail) => detail.field !== undefined)?.field ?? null
    if (error.code === 'validation_failed')
      throw new Refused(t`This is more than the agent asked for, or cannot be read.`, field)
    throw error
  }
}

/**
 * @param {Page} page
 * @param {AgentRequest} asked
 * @param {object} allowed
 */
async function connect(page, asked, allowed) {
  const path = `agent-requests/${asked.id}/connect`
  showReturning(page, await told(() => withStepUp(page, () => page.client.call('POST', path, allowed))))
}

/**
 * Back to the client. The link stays: some browsers open programs only at a tap.
 * @param {Page} page
 * @param {{ redirectTo: string }} answer
 */
function showReturning(page, { redirectTo }) {
  if (!mayOpen(redirectTo)) return showEnd(page, t`Done`, t`You can close this page and go back to the agent.`)
  page.show([
    make('h1', {}, t`Taking you back to the agent…`),
    make('p', { class: 'lead' }, t`You can close this page once the agent continues.`),
    make(
      'div',
      { class: 'stack' },
      make('a', { class: 'button secondary', href: redirectTo, rel: 'noreferrer' }, t`Continue`),
    ),
  ])
  location.replace(redirectTo)
}
