import { AUDIT_ACTIONS, familyOf } from './audit-actions.ts'
import { EVENT_TYPES } from './event-catalogue.ts'

/** The form of the name of an event type that a team defines. */
export const CUSTOM_TYPE = /^[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)+$/
export const CUSTOM_TYPE_CHARS_MAX = 100

/** First parts of names that only Halfkey uses, for events and for entries of the audit log. */
const RESERVED: ReadonlySet<string> = new Set(['halfkey', ...AUDIT_ACTIONS.map(familyOf)])

/** Whether only Halfkey may use names that begin like this one: `user.anything`. */
export const isReserved = (name: string): boolean => RESERVED.has(familyOf(name))

const families = [...new Set(EVENT_TYPES.map((type) => `${familyOf(type)}.*`))]
/** What of Halfkey's own events can be subscribed to: a type, a family, or everything. */
const SUBSCRIPTIONS: ReadonlySet<string> = new Set(['*', ...families, ...EVENT_TYPES])

const CUSTOM_FAMILY = /^[a-z][a-z0-9_-]*\.\*$/

/**
 * What a subscription or a filter names: `known` events of Halfkey, or a whole family of a team's; the `custom` type of a
 * team, which may or may not exist; or nothing.
 */
export function subscriptionKind(entry: string): 'known' | 'custom' | 'invalid' {
  if (SUBSCRIPTIONS.has(entry)) return 'known'
  if (isReserved(entry)) return 'invalid'
  if (CUSTOM_FAMILY.test(entry)) return 'known'
  return CUSTOM_TYPE.test(entry) ? 'custom' : 'invalid'
}
