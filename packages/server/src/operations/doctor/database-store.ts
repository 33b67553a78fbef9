import { type Db, sql } from '../../platform/db/db.ts'

/** The server's properties. */
export interface Server {
  versionNum: number
  version: string
  /** Which of the settings that data depends on are off. */
  off: string[]
  maxConnections: number
  /** Of those, not for roles such as ours. */
  reserved: number
  connections: number
  /** Connections of services like this one. */
  ours: number
  /** Null where this role may not know. */
  dataFolder: string | null
  pgTrgm: 'installed' | 'available' | 'missing'
  /** The oldest transaction of a session that this role may see. */
  transactionSeconds: number | null
  transactionPid: number | null
  /** Transactions since this database was last frozen; PostgreSQL stops at two thousand millions. */
  ageTransactions: number
}

/** One row about the server and this database. */
export async function readServer(db: Db): Promise<Server> {
  const row = await db.one<Server>(sql`
    with oldest as (
      select pid, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds from pg_stat_activity
      where pid <> pg_backend_pid() and usesysid is not null and xact_start is not null order by xact_start limit 1)
    select current_setting('server_version_num')::int as "versionNum", current_setting('server_version') as version,
      array(select name from pg_settings where setting = 'off'
        and name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum')) as off,
      current_setting('max_connections')::int as "maxConnections",
      current_setting('superuser_reserved_connections')::int
        + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
      (select count(*) from pg_stat_activity where usesysid is not null)::int as connections,
      (select count(*) from pg_stat_activity where usesysid is not null and application_name like 'halfkey%')::int as ours,
      case when pg_has_role(current_user, 'pg_read_all_settings', 'usage') then current_setting('data_directory') end as "dataFolder",
      case when exists (select from pg_extension where extname = 'pg_trgm') then 'installed'
        when exists (select from pg_available_extensions where name = 'pg_trgm') then 'available' else 'missing' end as "pgTrgm",
      (select seconds from oldest) as "transactionSeconds", (select pid from oldest) as "transactionPid",
      (select age(datfrozenxid) from pg_database where datname = current_database())::int as "ageTransactions"`)
  return row as Server
}

/** The checksums of the applied migrations, by name; null for a database without any. */
export async function readMigrationsApplied(db: Db): Promise<Map<string, string> | null> {
  const found = await db.one<{ there: boolean }>(sql`select to_regclass('migrations') is not null as there`)
  if (found?.there !== true) return null
  const rows = await db.query<{ name: string; checksum: string }>(sql`select name, checksum from migrations`)
  return new Map(rows.map(({ name, checksum }) => [name, checksum]))
}

/** The ids of the keys that seal this database; empty before the first start. */
export async function readSealingKeys(db: Db): Promise<string[]> {
  return (await db.one<{ kek_ids: string[] }>(sql`select kek_ids from installation`))?.kek_ids ?? []
}

/** Counts over all tenants of what an operator should look at; none counts further than `max`. */
export interface Troubles {
  deadLetters: number
  disabledWebhooks: number
  /** Leases that expired and that nobody has taken over. */
  overdueLeases: number
  /** Connections of processes of the service, the doctor's own and the embedded database's launcher aside. */
  connections: number
}

/** What went wrong in delivering, as far as it is still there. */
export async function readTroubles(db: Db, max: number): Promise<Troubles> {
  return (await db.one<Troubles>(sql`
    select
      (select count(*) from (select from deliveries_done where status = 'dead_letter' limit ${max}) c) as "deadLetters",
      (select count(*) from (select from webhooks where status = 'disabled' and deleted_at is null limit ${max}) c) as "disabledWebhooks",
      (select count(*) from (
        select from deliveries where lease_id is not null and lease_until < clock_timestamp() - interval '30 seconds' limit ${max}) c)
        as "overdueLeases",
      (select count(*) from pg_stat_activity where datname = current_database()
        and application_name in ('halfkey api', 'halfkey engine', 'halfkey probe', 'halfkey keys', 'halfkey listener')) as connections`)) as Troubles
}

/** An unfinished import of a tenant. */
export interface OpenImport {
  id: string
  tenantId: string
  rows: number
  since: Date
}

/** The oldest of them, at most `max`. */
export function readOpenImports(db: Db, max: number): Promise<OpenImport[]> {
  return db.query<OpenImport>(sql`
    select id, tenant_id as "tenantId", position as rows, created_at as since from imports
    where finished_at is null and state->>'file' is not null order by created_at limit ${max}`)
}

/** An app's relying party and the origins that its passkeys are used from. */
export interface AppOrigins {
  tenantId: string
  appId: string
  rpId: string
  origins: string[]
}

/** Every app's, at most `max` of them. */
export function readAppOrigins(db: Db, max: number): Promise<AppOrigins[]> {
  return db.query<AppOrigins>(sql`
    select tenant_id as "tenantId", id as "appId", passkey->>'rpId' as "rpId", allowed_origins as origins
    from apps where passkey->>'rpId' is not null order by tenant_id, id limit ${max}`)
}

/** How often records that do not verify were reported in the last days, by tenant: the most first. */
export function readTampered(db: Db, days: number): Promise<{ tenantId: string; n: number }[]> {
  return db.query(sql`
    select tenant_id as "tenantId", sum(n)::integer as n from audit_counts
    where action = 'record.tampered' and hours = 24 and begins > now() - ${days} * interval '24 hours'
    group by tenant_id order by n desc, tenant_id`)
}
