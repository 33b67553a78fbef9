import { quoted } from '../security/sealed-values.ts'
import { type Db, sql } from './db.ts'

/**
 * What the service never changes once it is written, beside primary keys, by table: whoever takes over the
 * process, or finds a way to write SQL through it, does not change it either. `all`: rows are only added.
 */
export const FIXED: Readonly<Record<string, readonly string[] | 'all'>> = {
  accepted_restores: 'all',
  agent_tokens: [
    'kind',
    'app_id',
    'delegated_session_id',
    'client_id',
    'redirect_uri',
    'code_challenge',
    'box',
    'expires_at',
  ],
  api_keys: ['type', 'app_id', 'created_by'],
  audit_entries: [
    'id',
    'at',
    'actor',
    'key_id',
    'action',
    'target',
    'user_id',
    'app_id',
    'event_id',
    'request_id',
    'address_hash',
    'previous_hash',
    'hash',
  ],
  delegated_sessions: ['app_id', 'user_id', 'wallet_id', 'token_hash', 'jkt', 'policy', 'server_execute', 'max_uses'],
  email_recoveries: ['app_id', 'user_id', 'email_key'],
  events: ['app_id', 'type'],
  id_token_keys: ['app_id', 'created_at'],
  identities: ['app_id', 'provider', 'issuer', 'subject', 'user_id'],
  key_shares: ['wallet_id', 'generation', 'index', 'holder', 'scheme', 'curve', 'commitments', 'verifying_share'],
  ledger_contracts: ['template_id', 'arguments', 'signatories', 'observers', 'created_offset', 'seed', 'index'],
  ledger_stakes: 'all',
  ledger_templates: ['definition'],
  ledger_updates: 'all',
  member_codes: ['member_id', 'email_key', 'code_hmac', 'browser_hash', 'expires_at', 'created_at'],
  member_identities: 'all',
  member_passkeys: ['member_id', 'credential_id', 'public_key', 'rp_id'],
  members: ['email', 'email_key', 'invited_by', 'created_at'],
  migrations: 'all',
  passkeys: ['app_id', 'user_id', 'credential_id', 'public_key'],
  sessions: ['app_id', 'user_id', 'weak', 'is_new_user'],
  signing_keys: ['public_key', 'remote_public_key'],
  used_proofs: 'all',
  transactions: ['app_id', 'user_id', 'wallet_id', 'party_id', 'delegated_session_id', 'ledger', 'command_id'],
  users: ['app_id', 'party_id'],
  wallet_recipients: 'all',
  wallets: ['app_id', 'user_id', 'ledger', 'custody', 'party_id', 'curve', 'key_origin'],
  payment_settlements: 'all',
}

/** Tables from which the service deletes nothing. What goes with its owner is deleted by the database, as the tables' owner. */
export const KEPT: readonly string[] = [
  'audit_entries',
  'audit_heads',
  'delegated_sessions',
  'installation',
  'ledger_chain',
  'ledger_contracts',
  'ledger_heads',
  'ledger_templates',
  'ledger_updates',
  'members',
  'migrations',
  'record_keys',
  'tenants',
  'transactions',
  'wallets',
]

/** The role cannot be the service's own: the message says why. */
export class RoleError extends Error {}

interface Table {
  name: string
  columns: string[]
  key: string[]
}

/** The statements that give a role what the service needs of these tables, and take away what it may have had beyond. */
function grants(tables: readonly Table[], role: string): string[] {
  const to = quoted(role)
  return [
    `revoke all on all tables in schema public from ${to}`,
    `grant usage on schema public to ${to}`,
    `grant usage, select on all sequences in schema public to ${to}`,
    ...tables.flatMap(({ name, columns, key }) => {
      const fixed = FIXED[name] ?? []
      const changed = fixed === 'all' ? [] : columns.filter((column) => ![...key, ...fixed].includes(column))
      return [
        `grant select, insert${KEPT.includes(name) ? '' : ', delete'} on ${quoted(name)} to ${to}`,
        ...(changed.length === 0
          ? []
          : [`grant update (${changed.map(quoted).join(', ')}) on ${quoted(name)} to ${to}`]),
      ]
    }),
  ]
}

/** Runs a statement in the transaction of the grants. */
type Query = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>

const ROLE = `
  select r.rolsuper as superuser, pg_has_role(r.oid, c.relowner, 'member') as owner
  from pg_roles r, pg_class c where r.rolname = $1 and c.oid = 'migrations'::regclass`

const TABLES = `
  select c.relname as name,
    array(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      order by a.attnum) as columns,
    array(select a.attname::text from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1])
      where i.indrelid = c.oid and i.indisprimary) as key
  from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by c.relname`

/**
 * Gives a role what the service needs, and no more. To be run as the owner of the tables, after each migration.
 * @throws RoleError for a role that does not exist, owns the tables, or may do everything anyway
 */
export async function grantRuntime(query: Query, role: string): Promise<void> {
  const [found] = await query<{ superuser: boolean; owner: boolean }>(ROLE, [role])
  if (found === undefined)
    throw new RoleError(`There is no role ${role}. As a superuser, run: create role ${quoted(role)} login password '…'`)
  if (found.superuser) throw new RoleError(`The role ${role} is a superuser, and may do everything. Name another role.`)
  if (found.owner)
    throw new RoleError(`The role ${role} owns the tables, or is a member of their owner. Name another role.`)
  for (const statement of grants(await query<Table>(TABLES), role)) await query(statement)
}

/** Whether the service connects as a role that owns its tables, or may do everything. */
export async function connectsAsOwner(db: Db): Promise<boolean> {
  const row = await db.one<{ owner: boolean }>(sql`
    select pg_has_role(c.relowner, 'member') as owner from pg_class c where c.oid = 'ledger_updates'::regclass`)
  return row?.owner === true
}
