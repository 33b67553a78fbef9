import { defineRecord } from './kind.ts'

/** The ids of a user's passkeys, identities and pending recovery, in order. */
const CREDENTIALS = `(
  select coalesce(string_agg(c.id, ' ' order by c.id), '') from (
    select id from passkeys p where p.tenant_id = users.tenant_id and p.user_id = users.id
    union all select id from identities i where i.tenant_id = users.tenant_id and i.user_id = users.id
    union all select id from email_recoveries r
      where r.tenant_id = users.tenant_id and r.user_id = users.id and r.status = 'pending') c)`

/** What the user's row of second factors says. */
const factor = (column: string) =>
  `select ${column} from mfa_factors f where f.tenant_id = users.tenant_id and f.user_id = users.id`

const FACTOR_VERSION = `coalesce((${factor('version')}), users.factor_version, 0)`

/**
 * The MAC of a user: by which address they sign in, whether they may, what they sign in with, and whether they have a second
 * factor. Declared here, because statements of several slices read it beside what it decides on.
 */
export const USER_RECORD = defineRecord({
  name: 'user',
  table: 'users',
  key: ['id'],
  since: 2,
  versioned: true,
  columns: {
    app_id: 'text',
    email: 'text',
    email_key: 'text',
    email_verified: 'boolean',
    external_id: 'text',
    party_id: 'text',
    status: 'text',
    guest: 'boolean',
    guest_ended: 'boolean',
    mfa_enabled: 'boolean',
    credentials: 'text',
    factor_version: 'integer',
  },
  sets: {
    credentials: { now: CREDENTIALS, type: 'text', since: 2 },
    factor_version: {
      now: FACTOR_VERSION,
      type: 'integer',
      since: 2,
      holds: `users.factor_version = ${FACTOR_VERSION} and users.mfa_enabled = exists (${factor('1')} and f.secret_sealed is not null)`,
    },
  },
  notAuthority: {
    name: 'shown only',
    trust_level: 'shown and counted: who can sign follows from the wallet',
    metadata: "the tenant's own notes",
    search_text: 'finds users in lists',
    created_event_id: 'which event an erasure blanks',
    last_seen_at: 'shown only',
    created_at: 'shown only',
    updated_at: 'shown only',
  },
})
