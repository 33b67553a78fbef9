import type { Sql } from '../../platform/db/db.ts'

/** A table as it travels: its columns, without the tenant's id and without what is made anew. */
export interface Table {
  name: string
  columns: { name: string; type: string }[]
  /** Its primary key without the tenant, by which its rows are ordered. */
  order: string[]
}

/** The values of a row as text, null for NULL. */
export type Row = (string | null)[]

/** A statement whose text follows from the schema. Never prepared, since such texts have no bound in the source. */
export const composed = (text: string, values: readonly unknown[] = []): Sql => ({ text, values, name: '' })

/** A name as it stands in SQL. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** The schema in which the rows of an import wait until the tenant goes live. Nothing else reads it. */
export const stagingSchema = (importId: string): string => quoted(`halfkey_import_${importId}`)

/** A staged table as it stands in SQL. */
export const staged = (importId: string, table: string): string => `${stagingSchema(importId)}.${quoted(table)}`

/** Why a table stays behind. */
export interface LeftOut {
  leftOut: string
}

const ofInstallation: LeftOut = { leftOut: "the installation's own" }
const shortLived: LeftOut = { leftOut: 'counts for minutes; asked for again' }
const underWay: LeftOut = { leftOut: 'what is under way ends with the old installation, and is begun again' }

/**
 * Every table of the schema: whether a tenant's rows of it move with the tenant. A table that is not named here stops an
 * export, so that a later one is not forgotten.
 */
export const TABLES: Readonly<Record<string, 'copied' | LeftOut>> = {
  analytics_active_users: 'copied',
  analytics_daily: 'copied',
  api_keys: 'copied',
  apps: 'copied',
  attempts: 'copied',
  audit_counts: 'copied',
  audit_entries: 'copied',
  audit_heads: 'copied',
  audit_notes: 'copied',
  auth_epoch: ofInstallation,
  challenges: shortLived,
  custom_domains: 'copied',
  delegated_sessions: 'copied',
  dashboard_links: { leftOut: 'opens the old installation only; asked for again' },
  dashboard_sessions: { leftOut: 'cookies of the old address: everybody signs in again' },
  deliveries: 'copied',
  deliveries_done: 'copied',
  encryption_keys: { leftOut: "the installation's own; whatever is sealed to one is opened within minutes" },
  erasures: 'copied',
  events: 'copied',
  feed: 'copied',
  feed_cursors: 'copied',
  feed_heads: 'copied',
  guests: 'copied',
  idempotency_keys: { leftOut: 'answers to requests of the old installation' },
  identities: 'copied',
  imports: ofInstallation,
  installation: ofInstallation,
  jobs: underWay,
  key_generations: underWay,
  key_shares: 'copied',
  lanes: 'copied',
  ledger_contracts: 'copied',
  ledger_stakes: 'copied',
  ledger_templates: 'copied',
  ledger_updates: 'copied',
  messenger_payloads: 'copied',
  mfa_factors: 'copied',
  migrations: ofInstallation,
  outbox: 'copied',
  passkeys: 'copied',
  processor_events: ofInstallation,
  recovery_codes: 'copied',
  relying_parties: 'copied',
  resharings: underWay,
  revoked_sessions: { leftOut: "of sessions, which don't move" },
  server_verifications: shortLived,
  sessions: { leftOut: "tokens follow from the installation's secrets: users sign in again" },
  sign_in_codes: shortLived,
  signing_keys: ofInstallation,
  subscriptions: 'copied',
  tallies: 'copied',
  tenants: 'copied',
  transactions: 'copied',
  usage_meters: 'copied',
  user_counts: 'copied',
  users: 'copied',
  wallets: 'copied',
  webhooks: 'copied',
  workers: ofInstallation,
}

/** The column that says whose a row is. */
export const tenantColumn = (table: string): string => (table === 'tenants' ? 'id' : 'tenant_id')

/**
 * Columns that mean something in their own installation only, by table: what they begin with in the next one, as SQL;
 * null for the column's default.
 */
export const REMADE: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  // Transaction ids count within one server.
  ledger_updates: { xid: null },
  // What was being sent is sent again: nobody here has leased it.
  deliveries: { lease_id: null, lease_until: null },
  lanes: { due_at: 'now()', floor_at: null, saturated: null },
  // Verified until its record is found to be missing: looked at once, since a file alone proves nothing.
  custom_domains: { next_check_at: "case when status in ('pending', 'verified') then now() end", missing_since: null },
  // What is paid for the processor alone says, which is asked for what has not been looked at in a day.
  tenants: { plan: null },
  subscriptions: { period_start: null, period_end: null, updated_at: 'to_timestamp(0)' },
}
