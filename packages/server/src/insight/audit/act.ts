import type { AuditOnlyRow } from '../../platform/events/audit-only-entries.ts'
import type { EVENT_CATALOGUE, EventType } from '../../platform/events/event-catalogue.ts'
import type { EventContext, FeedEvent } from '../../platform/events/feed.ts'
import { type Id, newId } from '../../platform/ids.ts'
import type { NewAct } from './chain.ts'

/** The part of a type before its last dot: `user` of `user.created`. */
type Family<T extends EventType> = T extends `${infer F}.${string}` ? F : never
/** A field that the data of all these types has; `tenant` where the target is the tenant itself. */
type TargetOf<T extends EventType> = keyof (typeof EVENT_CATALOGUE)[T]['data'] | 'tenant'

/** For each family of event types the field of its data that names the record it is about. */
const TARGETS: { [F in Family<EventType>]: TargetOf<Extract<EventType, `${F}.${string}`>> } = {
  user: 'userId',
  wallet: 'walletId',
  token: 'walletId',
  guest: 'guestId',
  passkey: 'passkeyId',
  identity: 'identityId',
  session: 'sessionId',
  mfa: 'userId',
  delegated_session: 'delegatedSessionId',
  budget: 'walletId',
  approval: 'approvalId',
  agent: 'delegatedSessionId',
  recipient: 'recipientId',
  tx: 'transactionId',
  key_share: 'walletId',
  key: 'walletId',
  api_key: 'apiKeyId',
  app: 'appId',
  custom_domain: 'domainId',
  tenant: 'tenantId',
  webhook: 'webhookId',
  billing: 'tenant',
  usage: 'tenant',
  record: 'recordId',
}
/** Types whose target is another one than their family's. */
const EXCEPTIONS: { [T in EventType]?: TargetOf<T> } = {
  'user.signed_in': 'sessionId',
  'webhook.delivery_dead_lettered': 'deliveryId',
}

/** Acts of a user who has no session yet, so the context does not name the user. */
const BY_USER: readonly EventType[] = ['user.signed_in', 'passkey.registered', 'identity.linked']
/** Acts that use a delegated session. */
const BY_DELEGATE: readonly EventType[] = [
  'tx.submitted',
  'tx.completed',
  'tx.completed_late',
  'tx.failed',
  'delegated_session.denied',
  'budget.exceeded',
  'approval.requested',
]

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)
const isUser = (actor: string) => actor.startsWith('usr_')

function actorOf(type: EventType, data: Record<string, unknown>, { actor }: EventContext): string {
  if (BY_DELEGATE.includes(type)) return text(data.delegatedSessionId) ?? actor
  if (BY_USER.includes(type) && !isUser(actor)) return text(data.userId) ?? actor
  return actor
}

/** What an event and a note have in common. */
function actOf(context: EventContext, what: Pick<NewAct, 'actor' | 'action' | 'target'>, userId: string | null) {
  return {
    ...what,
    // A user who acts, or else the user whose record it is: the address may be theirs.
    userId: isUser(context.actor) ? context.actor : userId,
    keyId: context.keyId ?? null,
    requestId: context.requestId ?? null,
    address: context.address ?? null,
  }
}

/** The entry of an event: who did what to what, from where; nothing else of its data. */
export function actOfEvent(tenantId: Id<'ten'>, { id, type, appId, createdAt, body, context }: FeedEvent): NewAct {
  const { data = {} } = JSON.parse(body) as { data?: Record<string, unknown> }
  const field: string = EXCEPTIONS[type] ?? TARGETS[type.split('.')[0] as Family<EventType>]
  const target = field === 'tenant' ? tenantId : (text(data[field]) ?? '')
  const what = { actor: actorOf(type, data, context), action: type, target }
  const act = actOf(context, what, text(data.userId))
  return { id: newId('aud'), at: createdAt.toISOString(), appId, eventId: id, ...act }
}

/** The entry of an act that is no event. */
export function actOfAuditOnly({ id, at, action, target, user_id, app_id, context }: AuditOnlyRow): NewAct {
  const act = actOf(context, { actor: context.actor, action, target }, user_id)
  return { id, at: at.toISOString(), appId: app_id, eventId: null, ...act }
}
