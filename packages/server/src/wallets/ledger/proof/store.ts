import { type Db, isoTime, type Sql, sql } from '../../../platform/db/db.ts'
import type { ChainPlace } from '../../../platform/floor/source.ts'
import type { Id } from '../../../platform/ids.ts'
import type { Arguments } from '../../../platform/ports/ledger.ts'
import type { Definition } from '../embedded/declared-template.ts'
import type { ChainEntry, LedgerHead } from './chain.ts'

/** How far a tenant's updates were read: the place of the last one in the order of their database transactions. */
export interface ReadPlace {
  readXid: string
  readOffset: number
}

/** A place that was read on another server, before the database was moved, is greater than any here: all is read again. */
const READ_XID = sql`case when read_xid < pg_snapshot_xmax(pg_current_snapshot()) then read_xid else '0'::xid8 end`

const HEAD = sql`
  seq, encode(hash, 'hex') as hash, ${isoTime(sql`signed_at`)} as "signedAt", encode(signature, 'hex') as signature,
  (${READ_XID})::text as "readXid", read_offset as "readOffset"`

/** The tenant's head; undefined if there is none. */
export function findHead(db: Db, tenantId: Id<'ten'>): Promise<(LedgerHead & ReadPlace) | undefined> {
  return db.one<LedgerHead & ReadPlace>(sql`select ${HEAD} from ledger_heads where tenant_id = ${tenantId}`)
}

/** The last number that was taken for an update, of all tenants: unchanged, there is nothing new. */
export async function lastOffset(db: Db): Promise<number> {
  return (await db.one<{ n: number }>(sql`select last_value as n from ledger_offsets`))?.n ?? 0
}

/** Tenants with updates that were not read yet. One probe of an index for each tenant. */
const behind = (which: Sql, limit: number) => sql`
  select t.id from tenants t left join ledger_heads h on h.tenant_id = t.id
  where exists (
    select from ledger_updates u
    where u.tenant_id = t.id and (u.xid, u."offset") > (coalesce(${READ_XID}, '0'::xid8), coalesce(h.read_offset, 0))
      and ${which})
  limit ${limit}`

/** Tenants with updates that can be read and were not, at most `limit`. */
export async function tenantsBehind(db: Db, limit: number): Promise<Id<'ten'>[]> {
  const isSettled = sql`u.xid < pg_snapshot_xmin(pg_current_snapshot())`
  const rows = await db.query<{ id: Id<'ten'> }>(behind(isSettled, limit))
  return rows.map(({ id }) => id)
}

/** Whether there is any update that was not read, even one that an older open transaction keeps from being read yet. */
export async function isBehind(db: Db): Promise<boolean> {
  return (await db.one(behind(sql`true`, 1))) !== undefined
}

/** When the tenant's chain began, null for never; locked, so that one process at a time continues it. Undefined: locked. */
export async function lockChain(tx: Db, tenantId: Id<'ten'>): Promise<Date | null | undefined> {
  const row = await tx.one<{ at: Date | null; mine: boolean }>(sql`
    select ledger_chain_at as at, pg_try_advisory_xact_lock(hashtextextended('ledger chain ' || id, 0)) as mine
    from tenants where id = ${tenantId}`)
  return row?.mine ? row.at : undefined
}

/** Marks that the tenant's chain has begun. */
export async function beginChain(tx: Db, tenantId: Id<'ten'>, now: Date): Promise<void> {
  await tx.run(sql`update tenants set ledger_chain_at = ${now} where id = ${tenantId}`)
}

/** Updates after a place that are not in the chain yet, in the order of their database transactions, all of which ended. */
export function unchained(
  tx: Db,
  tenantId: Id<'ten'>,
  { readXid, readOffset }: ReadPlace,
  limit: number,
): Promise<{ updateId: string; offset: number; xid: string }[]> {
  return tx.query<{ updateId: string; offset: number; xid: string }>(sql`
    select u.update_id as "updateId", u."offset", u.xid::text from ledger_updates u
    where u.tenant_id = ${tenantId} and (u.xid, u."offset") > (${readXid}::xid8, ${readOffset}::bigint)
      and u.xid < pg_snapshot_xmin(pg_current_snapshot())
      and not exists (select from ledger_chain c where c.tenant_id = u.tenant_id and c.update_id = u.update_id)
    order by u.xid, u."offset" limit ${limit}`)
}

/** Appends entries to the chain. */
export async function insertEntries(tx: Db, tenantId: Id<'ten'>, entries: readonly ChainEntry[]): Promise<void> {
  await tx.run(sql`
    insert into ledger_chain (tenant_id, seq, update_id, "offset", hash)
    select ${tenantId}, seq, update_id, at, decode(hash, 'hex')
    from unnest(${entries.map(({ seq }) => seq)}::bigint[], ${entries.map(({ updateId }) => updateId)}::text[],
      ${entries.map(({ offset }) => offset)}::bigint[], ${entries.map(({ hash }) => hash)}::text[])
      as e(seq, update_id, at, hash)`)
}

/** Stores the new head. */
export async function writeHead(tx: Db, tenantId: Id<'ten'>, head: LedgerHead & ReadPlace): Promise<void> {
  await tx.run(sql`
    insert into ledger_heads (tenant_id, seq, hash, signature, signed_at, read_xid, read_offset)
    values (${tenantId}, ${head.seq}, ${Buffer.from(head.hash, 'hex')}, ${Buffer.from(head.signature, 'hex')},
      ${head.signedAt}, ${head.readXid}::xid8, ${head.readOffset})
    on conflict (tenant_id) do update set seq = excluded.seq, hash = excluded.hash, signature = excluded.signature,
      signed_at = excluded.signed_at, read_xid = excluded.read_xid, read_offset = excluded.read_offset`)
}

/** Marks that there is nothing left to read up to now, where the stored place was of another server. */
export async function settlePlace(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`
    update ledger_heads set read_xid = pg_snapshot_xmin(pg_current_snapshot()), read_offset = -1
    where tenant_id = ${tenantId} and read_xid >= pg_snapshot_xmax(pg_current_snapshot())`)
}

/** A page of the chain. */
export function entriesAfter(db: Db, tenantId: Id<'ten'>, after: number, limit: number): Promise<ChainEntry[]> {
  return db.query<ChainEntry>(sql`
    select seq, update_id as "updateId", "offset", encode(hash, 'hex') as hash from ledger_chain
    where tenant_id = ${tenantId} and seq > ${after} order by seq limit ${limit}`)
}

/** An update as it was stored. */
export interface StoredUpdate {
  offset: number
  updateId: string
  actAs: string
  commandId: string
  prepared: Buffer
  signatures: { party: string; publicKey: string; signature: string }[]
}

/** All ids of updates in the order in which they can be replayed. */
export function updateOrder(
  db: Db,
  tenantId: Id<'ten'>,
): Promise<{ offset: number; actAs: string; commandId: string }[]> {
  return db.query<{ offset: number; actAs: string; commandId: string }>(sql`
    select "offset", act_as as "actAs", command_id as "commandId" from ledger_updates
    where tenant_id = ${tenantId} order by "offset", update_id`)
}

/** Updates by their commands, in the order of their offsets. */
export function updatesOf(
  db: Db,
  tenantId: Id<'ten'>,
  of: readonly { actAs: string; commandId: string }[],
): Promise<StoredUpdate[]> {
  return db.query<StoredUpdate>(sql`
    select u."offset", u.update_id as "updateId", u.act_as as "actAs", u.command_id as "commandId", u.prepared, u.signatures
    from unnest(${of.map(({ actAs }) => actAs)}::text[], ${of.map(({ commandId }) => commandId)}::text[]) as w(act_as, command_id)
    join ledger_updates u on u.tenant_id = ${tenantId} and u.act_as = w.act_as and u.command_id = w.command_id
    order by u."offset", u.update_id`)
}

/** A contract as the table holds it. */
export interface StoredContract {
  contractId: string
  templateId: string
  arguments: Arguments
  signatories: string[]
  observers: string[]
  createdOffset: number
  archivedOffset: number | null
}

/** The next contracts by id. */
export function contractsAfter(db: Db, tenantId: Id<'ten'>, after: string, limit: number): Promise<StoredContract[]> {
  return db.query<StoredContract>(sql`
    select contract_id as "contractId", template_id as "templateId", arguments, to_json(signatories) as signatories,
      to_json(observers) as observers, created_offset as "createdOffset", archived_offset as "archivedOffset"
    from ledger_contracts where tenant_id = ${tenantId} and contract_id > ${after} order by contract_id limit ${limit}`)
}

/** Who sees a contract, as the table holds it. */
export interface Stake {
  party: string
  templateId: string
  createdOffset: number
  contractId: string
}

/** The next stakes in the table's order. */
export function stakesAfter(db: Db, tenantId: Id<'ten'>, after: Stake | null, limit: number): Promise<Stake[]> {
  const { party, templateId, createdOffset, contractId } = after ?? {
    party: '',
    templateId: '',
    createdOffset: -1,
    contractId: '',
  }
  return db.query<Stake>(sql`
    select party, template_id as "templateId", created_offset as "createdOffset", contract_id as "contractId"
    from ledger_stakes where tenant_id = ${tenantId}
      and (party, template_id, created_offset, contract_id) > (${party}, ${templateId}, ${createdOffset}::bigint, ${contractId})
    order by party, template_id, created_offset, contract_id limit ${limit}`)
}

/** The declared templates. */
export async function definitions(db: Db, tenantId: Id<'ten'>): Promise<Definition[]> {
  const rows = await db.query<{ definition: Definition }>(sql`
    select definition from ledger_templates where tenant_id = ${tenantId} order by template_id`)
  return rows.map(({ definition }) => definition)
}

/** A completed transaction whose update is missing: what the API answered and the ledger no longer has. */
export async function findLostTransaction(
  db: Db,
  tenantId: Id<'ten'>,
): Promise<{ id: string; updateId: string } | undefined> {
  return db.one<{ id: string; updateId: string }>(sql`
    select t.id, t.update_id as "updateId" from transactions t
    where t.tenant_id = ${tenantId} and t.ledger = 'embedded' and t.update_id is not null
      and not exists (select from ledger_updates u where u.tenant_id = t.tenant_id and u.update_id = t.update_id)
    order by t.id limit 1`)
}

/** Whether the tenant's chain ever began. */
export async function chainBegan(db: Db, tenantId: Id<'ten'>): Promise<boolean> {
  return (await db.one(sql`select from tenants where id = ${tenantId} and ledger_chain_at is not null`)) !== undefined
}

/** Whether the tenant has updates that were recorded before a time. */
export async function hasUpdatesBefore(db: Db, tenantId: Id<'ten'>, before: Date): Promise<boolean> {
  return (
    (await db.one(sql`
      select from ledger_updates where tenant_id = ${tenantId} and recorded_at < ${before} limit 1`)) !== undefined
  )
}

/** Where the chains of the next tenants end. */
export function ends(db: Db, after: string, limit: number): Promise<ChainPlace[]> {
  return db.query<ChainPlace>(sql`
    select tenant_id as "tenantId", seq, encode(hash, 'hex') as hash from ledger_heads
    where tenant_id > ${after} and seq > 0 order by tenant_id limit ${limit}`)
}

/** The entries at these places of chains. */
export function entriesAt(db: Db, places: readonly Pick<ChainPlace, 'tenantId' | 'seq'>[]): Promise<ChainPlace[]> {
  return db.query<ChainPlace>(sql`
    select e.tenant_id as "tenantId", e.seq, encode(e.hash, 'hex') as hash
    from unnest(${places.map(({ tenantId }) => tenantId)}::text[], ${places.map(({ seq }) => seq)}::bigint[]) as p(tenant_id, seq)
    join ledger_chain e on e.tenant_id = p.tenant_id and e.seq = p.seq`)
}
