import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { open } from '../../platform/security/crypto.ts'
import { logoUrl } from '../../tenancy/apps/logo/service.ts'
import { type SignInSettings, signInSettings } from '../../tenancy/apps/service.ts'
import { isNotice } from './schema.ts'
import type { ReadyEmail, Sender, SendOutcome } from './senders/sender.ts'
import { createSmtpSender } from './senders/smtp.ts'
import { createWebhookSender } from './senders/webhook.ts'
import * as store from './store.ts'
import { type EmailBrand, type EmailContent, type RenderedEmail, renderEmail } from './template.ts'
import { templateFor } from './templates/effective.ts'

const EMAILS_AT_ONCE = 10
/** Before each further attempt. The last ones come while the code is still valid. */
const DELAYS_SECONDS = [5, 15, 45, 120, 180]
/** Of a notice or an invitation, which are of use for days: a mail server that is down for the night costs nobody their warning. */
const NOTICE_DELAYS_SECONDS = [...DELAYS_SECONDS, 600, 1_800, 3_600, 7_200, 14_400, 14_400]

/** What is sealed of an email. */
export type SealedContent = Pick<EmailContent, 'code' | 'link' | 'at'>

/** What is sealed of an email to a member: all that is sent, and the address, so that who writes the database redirects none. */
export interface SealedMemberEmail {
  to: string
  /** Whom it comes from, beside the installation's address. */
  sender: string
  code: string | null
  link: string | null
  rendered: RenderedEmail
}

/** The context of an email's sealed content: copied to another email, or from a member's to an app's, it does not open. */
export const contentContext = (kind: 'email' | 'member email', tenantId: string, id: string) => [kind, tenantId, id]

async function openContent<T>(deps: Deps, row: store.EmailRow): Promise<T> {
  const sealed = row.content_sealed
  if (sealed === null) throw new Error(`email ${row.id} has no content`)
  const context = contentContext(store.isOfApp(row) ? 'email' : 'member email', row.tenant_id, row.id)
  return JSON.parse((await open(deps.keys, sealed, context)).toString()) as T
}

/** How the emails of an app look. */
export async function brandOf(
  deps: Deps,
  tenantId: Id<'ten'>,
  appId: Id<'app'>,
  { accentColor, logo }: Pick<SignInSettings['branding'], 'accentColor' | 'logo'>,
): Promise<EmailBrand> {
  return { accentColor, logo: logo === null ? null : await logoUrl(deps, tenantId, appId) }
}

/** Opens and writes out an email of an app. */
async function readyAppEmail(deps: Deps, row: store.AppEmailRow): Promise<ReadyEmail<store.AppEmailRow>> {
  const sealed = await openContent<SealedContent>(deps, row)
  const { tenant_id, app_id, purpose, language } = row
  const { name, branding } = await signInSettings(deps, tenant_id, app_id)
  const content: EmailContent = { purpose, language, appName: name, ...sealed }
  const template = await templateFor(deps, { tenant_id, app_id, kind: purpose, language })
  return { row, content, rendered: renderEmail(content, template, await brandOf(deps, tenant_id, app_id, branding)) }
}

/** Opens and writes out an email. @throws Error for one to a member whose address is not the one that it was written to */
export async function readyEmail(deps: Deps, row: store.EmailRow): Promise<ReadyEmail> {
  if (store.isOfApp(row)) return readyAppEmail(deps, row)
  const { to, sender, code, link, rendered } = await openContent<SealedMemberEmail>(deps, row)
  if (to !== row.address) throw new Error(`email ${row.id} was written to another address`)
  return { row, content: { appName: sender, code, link }, rendered }
}

/** The mail server or, in development, the mailbox page; null if there is neither. */
export function operatorSends({ config }: Pick<Deps, 'config'>): 'smtp' | 'mailbox' | null {
  if (config.smtp !== null && config.mailFrom !== null) return 'smtp'
  return config.env === 'development' ? 'mailbox' : null
}

interface Senders {
  webhook: Sender<store.AppEmailRow>
  operator: { send: Sender; keepsContent: boolean } | null
}

function createSenders(deps: Deps): Senders {
  const webhook = createWebhookSender(deps)
  const { smtp, mailFrom, env } = deps.config
  const kind = operatorSends(deps)
  if (kind === 'smtp' && smtp !== null && mailFrom !== null)
    return { webhook, operator: { ...createSmtpSender(smtp, mailFrom, env), keepsContent: false } }
  // The mailbox page reads it from the queue.
  return { webhook, operator: kind === null ? null : { send: async () => ({ ok: true }), keepsContent: true } }
}

/** Whether the app's own server sends its emails. An email to a member has no app, so no app's server gets it. */
const isForWebhook = async (deps: Deps, row: store.AppEmailRow): Promise<boolean> =>
  (await signInSettings(deps, row.tenant_id, row.app_id)).email.sender === 'webhook'

const isOfUseForLong = ({ purpose }: store.EmailRow) => isNotice(purpose) || purpose === 'member_invitation'

async function attempt(deps: Deps, senders: Senders, row: store.EmailRow): Promise<store.Outcome> {
  if (row.expires_at <= deps.now()) return { status: 'failed', error: row.error ?? 'It expired before it was sent.' }
  let result: SendOutcome
  let keepsContent = false
  try {
    if (store.isOfApp(row) && (await isForWebhook(deps, row)))
      result = await senders.webhook(await readyAppEmail(deps, row))
    else if (senders.operator === null) result = { ok: false, error: 'There is no mail server.', final: true }
    else {
      keepsContent = senders.operator.keepsContent
      result = await senders.operator.send(await readyEmail(deps, row))
    }
  } catch (error) {
    deps.log.error({ err: error, emailId: row.id }, 'an email could not be prepared')
    result = { ok: false, error: 'Internal error.', final: false }
  }
  if (result.ok) return { status: 'sent', keepsContent }
  const afterSeconds = (isOfUseForLong(row) ? NOTICE_DELAYS_SECONDS : DELAYS_SECONDS)[row.attempts - 1]
  if (result.final || afterSeconds === undefined) return { status: 'failed', error: result.error }
  return { status: 'queued', error: result.error, afterSeconds }
}

/**
 * Sends what is due, several at once: one step. An email whose worker dies is sent again, so that one may come twice.
 * @returns the step, which says whether there may be more at once
 */
export function createSending(deps: Deps): () => Promise<boolean> {
  let senders: Senders | undefined
  return async () => {
    const due = await store.takeDue(deps.db, EMAILS_AT_ONCE)
    if (due.length === 0) return false
    senders ??= createSenders(deps)
    const open = senders
    await Promise.all(
      due.map(async (row) => {
        const outcome = await attempt(deps, open, row)
        if (outcome.status !== 'sent')
          deps.log.warn(
            { emailId: row.id, appId: row.app_id, error: outcome.error, status: outcome.status },
            'an email was not sent',
          )
        await store.recordOutcome(deps.db, row, outcome, deps.now())
      }),
    )
    return due.length === EMAILS_AT_ONCE
  }
}
