import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Caller, Page } from '../../platform/http/route.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { seal } from '../../platform/security/crypto.ts'
import { listScope, type SignInSettings } from '../../tenancy/apps/service.ts'
import type { EmailLanguage, EmailPurpose, ListEmails, MemberPurpose, SentEmail } from './schema.ts'
import { contentContext, operatorSends, type SealedContent, type SealedMemberEmail } from './send.ts'
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

async function sealContent(
  deps: Deps,
  tenantId: Id<'ten'>,
  kind: Parameters<typeof contentContext>[0],
  content: SealedContent | SealedMemberEmail,
): Promise<SealedEmail> {
  const id = newId('eml')
  return { id, content_sealed: await seal(deps.keys, JSON.stringify(content), contentContext(kind, tenantId, id)) }
}

/** Gives an email its id and seals what it says. Call it before any transaction, because the key provider may be on the network. */
export const sealEmail = (deps: Deps, tenantId: Id<'ten'>, content: SealedContent): Promise<SealedEmail> =>
  sealContent(deps, tenantId, 'email', content)

/** The same for an email to a member. */
export const sealMemberEmail = (deps: Deps, tenantId: Id<'ten'>, content: SealedMemberEmail): Promise<SealedEmail> =>
  sealContent(deps, tenantId, 'member email', content)

/** What every email to be queued has. */
interface Queued {
  tenantId: Id<'ten'>
  address: string
  expiresAt: Date
  /** Nobody gets it: it is stored all the same, so that the call takes as long. */
  skipped: boolean
}

/** An email of an app to be queued. */
export interface NewEmail extends Queued {
  appId: Id<'app'>
  userId: Id<'usr'> | null
  purpose: EmailPurpose
  language: EmailLanguage
}

/** An email to a member to be queued. */
export interface NewMemberEmail extends Queued {
  memberId: Id<'mem'> | null
  purpose: MemberPurpose
}

type Kind = Pick<store.EmailRow, 'app_id' | 'user_id' | 'member_id' | 'purpose' | 'language'>

async function queue(
  tx: Db,
  deps: Deps,
  sealed: SealedEmail,
  { tenantId, address, expiresAt, skipped }: Queued,
  kind: Kind,
) {
  const now = deps.now()
  tx.afterCommit(deps.wake.tasks)
  await store.insertEmail(tx, {
    tenant_id: tenantId,
    id: sealed.id,
    ...kind,
    address,
    content_sealed: skipped ? null : sealed.content_sealed,
    status: skipped ? 'skipped' : 'queued',
    attempts: 0,
    error: null,
    // Schedules are kept by the database's clock, for which this is past.
    next_at: skipped ? null : new Date(0),
    expires_at: expiresAt,
    sent_at: null,
    created_at: now,
    updated_at: now,
  })
}

/** Queues an email in the transaction of its challenge. A worker sends it; no request waits for a mail server. */
export function queueEmail(tx: Db, deps: Deps, sealed: SealedEmail, email: NewEmail): Promise<void> {
  const { appId: app_id, userId: user_id, purpose, language } = email
  return queue(tx, deps, sealed, email, { app_id, user_id, member_id: null, purpose, language })
}

/** The same for an email to a member, which only the installation's mail server sends. */
export function queueMemberEmail(tx: Db, deps: Deps, sealed: SealedEmail, email: NewMemberEmail): Promise<void> {
  const { memberId: member_id, purpose } = email
  return queue(tx, deps, sealed, email, { app_id: null, user_id: null, member_id, purpose, language: 'en' })
}

/** A page of the emails that the key can see, newest first. @throws not_found */
export async function listEmails(deps: Deps, caller: Caller, query: ListEmails): Promise<Page<SentEmail>> {
  return store.listEmails(deps.db, await listScope(deps, caller, query), query.status, query)
}
