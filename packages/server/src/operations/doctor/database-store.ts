import { type Db, sql } from '../../platform/db/db.ts'

/** What the server says of itself. */
export interface Server {
  versionNum: number
  version: string
  encoding: string
  inRecovery: boolean
  settings: Record<'fsync' | 'full_page_writes' | 'synchronous_commit' | 'autovacuum' | 'track_counts', string>
  maxConnections: number
  /** Of those, not for roles such as ours. */
  reserved: number
  connections: number
  /** Connections of services like this one. */
  ours: number
  /** Null where this role may not know. */
  dataFolder: string | null
  pgTrgm: 'installed' | 'available' | 'missing'
  /** Whether the extension takes letters beyond ASCII for letters; null where it is not installed. */
  findsLetters: boolean | null
}

/** One row about the server and this database. */
export async function readServer(db: Db): Promise<Server> {
  const [trgm] = await db.query<{ state: Server['pgTrgm'] }>(sql`
    select case when exists (select from pg_extension where extname = 'pg_trgm') then 'installed'
      when exists (select from pg_available_extensions where name = 'pg_trgm') then 'available' else 'missing' end as state`)
  const row = await db.one<Server>(sql`
    select current_setting('server_version_num')::int as "versionNum", current_setting('server_version') as version,
      current_setting('server_encoding') as encoding, pg_is_in_recovery() as "inRecovery",
      json_build_object('fsync', current_setting('fsync'), 'full_page_writes', current_setting('full_page_writes'),
        'synchronous_commit', current_setting('synchronous_commit'), 'autovacuum', current_setting('autovacuum'),
        'track_counts', current_setting('track_counts')) as settings,
      current_setting('max_connections')::int as "maxConnections",
      current_setting('superuser_reserved_connections')::int
        + coalesce(current_setting('reserved_connections', true)::int, 0) as reserved,
      (select count(*) from pg_stat_activity where usesysid is not null)::int as connections,
      (select count(*) from pg_stat_activity where usesysid is not null and application_name like 'halfkey%')::int as ours,
      case when pg_has_role(current_user, 'pg_read_all_settings', 'usage') then current_setting('data_directory') end as "dataFolder"`)
  const state = trgm?.state ?? 'missing'
  const letters =
    state === 'installed'
      ? await db.one<{ found: boolean }>(sql`select cardinality(show_trgm('кот')) > 0 as found`)
      : undefined
  return { ...(row as Server), pgTrgm: state, findsLetters: letters?.found ?? null }
}

/** What holds the server back now. Of other roles' sessions only what this role may see. */
export interface Holdups {
  oldestTransactionSeconds: number | null
  oldestTransactionPid: number | null
  idleInTransactionSeconds: number | null
  idleInTransactionPid: number | null
  preparedSeconds: number | null
  preparedGid: string | null
  /** The inactive replication slot that keeps most WAL. */
  slotName: string | null
  slotBytes: number | null
  /** Transactions since this database was last frozen; PostgreSQL stops at two thousand millions. */
  ageTransactions: number
}

/** Long transactions, forgotten slots, and how near the wraparound is. */
export async function readHoldups(db: Db): Promise<Holdups> {
  return (await db.one<Holdups>(sql`
    with others as (select * from pg_stat_activity where pid <> pg_backend_pid() and usesysid is not null),
    oldest as (select pid, xact_start from others where xact_start is not null order by xact_start limit 1),
    idle as (select pid, state_change from others where state like 'idle in transaction%' order by state_change limit 1),
    prepared as (select gid, prepared from pg_prepared_xacts where database = current_database() order by prepared limit 1),
    slot as (
      select slot_name, case when pg_is_in_recovery() then null else pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) end as bytes
      from pg_replication_slots where not active and restart_lsn is not null order by 2 desc nulls last limit 1)
    select
      (select extract(epoch from clock_timestamp() - xact_start)::float8 from oldest) as "oldestTransactionSeconds",
      (select pid from oldest) as "oldestTransactionPid",
      (select extract(epoch from clock_timestamp() - state_change)::float8 from idle) as "idleInTransactionSeconds",
      (select pid from idle) as "idleInTransactionPid",
      (select extract(epoch from clock_timestamp() - prepared)::float8 from prepared) as "preparedSeconds",
      (select gid from prepared) as "preparedGid",
      (select slot_name from slot) as "slotName", (select bytes::float8 from slot) as "slotBytes",
      (select age(datfrozenxid) from pg_database where datname = current_database())::int as "ageTransactions"`)) as Holdups
}

/** A table with more dead rows than living ones; they cost time at every read. */
export interface Bloat {
  name: string
  live: number
  dead: number
  bytes: number
}

/** Tables of this schema whose dead rows are many, the worst first; at most ten. */
export function readBloat(db: Db, deadMin: number): Promise<Bloat[]> {
  return db.query<Bloat>(sql`
    select relname as name, n_live_tup as live, n_dead_tup as dead, pg_total_relation_size(relid) as bytes
    from pg_stat_user_tables where schemaname = current_schema() and n_dead_tup > ${deadMin} and n_dead_tup > n_live_tup
    order by n_dead_tup desc limit 10`)
}

/** What was applied, by name, and when the last one was; null for a database without any. */
export async function readMigrationsApplied(db: Db): Promise<Map<string, { checksum: string; at: Date }> | null> {
  const found = await db.one<{ there: boolean }>(sql`select to_regclass('migrations') is not null as there`)
  if (found?.there !== true) return null
  const rows = await db.query<{ name: string; checksum: string; applied_at: Date }>(
    sql`select name, checksum, applied_at from migrations`,
  )
  return new Map(rows.map((row) => [row.name, { checksum: row.checksum, at: row.applied_at }]))
}

/** The ids of the keys that seal this database; empty before the first start. */
export async function readSealingKeys(db: Db): Promise<string[]> {
  return (await db.one<{ kek_ids: string[] }>(sql`select kek_ids from installation`))?.kek_ids ?? []
}

/** Counts over all tenants of what an operator should look at; none counts further than `max`. */
export interface Troubles {
  deadLetters: number
  disabledWebhooks: number
  /** Leases that ran out and that nobody has taken back. */
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
        and application_name in ('halfkey api', 'halfkey engine', 'halfkey probe')) as connections`)) as Troubles
}

/** An import of a tenant that was begun and neither ended nor given up. */
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
