import { type Db, type Sql, sql } from '../../../platform/db/db.ts'
import { insertion } from '../../../platform/db/rows.ts'
import type { Id } from '../../../platform/ids.ts'
import type { Arguments, Contract, Effect } from '../../../platform/ports/ledger.ts'
import type { KeptSignature } from '../../../platform/ports/signature.ts'
import { readRecords, type Sealed, sealed } from '../../../platform/security/records/access.ts'
import type { Definition } from './declared-template.ts'
import type { Input } from './interpret.ts'
import { TEMPLATE_RECORD } from './template-record.ts'

interface ContractRow {
  contract_id: string
  template_id: string
  arguments: Arguments
  signatories: string[]
  observers: string[]
  created_offset: number
  archived_offset: number | null
  /** Hex. */
  seed: string | null
  index: number | null
}

/** The input of a transaction: contracts as they were read, and the offset taken for it. */
export interface Snapshot {
  /** Null if they are larger than one transaction may read. */
  inputs: Input[] | null
  offset: number
}

const SNAPSHOT_BYTES_MAX = 1024 * 1024

/**
 * Contracts by their ids, active or not, as they are now, and an offset for what is made of them, greater than those of
 * all that is seen: a `Snapshot` as one JSON value.
 */
export function snapshotOf(tenantId: Id<'ten'>, ids: readonly string[]): Sql {
  return sql`
    json_build_object('offset', nextval('ledger_offsets'), 'inputs', (
      select case when coalesce(sum(octet_length(arguments::text)), 0) <= ${SNAPSHOT_BYTES_MAX}::bigint then coalesce(json_agg(json_build_object('contractId', contract_id, 'templateId', template_id, 'arguments', arguments,
        'signatories', signatories, 'observers', observers, 'createdOffset', created_offset,
        'archived', archived_offset is not null, 'seed', encode(seed, 'hex'), 'index', index)), '[]') end
      from ledger_contracts where tenant_id = ${tenantId} and contract_id = any(${ids}::text[])))`
}

/** The same, as a separate query. */
export async function readSnapshot(db: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<Snapshot> {
  const row = await db.one<{ snapshot: Snapshot }>(sql`select ${snapshotOf(tenantId, ids)} as snapshot`)
  return row?.snapshot as Snapshot
}

/** A transaction to be written, with the contracts that it archives as they were read. */
export interface NewUpdate {
  tenantId: Id<'ten'>
  offset: number
  updateId: string
  actAs: string
  commandId: string
  prepared: Buffer
  signatures: object
  recordedAt: Date
  /** Of its bytes. */
  seed: Buffer
  /** Ids of all contracts that it read. */
  inputs: readonly string[]
  archived: readonly Input[]
  created: readonly Effect[]
}

const stakeholders = (of: { signatories: readonly string[]; observers: readonly string[] }) => [
  ...of.signatories,
  ...of.observers,
]

/**
 * A transaction and what it does, as parts of a `with`. It is written only if the part `held` has a row, every contract
 * that it was made of is active still, and its party has no transaction with this command id: then `applied` has its offset.
 */
export function updateWrites(update: NewUpdate): Sql {
  const { tenantId, offset, inputs, archived, created } = update
  const ids = archived.map((input) => input.contractId)
  const left = archived.flatMap((input) => stakeholders(input).map((party) => ({ party, input })))
  const joined = created.flatMap((effect) => stakeholders(effect).map((party) => ({ party, effect })))
  return sql`
    inputs as materialized (
      select i.contract_id from held cross join lateral (
        select contract_id from ledger_contracts
        where tenant_id = ${tenantId} and contract_id = any(${inputs}::text[]) and archived_offset is null
        order by contract_id for no key update) i),
    applied as (
      insert into ledger_updates (tenant_id, "offset", update_id, act_as, command_id, prepared, signatures, recorded_at)
      select ${tenantId}, ${offset}, ${update.updateId}, ${update.actAs}, ${update.commandId}, ${update.prepared},
        ${JSON.stringify(update.signatures)}::json, ${update.recordedAt}::timestamptz
      from held where (select count(*) from inputs) = ${inputs.length}
      on conflict (tenant_id, act_as, command_id) do nothing returning "offset"),
    archived as (
      update ledger_contracts set archived_offset = ${offset}
      where tenant_id = ${tenantId} and contract_id = any(${ids}::text[]) and (select true from applied)),
    left_stakes as (
      delete from ledger_stakes s using unnest(${left.map(({ party }) => party)}::text[],
          ${left.map(({ input }) => input.templateId)}::text[], ${left.map(({ input }) => input.createdOffset)}::bigint[],
          ${left.map(({ input }) => input.contractId)}::text[]) as l(party, template_id, created_offset, contract_id)
      where s.tenant_id = ${tenantId} and s.party = l.party and s.template_id = l.template_id
        and s.created_offset = l.created_offset and s.contract_id = l.contract_id and (select true from applied)),
    created as (
      insert into ledger_contracts (tenant_id, contract_id, template_id, arguments, signatories, observers, created_offset,
        seed, index)
      select ${tenantId}, n.contract_id, n.template_id, n.arguments, string_to_array(n.signatories, ' '),
        string_to_array(n.observers, ' '), ${offset}, ${update.seed}, n.at - 1
      from unnest(${created.map((effect) => effect.contractId)}::text[],
        ${created.map((effect) => effect.templateId)}::text[],
        ${created.map((effect) => JSON.stringify(effect.arguments))}::json[],
        ${created.map((effect) => effect.signatories.join(' '))}::text[],
        ${created.map((effect) => effect.observers.join(' '))}::text[])
        with ordinality as n(contract_id, template_id, arguments, signatories, observers, at)
      where (select true from applied)),
    new_stakes as (
      insert into ledger_stakes (tenant_id, party, template_id, created_offset, contract_id)
      select ${tenantId}, n.party, n.template_id, ${offset}, n.contract_id
      from unnest(${joined.map(({ party }) => party)}::text[],
        ${joined.map(({ effect }) => effect.templateId)}::text[],
        ${joined.map(({ effect }) => effect.contractId)}::text[]) as n(party, template_id, contract_id)
      where (select true from applied))`
}

/** Writes a transaction in a separate statement. @returns whether it was written: see `updateWrites` */
export async function insertUpdate(tx: Db, update: NewUpdate): Promise<boolean> {
  const row = await tx.one(sql`
    with held as materialized (select true), ${updateWrites(update)} select from applied`)
  return row !== undefined
}

/** A transaction as it was written. */
export interface UpdateRow {
  offset: number
  update_id: string
  act_as: string
  command_id: string
  prepared: Buffer
  signatures: KeptSignature[]
  recorded_at: Date
  xid: string
}

/** The result of a command. */
export function findUpdate(
  db: Db,
  tenantId: Id<'ten'>,
  actAs: string,
  commandId: string,
): Promise<UpdateRow | undefined> {
  return db.one<UpdateRow>(sql`
    select "offset", update_id, act_as, command_id, prepared, signatures, recorded_at, xid::text from ledger_updates
    where tenant_id = ${tenantId} and act_as = ${actAs} and command_id = ${commandId}`)
}

/** Transactions after a place in the order of their database transactions, of which none is open any more. */
export function updatesAfter(
  db: Db,
  tenantId: Id<'ten'>,
  after: { xid: string; offset: number },
  limit: number,
): Promise<UpdateRow[]> {
  return db.query<UpdateRow>(sql`
    select "offset", update_id, act_as, command_id, prepared, signatures, recorded_at, xid::text from ledger_updates
    where tenant_id = ${tenantId} and (xid, "offset") > (${after.xid}::xid8, ${after.offset}::bigint)
      and xid < pg_snapshot_xmin(pg_current_snapshot())
    order by ledger_updates.xid, ledger_updates."offset" limit ${limit}`)
}

/** Where a page of contracts ended. */
export interface Place {
  offset: number
  contractId: string
}

/** A party's active contracts of these templates before a place, newest first. */
export async function contractsBefore(
  db: Db,
  of: { tenantId: Id<'ten'>; party: string; templateIds: readonly string[] },
  before: Place | null,
  limit: number,
): Promise<(Contract & Pick<ContractRow, 'seed' | 'index'>)[]> {
  const { offset, contractId } = before ?? { offset: Number.MAX_SAFE_INTEGER, contractId: '' }
  // Reads the newest of each template from the index, then the newest of those. So the cost does not depend on the
  // number of contracts.
  const rows = await db.query<ContractRow>(sql`
    select c.contract_id, c.template_id, c.arguments, to_json(c.signatories) as signatories, to_json(c.observers) as observers,
      c.created_offset, encode(c.seed, 'hex') as seed, c.index
    from (
      select s.created_offset, s.contract_id from unnest(${[...new Set(of.templateIds)]}::text[]) as t(template_id)
      cross join lateral (
        select created_offset, contract_id from ledger_stakes
        where tenant_id = ${of.tenantId} and party = ${of.party} and template_id = t.template_id
          and (created_offset, contract_id) < (${offset}::bigint, ${contractId}::text)
        order by created_offset desc, contract_id desc limit ${limit}) s
      order by s.created_offset desc, s.contract_id desc limit ${limit}) s
    join ledger_contracts c on c.tenant_id = ${of.tenantId} and c.contract_id = s.contract_id
    order by s.created_offset desc, s.contract_id desc`)
  return rows.map((row) => ({
    contractId: row.contract_id,
    templateId: row.template_id,
    arguments: row.arguments,
    signatories: row.signatories,
    observers: row.observers,
    createdAtOffset: row.created_offset,
    seed: row.seed,
    index: row.index,
  }))
}

/** A declared template as the table holds it. */
export interface TemplateRow extends Sealed {
  tenant_id: Id<'ten'>
  template_id: string
  definition: Definition
  created_at: Date
}

/** Declared templates by their ids. @throws record_tampered */
export function findTemplates(db: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<TemplateRow[]> {
  return readRecords<TemplateRow>(
    db,
    TEMPLATE_RECORD,
    sql`select * from ledger_templates where tenant_id = ${tenantId} and template_id = any(${ids}::text[])`,
  )
}

/** How many templates a tenant has declared. */
export function countTemplates(db: Db, tenantId: Id<'ten'>): Promise<number> {
  return db.count(sql`select count(*) as n from ledger_templates where tenant_id = ${tenantId}`)
}

/** A page of a tenant's declared templates, newest first, and how many there are. */
export async function listTemplates(
  db: Db,
  tenantId: Id<'ten'>,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ rows: TemplateRow[]; total: number }> {
  const rows = await readRecords<TemplateRow>(
    db,
    TEMPLATE_RECORD,
    sql`
    select * from ledger_templates
    where tenant_id = ${tenantId} order by created_at desc, template_id offset ${offset} limit ${pageSize}`,
  )
  return { rows, total: await countTemplates(db, tenantId) }
}

/** Prevents other transactions from declaring templates of the tenant until this one ends. */
export async function lockTemplates(tx: Db, tenantId: Id<'ten'>): Promise<void> {
  await tx.run(sql`select 1 from tenants where id = ${tenantId} for no key update`)
}

/** Stores a template. Its name must be free. */
export async function insertTemplate(tx: Db, tenantId: Id<'ten'>, definition: Definition, now: Date): Promise<void> {
  // As the database keeps it: JSON has no undefined.
  const kept = JSON.parse(JSON.stringify(definition)) as Definition
  const made = { tenant_id: tenantId, template_id: definition.templateId, definition: kept, created_at: now, mac: null }
  await tx.run(insertion('ledger_templates', await sealed<TemplateRow>(tx, TEMPLATE_RECORD, made)))
}

/** Makes a cheap query of the ledger's table. @throws Error if it cannot be read */
export async function probe(db: Db): Promise<void> {
  await db.run(sql`select 1 from ledger_updates limit 1`)
}
