import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Caller, Page } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import { listScope, type SignInSettings } from '../../tenancy/apps/service.ts'
import type { EmailLanguage, EmailPurpose, ListEmails, SentEmail } from './schema.ts'
import { contentContext, operatorSends, type SealedContent } from './send.ts'
import * as store from './store.ts'

export { deleteOldEmails, setUser as setEmailUser } from './store.ts'
export { CODE_MINUTES } from './template.ts'

export const EMAIL_ERRORS = {
  email_not_configured: [404, 'Nothing sends emails for this app. Set HALFKEY_SMTP_URL, or let your server send them.'],
} as const

const fail = failures(EMAIL_ERRORS)

/** Whether somebody sends the emails of an app. */
export const canSend = (deps: Deps, { email }: SignInSettings): boolean =>
  email.sender === 'webhook' || operatorSends(deps) !== null

/** @throws email_not_configured */
export function requireMailer(deps: Deps, app: SignInSettings): void {
  if (!canSend(deps, app)) throw fail('email_not_configured')
}

/** An email with its content sealed. */
export type SealedEmail = Pick<store.EmailRow, 'id' | 'content_sealed'>

/** Gives an email its id and seals what it says. Call it before any transaction, because the key provider may be on the network. */
export async function sealEmail(deps: Deps, tenantId: Id<'ten'>, content: SealedContent): Promise<SealedEmail> {
  const id = newId('eml')
  return { id, content_sealed: await seal(deps.keys, JSON.stringify(content), contentContext(tenantId, id)) }
}

/** An email to be queued. */
export interface NewEmail {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  userId: Id<'usr'> | null
  address: string
  purpose: EmailPurpose
  language: EmailLanguage
  expiresAt: Date
  /** Nobody gets it: it is stored all the same, so that the call takes as long. */
  skipped: boolean
}

/** Queues an email in the transaction of its challenge. A worker sends it; no request waits for a mail server. */
export async function queueEmail(tx: Db, deps: Deps, sealed: SealedEmail, email: NewEmail): Promise<void> {
  const now = deps.now()
  tx.afterCommit(deps.wake.tasks)
  await store.insertEmail(tx, {
    tenant_id: email.tenantId,
    id: sealed.id,
    app_id: email.appId,
    user_id: email.userId,
    address: email.address,
    purpose: email.purpose,
    language: email.language,
    content_sealed: email.skipped ? null : sealed.content_sealed,
    status: email.skipped ? 'skipped' : 'queued',
    attempts: 0,
    error: null,
    // Schedules are kept by the database's clock, for which this is past.
    next_at: email.skipped ? null : new Date(0),
    expires_at: email.expiresAt,
    sent_at: null,
    created_at: now,
    updated_at: now,
  })
}

/** A page of the emails that the key can see, newest first. @throws not_found */
export async function listEmails(deps: Deps, caller: Caller, query: ListEmails): Promise<Page<SentEmail>> {
  return store.listEmails(deps.db, await listScope(deps, caller, query), query.status, query)
}
