import { isWhatIsSigned } from './approval-document.js'
import { ApiError } from './client.js'
import { make } from './dom.js'
import { askPasskey, passkeysWork } from './passkeys.js'
import { endSession } from './session.js'
import { withStepUp } from './step-up.js'
import { inWords, t } from './texts.js'
import { button, field, notice, onSubmit, runner, timeWords } from './ui.js'
import { Refused } from './words.js'

/** @typedef {import('./page.js').Page} Page */
/** @typedef {import('../../../sdk/src/models.ts').Approval} Approval */
/** @typedef {import('../../../sdk/src/models.ts').ApprovalDetails} ApprovalDetails */

const OUTCOMES = {
  executed: [t`Approved`, t`This was approved, and it is done.`],
  denied: [t`Refused`, t`This was refused. Nothing was paid.`],
  expired: [t`Too late`, t`Nobody decided in time. Nothing was paid.`],
  canceled: [t`No longer needed`, t`The session that asked has ended. Nothing was paid.`],
  failed: [t`Not done`, t`This was approved, but it was no longer possible. Nothing was paid.`],
}

const WAITING = [
  t`Your approval counts`,
  t`You approved this. It is paid once enough of the others have approved, too.`,
]

const WINDOWS = {
  lifetime: t`in total`,
  rolling_24h: t`in 24 hours`,
  rolling_30d: t`in 30 days`,
  day_utc: t`per day (UTC)`,
}

/** What a refusal to approve means here. The rest is told in general words. */
const REFUSALS = {
  approver_not_named: t`Others have to approve this. You can refuse it.`,
  passkey_cannot_approve: t`This passkey cannot approve yet. Use one that you have had for more than a day.`,
  approval_decided: t`This was decided on another page. Reload this page to see how.`,
  approval_expired: t`It is too late: the time to decide is over. Nothing was paid.`,
  approval_outdated: t`The transaction would now do something different from what is shown here. Nothing was paid.`,
  contract_archived: t`Something that it needs is already used up. Nothing was paid.`,
  budget_exceeded: t`This exceeds what is left of a budget of your wallet. Nothing was paid.`,
  spend_limit_exceeded: t`This exceeds what the session may still spend. Nothing was paid.`,
  policy_denied: t`The session may not do this now. Nothing was paid. You can try again later.`,
  wallet_frozen: t`Your wallet is frozen. Nothing was paid.`,
  approval_canceled: t`The session that asked has ended. Nothing was paid.`,
  delegated_session_revoked: t`The session that asked has ended. Nothing was paid.`,
  delegated_session_expired: t`The session that asked has ended. Nothing was paid.`,
}

/**
 * @template T
 * @param {() => Promise<T>} call
 */
async function told(call) {
  try {
    return await call()
  } catch (error) {
    const words = error instanceof ApiError ? REFUSALS[/** @type {keyof typeof REFUSALS} */ (error.code)] : undefined
    throw words === undefined ? error : new Refused(words)
  }
}

/**
 * Approvers show a passkey in their session first, if it began in a weaker way.
 * @param {Page} page
 * @param {ApprovalDetails} approval
 * @param {'approve' | 'deny'} what
 * @param {object} body
 */
const decide = (page, { id }, what, body) =>
  told(() => withStepUp(page, () => page.client.call('POST', `approvals/${id}/${what}`, body)))

/**
 * Shows what a delegated session asks the owner, or approvers, for, and lets them decide.
 * @param {Page} page
 */
export async function showApproval(page) {
  page.show([make('h1', {}, t`One moment…`), make('p', { class: 'lead' }, t`Loading what is asked for.`)])
  try {
    const approval = await page.client.call('GET', `approvals/${encodeURIComponent(page.config.approval)}`)
    if (approval.status !== 'pending') showOutcome(page, approval)
    else showQuestion(page, approval)
  } catch (error) {
    const isForeign = error instanceof ApiError && error.status === 404
    const words = isForeign
      ? t`There is nothing to approve for this account. Perhaps it was meant for another one of yours.`
      : t`This could not be loaded. Check your network and try again.`
    showEnd(page, isForeign ? t`Nothing to approve` : t`Not loaded`, words, !isForeign)
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
  again.addEventListener('click', () => showApproval(page))
  leave.addEventListener('click', () =>
    run(leave, t`Signing out…`, async () => {
      await endSession(page)
      page.startAgain(t`You are signed out.`)
    }),
  )
  page.show([make('h1', {}, title), make('p', { class: 'lead', dir: 'auto' }, words), content])
}

/**
 * @param {Page} page
 * @param {Pick<Approval, 'status' | 'reason'>} approval
 */
function showOutcome(page, { status, reason }) {
  const [title = t`Decided`, words = t`This was decided.`] = status === 'pending' ? WAITING : OUTCOMES[status]
  showEnd(page, title, reason === null ? words : `${words} ${t`The reason: “${reason}”`}`)
}

/**
 * A fact and its values, one each line.
 * @param {string} label
 * @param {(Node | string)[]} values
 */
const fact = (label, values) => [make('dt', {}, label), ...values.map((value) => make('dd', { dir: 'auto' }, value))]

/** @param {string} text */
const exact = (text) => make('code', { class: 'exact' }, text)

/** @param {ApprovalDetails} approval */
function payments({ document: { costs, recipients } }) {
  const pays = costs.map(({ asset, amount }) =>
    make(
      'span',
      {},
      make('strong', { class: 'amount' }, make('bdi', {}, `${amount} `, make('bdi', {}, asset.symbol))),
      make('span', { class: 'row-more' }, ' ', ...inWords`issued by ${exact(asset.issuer)}`),
    ),
  )
  return [
    ...fact(t`It pays`, pays.length === 0 ? [t`Nothing`] : pays),
    ...(recipients.length === 0 ? [] : fact(t`To`, recipients.map(exact))),
  ]
}

/** @param {ApprovalDetails} approval */
function leftWords({ remaining: { spend, budgets } }) {
  const caps = spend
    .filter(({ limit }) => limit !== null)
    .map((cap) => [cap.asset.symbol, cap.remaining, cap.limit, cap.window, t`for this session`])
  const ofWallet = budgets.map((one) => [
    one.asset.symbol,
    one.remaining,
    one.amount,
    one.window,
    t`for the whole wallet`,
  ])
  return [...caps, ...ofWallet].map(([symbol, remaining, limit, window, whose]) => {
    const span = WINDOWS[/** @type {keyof typeof WINDOWS} */ (window)] ?? ''
    return make('span', {}, ...inWords`${remaining} of ${limit} ${make('bdi', {}, symbol)} ${span}, ${whose}`)
  })
}

/** @param {ApprovalDetails['effects'][number]} effect */
function effectWords({ type, templateId, choice, contractId, arguments: given }) {
  const words =
    { created: t`Creates ${templateId}`, exercised: t`Exercises ${choice ?? ''} on ${templateId}` }[type] ??
    t`Uses up ${templateId}`
  return make(
    'li',
    {},
    make('span', { dir: 'auto' }, `${words} `),
    exact(contractId),
    make('pre', { tabindex: '0' }, JSON.stringify(given, null, 2)),
  )
}

/** @param {ApprovalDetails} approval */
const exactly = ({ document, effects }) =>
  make(
    'details',
    { class: 'exactly' },
    make('summary', {}, t`Exactly what happens`),
    make('ol', {}, ...effects.map(effectWords)),
    make('p', { class: 'row-more' }, t`What you sign:`),
    make('pre', { tabindex: '0' }, JSON.stringify(document, null, 2)),
  )

/**
 * Who has to approve, and who has. Nothing if the owner alone is asked. Names of users are not told to each other.
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
function approverFacts(page, { document, userId, approvedBy }) {
  const approved = new Set(approvedBy.map((one) => one.userId))
  /** @param {string} id */
  const who = (id) => {
    const name = id === page.user.id ? t`You` : id === userId ? t`The owner of the wallet` : exact(id)
    return make('li', {}, ...(approved.has(id) ? inWords`${name} – approved` : [name]))
  }
  return (document.approvers ?? []).flatMap(({ users, threshold }) =>
    fact(users.length === 1 ? t`Has to approve` : t`${threshold} of these ${users.length} have to approve`, [
      make('ul', { class: 'approvers' }, ...users.map(who)),
    ]),
  )
}

/**
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
function facts(page, approval) {
  const { sessionName, delegatedSessionId, document, expiresAt } = approval
  const left = leftWords(approval)
  const why = document.rules.map(({ message }) => make('span', { lang: 'en' }, message))
  return make(
    'dl',
    { class: 'facts' },
    ...payments(approval),
    ...fact(t`Who asks`, [
      make(
        'span',
        {},
        ...(sessionName
          ? inWords`A delegated session named “${make('bdi', {}, sessionName)}”`
          : [t`A delegated session`]),
      ),
      exact(delegatedSessionId),
    ]),
    ...fact(t`Why it is asked`, why),
    ...approverFacts(page, approval),
    ...(left.length === 0 ? [] : fact(t`Left after this`, left)),
    ...fact(t`You can decide until`, [timeWords(expiresAt)]),
  )
}

/**
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
function showQuestion(page, approval) {
  const place = notice()
  const yes = button({ label: t`Approve with your passkey`, kind: 'primary', iconName: 'passkey' })
  const no = button({ label: t`Refuse`, kind: 'secondary' })
  const able = passkeysWork() && approval.publicKey !== null
  const content = make('div', { class: 'stack' }, able && yes, no, place.element)
  const run = runner(content, place)
  yes.addEventListener('click', () => run(yes, t`Waiting for your passkey…`, () => approve(page, approval)))
  no.addEventListener('click', () => showRefusal(page, approval))
  page.show([
    make('h1', {}, approval.document.costs.length === 0 ? t`Approve this?` : t`Approve this payment?`),
    make(
      'p',
      { class: 'lead', dir: 'auto' },
      page.user.id === approval.userId
        ? t`Somebody whom you allowed to act from your wallet in ${page.config.appName} asks for it. Approve only what you expect.`
        : t`Somebody who acts from the wallet of another user of ${page.config.appName} asks for it. Approve only what you expect.`,
    ),
    facts(page, approval),
    exactly(approval),
    content,
  ])
  if (!passkeysWork()) place.say(t`This browser cannot use passkeys. Open this page in a newer one.`)
  else if (approval.publicKey === null) place.say(whyUnable(page, approval))
}

/**
 * Why this user's passkey is not asked for.
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
function whyUnable(page, { approvers, approvedBy }) {
  if (!approvers.some(({ users }) => users.includes(page.user.id))) return REFUSALS.approver_not_named
  if (approvedBy.some(({ userId }) => userId === page.user.id))
    return t`Your approval counts already. It waits for the others. You can still refuse.`
  return t`None of your passkeys can approve yet: one must be a day old, and made by you in a browser. You can refuse.`
}

/**
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
async function approve(page, approval) {
  if (!(await isWhatIsSigned(approval)))
    throw new Refused(t`Your passkey would sign something else than you see here. Do not approve this.`)
  const credential = await askPasskey(approval.publicKey)
  const decided = await decide(page, approval, 'approve', { credential })
  showOutcome(page, decided)
}

/**
 * @param {Page} page
 * @param {ApprovalDetails} approval
 */
function showRefusal(page, approval) {
  const place = notice()
  const reason = field({
    label: t`Reason`,
    optional: true,
    hint: t`The requester can read this.`,
    attributes: { name: 'reason', maxlength: 500, autocomplete: 'off' },
  })
  const submit = button({ label: t`Refuse`, kind: 'danger', submit: true })
  const back = button({ label: t`Back`, kind: 'quiet' })
  const form = make('form', { class: 'stack' }, reason.element, submit, back, place.element)
  const run = runner(form, place, { reason })
  onSubmit(form, () =>
    run(submit, t`Refusing…`, async () => {
      const said = reason.input.value.trim()
      const body = said === '' ? {} : { reason: said }
      showOutcome(page, await decide(page, approval, 'deny', body))
    }),
  )
  back.addEventListener('click', () => showQuestion(page, approval))
  page.show([
    make('h1', {}, t`Refuse this?`),
    make('p', { class: 'lead' }, t`Nothing is paid, and the session keeps the rest of its limits.`),
    form,
  ])
}
