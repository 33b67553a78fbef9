import { EVENT_TYPES } from './event-catalogue.ts'

/** Actions that are recorded in the audit log but are not events: nobody can subscribe to them. */
const AUDIT_ONLY_ACTIONS = [
  'tenant.created',
  'issuer.created',
  'issuer.updated',
  'issuer.deleted',
  'provider.created',
  'provider.updated',
  'provider.deleted',
  'email_template.updated',
  'email_template.deleted',
  'webhook.created',
  'webhook.updated',
  'webhook.deleted',
  'webhook.secret_rotated',
  'event_type.created',
  'event_type.updated',
  'event_type.archived',
  'subscriber.created',
  'subscriber.updated',
  'subscriber.deleted',
  'subscriber.portal_link_created',
  'subscriber.portal_links_revoked',
  'user.suspended',
  'user.unsuspended',
  'wallet.unfrozen',
  'wallet.sessions_revoked',
  'app.sessions_revoked',
  'agent.connection_ended',
  'users.imported',
  'member.invited',
  'member.joined',
  'member.updated',
  'member.removed',
  'member.link_created',
  'member.passkey_added',
  'member.passkey_removed',
  'member.account_connected',
  'member.account_disconnected',
  'member_sign_in.updated',
  'dashboard.signed_in',
  'dashboard.signed_out',
  'passkey.renamed',
  'custom_domain.registered',
  'template.created',
  'x402.settled',
  'webhook.delivery_retried',
  'webhook.dead_letters_retried',
  'webhook.dead_letters_purged',
  'tenant.exported',
  'audit_log.exported',
  'ledger.exported',
  'installation.signing_key_rotated',
  'installation.identity_key_rotated',
  'installation.kek_rotated',
  'installation.restore_accepted',
] as const

export type AuditOnlyAction = (typeof AUDIT_ONLY_ACTIONS)[number]

/** What an entry's `action` can be. */
export const AUDIT_ACTIONS: readonly string[] = [...EVENT_TYPES, ...AUDIT_ONLY_ACTIONS]

/** `user` of `user.created`. */
export const familyOf = (action: string): string => action.slice(0, action.indexOf('.'))

/** All actions of a family, as a filter names them: `user.*`. */
export const AUDIT_FAMILIES: readonly string[] = [...new Set(AUDIT_ACTIONS.map(familyOf))].map((name) => `${name}.*`)

/** The actions that a filter means: one, or a family's. */
export function actionsOf(filter: string): readonly string[] {
  return filter.endsWith('.*') ? AUDIT_ACTIONS.filter((action) => action.startsWith(filter.slice(0, -1))) : [filter]
}
