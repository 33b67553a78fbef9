import { quoted } from '../../platform/security/sealed-values.ts'

/** A table in an export: its columns without the tenant's id and those of `REMADE`. */
export interface Table {
  name: string
  columns: { name: string; type: string }[]
  /** Its primary key without the tenant, by which its rows are ordered. */
  order: string[]
}

/** The values of a row as text, null for NULL. */
export type Row = (string | null)[]

/** The schema in which the rows of an import wait until the tenant goes live. Nothing else reads it. */
export const stagingSchema = (importId: string): string => quoted(`halfkey_import_${importId}`)

/** A staged table as it stands in SQL. */
export const staged = (importId: string, table: string): string => `${stagingSchema(importId)}.${quoted(table)}`

/** Why a table is not exported. */
export interface LeftOut {
  leftOut: string
}

const ofInstallation: LeftOut = { leftOut: "the installation's own" }
const shortLived: LeftOut = { leftOut: 'counts for minutes; asked for again' }
const underWay: LeftOut = { leftOut: 'what is under way ends with the old installation, and is begun again' }

/**
 * All tables of the schema, and whether a tenant's rows move with the tenant. An export stops at a table that is not
 * listed here, so that new tables are not forgotten. Rows go live in this order: first the tables that others refer to.
 */
export const TABLES: Readonly<Record<string, 'copied' | LeftOut>> = {
  accepted_restores: ofInstallation,
  tenants: 'copied',
  apps: 'copied',
  app_logos: 'copied',
  app_issuers: 'copied',
  app_providers: 'copied',
  email_templates: 'copied',
  users: 'copied',
  wallets: 'copied',
  wallet_spending: 'copied',
  wallet_recipients: 'copied',
  delegated_sessions: 'copied',
  agent_tokens: { leftOut: 'opens the old installation only: users connect their agents again' },
  approvals: 'copied',
  approval_assertions: 'copied',
  analytics_active_users: 'copied',
  analytics_daily: 'copied',
  api_keys: 'copied',
  attempts: 'copied',
  audit_counts: 'copied',
  audit_entries: 'copied',
  audit_heads: 'copied',
  audit_only_entries: 'copied',
  auth_epoch: ofInstallation,
  challenges: shortLived,
  counter_increments: 'copied',
  custom_domains: 'copied',
  dashboard_links: { leftOut: 'opens the old installation only; asked for again' },
  dashboard_sessions: { leftOut: 'cookies of the old address: everybody signs in again' },
  denials: { leftOut: 'explains refusals of the old installation, for 30 days' },
  deliveries: 'copied',
  deliveries_done: 'copied',
  email_challenges: shortLived,
  email_recoveries: underWay,
  encryption_keys: { leftOut: "the installation's own; whatever is sealed to one is opened within minutes" },
  erasures: 'copied',
  event_keys: { leftOut: 'answers to requests of the old installation' },
  event_types: 'copied',
  events: 'copied',
  feed: 'copied',
  feed_cursors: 'copied',
  feed_heads: 'copied',
  guests: 'copied',
  idempotency_keys: { leftOut: 'answers to requests of the old installation' },
  id_token_keys: { leftOut: "the installation's own: verifiers read the key sets of the new one" },
  identities: 'copied',
  identity_keys: { leftOut: 'identifies the old installation: clients get the pin of the new one' },
  imports: ofInstallation,
  installation: ofInstallation,
  jobs: underWay,
  key_generations: underWay,
  key_shares: 'copied',
  lanes: 'copied',
  ledger_chain: 'copied',
  ledger_contracts: 'copied',
  ledger_heads: 'copied',
  ledger_stakes: 'copied',
  ledger_templates: 'copied',
  ledger_updates: 'copied',
  messenger_payloads: 'copied',
  member_challenges: shortLived,
  member_sign_in: 'copied',
  members: 'copied',
  member_codes: shortLived,
  member_identities: 'copied',
  member_passkeys: 'copied',
  emails: { leftOut: 'codes and links of the old installation' },
  mfa_factors: 'copied',
  migrations: ofInstallation,
  outbox: 'copied',
  passkeys: 'copied',
  processor_events: ofInstallation,
  record_keys: ofInstallation,
  recovery_codes: 'copied',
  relying_parties: 'copied',
  resharings: underWay,
  revoked_sessions: { leftOut: "of sessions, which don't move" },
  server_verifications: shortLived,
  sessions: { leftOut: "tokens follow from the installation's secrets: users sign in again" },
  sign_in_codes: shortLived,
  signing_keys: ofInstallation,
  subscribers: 'copied',
  portal_links: shortLived,
  subscriptions: 'copied',
  transactions: 'copied',
  usage_meters: 'copied',
  used_proofs: { leftOut: 'count for two minutes, within which no import is complete' },
  used_tokens: 'copied',
  user_counts: 'copied',
  token_cursors: ofInstallation,
  // What was received once is not received again there.
  token_holdings: 'copied',
  token_offers: 'copied',
  token_views: { leftOut: 'read again from the ledgers of the new installation' },
  wallet_onboardings: { leftOut: 'prepared again by the ledger of the new installation' },
  webhooks: 'copied',
  webhook_alerts: { leftOut: 'a webhook that still fails is reported again' },
  webhook_minutes: shortLived,
  workers: ofInstallation,
  payment_settlements: 'copied',
}

/** The column with the tenant of a row. */
export const tenantColumn = (table: string): string => (table === 'tenants' ? 'id' : 'tenant_id')

/**
 * Columns with a meaning in one installation only, by table, and their first value in the next one, as SQL; null for the
 * column's default.
 */
export const REMADE: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
  // Authenticated by a key of the installation: made anew where they go live.
  api_keys: { mac: null, version: null },
  passkeys: { mac: null },
  wallets: { mac: null, version: null, sessions: null, recipients: null },
  key_shares: { mac: null, version: null },
  delegated_sessions: { mac: null },
  approvals: { mac: null, version: null },
  approval_assertions: { mac: null },
  // The spending that it names a version of begins with its first version there.
  transactions: { mac: null, version: null, spending_version: null },
  ledger_templates: { mac: null },
  users: { mac: null, version: null, credentials: null, factor_version: null },
  mfa_factors: { mac: null, version: null, recovery_digest: null },
  members: { mac: null, version: null },
  member_passkeys: { mac: null },
  member_sign_in: { mac: null, version: null },
  member_identities: { mac: null },
  wallet_spending: { mac: null, version: null },
  wallet_recipients: { mac: null },
  apps: { mac: null, version: null },
  identities: { mac: null },
  audit_only_entries: { mac: null },
  app_issuers: { mac: null, version: null },
  app_providers: { mac: null, version: null },
  // Transaction ids count within one server.
  ledger_updates: { xid: null },
  ledger_heads: { read_xid: null, read_offset: null },
  // Deliveries that were being sent are sent again: no worker here has a lease.
  deliveries: { lease_id: null, lease_until: null },
  lanes: { due_at: 'now()', floor_at: null, saturated: null },
  // Stays verified until its record is missing. Checked at once, since the file proves nothing.
  custom_domains: { next_check_at: "case when status in ('pending', 'verified') then now() end", missing_since: null },
  // Only the payment processor knows what is paid. It is asked, as for any state that is older than a day.
  tenants: { plan: null },
  subscriptions: { period_start: null, period_end: null, updated_at: 'to_timestamp(0)' },
}
