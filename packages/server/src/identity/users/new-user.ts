import { mergeMetadata } from '../../platform/http/metadata.ts'
import { type Id, newId } from '../../platform/ids.ts'
import { foldCase, parseEmail } from './email.ts'
import type { UserRow } from './store.ts'

/** The fields of a new user. Absent fields are stored as null. */
export interface NewUser {
  /** Given if the id was needed before the user is created. */
  id?: Id<'usr'>
  appId: Id<'app'>
  email?: string | null | undefined
  /** Whether it was shown to be theirs. By default false. */
  emailVerified?: boolean
  name?: string | null | undefined
  externalId?: string | null | undefined
  metadata?: Record<string, string> | undefined
}

/** The tenant of a new user, and the time of creation. */
export interface NewUserPlace {
  tenantId: Id<'ten'>
  /** The namespace of the tenant's parties. */
  namespace: string
  now: Date
}

/** The text that a search looks through. */
export function searchText(row: Pick<UserRow, 'id' | 'email' | 'name' | 'external_id'>): string {
  // The separator is a control character, which a search cannot contain, so that no match spans two fields.
  return foldCase([row.id, row.email, row.name, row.external_id].filter((part) => part !== null).join('\u0001'))
}

/** A name in its stored form. */
export const trimmed = (text: string | null | undefined) =>
  text === null || text === undefined ? null : text.trim().normalize('NFC')

/** A new user's row, with its party. @throws validation_failed */
export function newUserRow({ tenantId, namespace, now }: NewUserPlace, input: NewUser): UserRow {
  const id = input.id ?? newId('usr')
  const email = input.email == null ? null : parseEmail(input.email)
  const row: UserRow = {
    tenant_id: tenantId,
    id,
    app_id: input.appId,
    email: email?.shown ?? null,
    email_key: email?.key ?? null,
    email_verified: email !== null && (input.emailVerified ?? false),
    name: trimmed(input.name),
    external_id: input.externalId ?? null,
    party_id: `${id}::${namespace}`,
    trust_level: 'embedded',
    status: 'active',
    mfa_enabled: false,
    guest: false,
    guest_ended: false,
    credentials: '',
    factor_version: 0,
    metadata: mergeMetadata({}, input.metadata),
    search_text: '',
    created_event_id: null,
    last_seen_at: null,
    created_at: now,
    updated_at: now,
    version: 0,
    mac: null,
  }
  row.search_text = searchText(row)
  return row
}
