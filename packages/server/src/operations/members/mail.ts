import { readAddress } from '../../identity/email-sign-in/address.ts'
import { operatorSends } from '../../identity/emails/send.ts'
import { CODE_MINUTES, queueMemberEmail, type SealedEmail, sealMemberEmail } from '../../identity/emails/service.ts'
import { oneLine } from '../../identity/emails/template.ts'
import { parseEmail } from '../../identity/users/email.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { limitEmail, limitMemberMailbox } from '../../platform/http/rate-limits/limits.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { INVITATION_DAYS, LINK_MINUTES, newLinkToken, urlOfLink } from '../dashboard/link.ts'
import { fail } from './errors.ts'
import { big, linked, renderParts, said, small } from './mail-parts.ts'
import type { Delivery } from './schema.ts'
import { type MemberRow, tenantName } from './store.ts'

/** Whom emails to members come from. */
const SENDER = 'Halfkey'

/** A tenant's name as the subject of an email has it: no room for a message of somebody else's, and no address that mail programs link. */
const shortName = (name: string) => oneLine(name).replaceAll('/', ' ').slice(0, 60)

const WORDS = {
  invited: {
    purpose: 'member_invitation',
    subject: (tenant: string) => `Your invitation to the dashboard of ${tenant}`,
    intro: (tenant: string) => `You are invited to the Halfkey dashboard of ${tenant}. Open this link to join:`,
    button: 'Join',
    until: `It works once, within ${INVITATION_DAYS} days. Then add a passkey, with which you sign in from then on.`,
    unasked: 'If you do not know who invited you, ignore this email. Forward it to nobody: the link signs in as you.',
  },
  active: {
    purpose: 'member_link',
    subject: (tenant: string) => `Your link to the dashboard of ${tenant}`,
    intro: (tenant: string) => `An owner made a link that signs you in to the Halfkey dashboard of ${tenant}:`,
    button: 'Sign in',
    until: `It works once, within ${LINK_MINUTES} minutes.`,
    unasked: 'If you did not ask for it, ignore this email. Forward it to nobody: the link signs in as you.',
  },
} as const

/** A link that is mailed: written and sealed before the transaction, because the key provider may be on the network. */
export interface LinkMail {
  token: string
  purpose: (typeof WORDS)[keyof typeof WORDS]['purpose']
  sealed: SealedEmail
}

/**
 * Counts an email for whom sends it, and for the mailbox that it goes to. @throws rate_limited, validation_failed
 */
export async function limitMail(
  deps: Deps,
  { caller, origin }: Call,
  delivery: Delivery | undefined,
  email: string,
): Promise<void> {
  if (delivery !== 'email') return
  await limitEmail(deps, caller.tenantId, origin.address)
  await limitMemberMailbox(deps, parseEmail(email).key)
}

/**
 * Writes the email with a member's link. Only the installation's own mail server sends it (in development the mailbox page).
 * @returns null for a link that is not mailed
 * @throws validation_failed for an address that no mail server has, member_email_not_configured
 */
export async function prepareLinkMail(
  deps: Deps,
  tenantId: Id<'ten'>,
  delivery: Delivery | undefined,
  { email, status }: Pick<MemberRow, 'email' | 'status'>,
): Promise<LinkMail | null> {
  if (delivery !== 'email') return null
  if (operatorSends(deps) === null) throw fail('member_email_not_configured')
  const { shown: to } = readAddress(email)
  const words = WORDS[status === 'invited' ? 'invited' : 'active']
  const tenant = shortName(await tenantName(deps.db, tenantId))
  const token = newLinkToken()
  const link = urlOfLink(deps, token, true)
  const rendered = renderParts(words.subject(tenant), [
    linked(words.intro(tenant), words.button, link),
    said(words.until),
    small(words.unasked),
  ])
  const sealed = await sealMemberEmail(deps, tenantId, { to, sender: SENDER, code: null, link, rendered })
  return { token, purpose: words.purpose, sealed }
}

/** Queues it, in the transaction that makes the link. */
export async function queueLinkMail(
  tx: Db,
  deps: Deps,
  { sealed, purpose }: LinkMail,
  { tenant_id: tenantId, id: memberId, email: address }: MemberRow,
  expiresAt: Date,
): Promise<void> {
  await queueMemberEmail(tx, deps, sealed, { tenantId, memberId, address, purpose, expiresAt, skipped: false })
}

/** Writes and seals the email with a code that signs a member in. */
export async function sealCode(deps: Deps, tenantId: Id<'ten'>, to: string, code: string): Promise<SealedEmail> {
  const tenant = shortName(await tenantName(deps.db, tenantId))
  const rendered = renderParts(`Your code for the dashboard of ${tenant}`, [
    said(`Enter this code to sign in to the Halfkey dashboard of ${tenant}:`),
    big(code),
    said(`The code is valid for ${CODE_MINUTES} minutes, in the browser that asked for it. Never give it to anybody.`),
    small('If you did not ask for this code, you can ignore this email. Nobody can sign in without the code.'),
  ])
  return sealMemberEmail(deps, tenantId, { to, sender: SENDER, code, link: null, rendered })
}
