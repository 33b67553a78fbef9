import type { EVENT_CATALOGUE, EventType } from '../../platform/events/event-catalogue.ts'
import type { EventContext, FeedEvent } from '../../platform/events/feed.ts'
import { type Id, newId } from '../../platform/ids.ts'
import type { Act } from './chain.ts'

/** An act that is yet to get its place in the chain. */
export interface NewAct extends Act {
  address: string | null
}

type Catalogue = typeof EVENT_CATALOGUE
/** For each event type the field of its data that names the record it is about; `tenant` where it is the tenant's. */
type Targets = { [T in EventType]: keyof Catalogue[T]['data'] | 'tenant' }

const TARGETS: Targets = {
  'user.created': 'userId',
  'user.updated': 'userId',
  'user.deleted': 'userId',
  'user.signed_in': 'sessionId',
  'wallet.created': 'walletId',
  'wallet.ready': 'walletId',
  'wallet.failed': 'walletId',
  'wallet.frozen': 'walletId',
  'guest.created': 'guestId',
  'guest.converted': 'guestId',
  'guest.expired': 'guestId',
  'passkey.registered': 'passkeyId',
  'passkey.removed': 'passkeyId',
  'session.revoked': 'sessionId',
  'session.reuse_detected': 'sessionId',
  'mfa.enabled': 'userId',
  'mfa.disabled': 'userId',
  'mfa.locked': 'userId',
  'mfa.recovery_code_used': 'userId',
  'delegated_session.created': 'delegatedSessionId',
  'delegated_session.revoked': 'delegatedSessionId',
  'delegated_session.expired': 'delegatedSessionId',
  'delegated_session.exhausted': 'delegatedSessionId',
  'delegated_session.denied': 'delegatedSessionId',
  'tx.submitted': 'transactionId',
  'tx.completed': 'transactionId',
  'tx.failed': 'transactionId',
  'key_share.stored': 'walletId',
  'key_share.retrieved': 'walletId',
  'key_share.deleted': 'walletId',
  'key.recovered': 'walletId',
  'api_key.created': 'apiKeyId',
  'api_key.rotated': 'apiKeyId',
  'api_key.revoked': 'apiKeyId',
  'app.created': 'appId',
  'app.updated': 'appId',
  'app.deleted': 'appId',
  'custom_domain.verified': 'domainId',
  'custom_domain.failed': 'domainId',
  'custom_domain.removed': 'domainId',
  'tenant.updated': 'tenantId',
  'webhook.test': 'webhookId',
  'webhook.disabled': 'webhookId',
  'webhook.delivery_dead_lettered': 'deliveryId',
  'billing.plan_changed': 'tenant',
  'usage.threshold_reached': 'tenant',
}

/** What somebody does who has no session yet, by which the context would name them: the user. */
const BY_USER: readonly EventType[] = ['user.signed_in', 'passkey.registered']
/** What is done by means of a delegated session. */
const BY_DELEGATE: readonly EventType[] = ['tx.submitted', 'tx.completed', 'tx.failed', 'delegated_session.denied']

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const isUser = (actor: string) => actor.startsWith('usr_')

function actorOf(type: EventType, data: Record<string, unknown>, { actor }: EventContext): string {
  if (BY_DELEGATE.includes(type)) return text(data.delegatedSessionId) ?? actor
  if (BY_USER.includes(type) && !isUser(actor)) return text(data.userId) ?? actor
  return actor
}

/** What the log tells of an event: who, what, to what, from where; nothing else of its data. */
export function actOfEvent(tenantId: Id<'ten'>, event: FeedEvent): NewAct {
  const { type, context } = event
  const { data = {} } = JSON.parse(event.body) as { data?: Record<string, unknown> }
  const actor = actorOf(type, data, context)
  const field = TARGETS[type] as string
  return {
    id: newId('aud'),
    at: event.createdAt.toISOString(),
    actor,
    keyId: context.keyId ?? null,
    action: type,
    target: field === 'tenant' ? tenantId : (text(data[field]) ?? ''),
    // Whoever called for themselves, or whose record it is: theirs may be the address.
    userId: isUser(context.actor) ? context.actor : text(data.userId),
    appId: event.appId,
    eventId: event.id,
    requestId: context.requestId ?? null,
    address: context.address ?? null,
  }
}

/** A note as the table holds it. */
export interface AuditOnlyRow {
  id: Id<'aud'>
  at: Date
  action: string
  target: string
  user_id: Id<'usr'> | null
  app_id: Id<'app'> | null
  context: EventContext
}

/** What the log tells of an act that is no event. */
export function actOfAuditOnly(row: AuditOnlyRow): NewAct {
  const { context } = row
  return {
    id: row.id,
    at: row.at.toISOString(),
    actor: context.actor,
    keyId: context.keyId ?? null,
    action: row.action,
    target: row.target,
    userId: isUser(context.actor) ? context.actor : row.user_id,
    appId: row.app_id,
    eventId: null,
    requestId: context.requestId ?? null,
    address: context.address ?? null,
  }
}
