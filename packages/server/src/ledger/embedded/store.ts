import { type Db, sql } from '../../core/db.ts'
import type { Id } from '../../core/ids.ts'
import type { Arguments, Contract, Effect } from '../ledger.ts'
import type { Definition } from './declared-template.ts'
import type { Input } from './interpret.ts'

interface ContractRow {
  contract_id: string
  template_id: string
  arguments: Arguments
  signatories: string[]
  observers: string[]
  created_offset: number
  archived_offset: number | null
}

/** Contracts by their ids, active or not, locked until the transaction ends, in the order of their ids. */
export async function lockContracts(tx: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<Input[]> {
  const rows = await tx.query<ContractRow>(sql`
    select contract_id, template_id, arguments, signatories, observers, created_offset, archived_offset from ledger_contracts
    where tenant_id = ${tenantId} and contract_id = any(${ids}::text[]) order by contract_id for no key update`)
  return rows.map((row) => ({
    contractId: row.contract_id,
    templateId: row.template_id,
    arguments: row.arguments,
    signatories: row.signatories,
    observers: row.observers,
    createdOffset: row.created_offset,
    archived: row.archived_offset !== null,
  }))
}

/** A transaction to be written, with the contracts that it archives as they were read. */
export interface NewUpdate {
  tenantId: Id<'ten'>
  updateId: string
  actAs: string
  commandId: string
  prepared: Buffer
  signatures: object
  recordedAt: Date
  archived: readonly Input[]
  created: readonly Effect[]
}

const stakeholders = (of: { signatories: readonly string[]; observers: readonly string[] }) => [
  ...of.signatories,
  ...of.observers,
]

/**
 * Writes a transaction and what it does, unless its party has one with this command id already: then undefined, and
 * nothing is written. @returns its offset
 */
export async function insertUpdate(tx: Db, update: NewUpdate): Promise<number | undefined> {
  const { tenantId, archived, created } = update
  const left = archived.flatMap((input) => stakeholders(input).map((party) => ({ party, input })))
  const joined = created.flatMap((effect) => stakeholders(effect).map((party) => ({ party, effect })))
  const row = await tx.one<{ offset: number }>(sql`
    with applied as (
      insert into ledger_updates (tenant_id, "offset", update_id, act_as, command_id, prepared, signatures, recorded_at)
      values (${tenantId}, nextval('ledger_offsets'), ${update.updateId}, ${update.actAs}, ${update.commandId},
        ${update.prepared}, ${JSON.stringify(update.signatures)}::json, ${update.recordedAt})
      on conflict (tenant_id, act_as, command_id) do nothing returning "offset"),
    archived as (
      update ledger_contracts c set archived_offset = a."offset" from applied a
      where c.tenant_id = ${tenantId} and c.contract_id = any(${archived.map((input) => input.contractId)}::text[])),
    left_stakes as (
      delete from ledger_stakes s using applied a, unnest(${left.map(({ party }) => party)}::text[],
          ${left.map(({ input }) => input.templateId)}::text[], ${left.map(({ input }) => input.createdOffset)}::bigint[],
          ${left.map(({ input }) => input.contractId)}::text[]) as l(party, template_id, created_offset, contract_id)
      where s.tenant_id = ${tenantId} and s.party = l.party and s.template_id = l.template_id
        and s.created_offset = l.created_offset and s.contract_id = l.contract_id),
    created as (
      insert into ledger_contracts (tenant_id, contract_id, template_id, arguments, signatories, observers, created_offset)
      select ${tenantId}, n.contract_id, n.template_id, n.arguments, string_to_array(n.signatories, ' '),
        string_to_array(n.observers, ' '), a."offset"
      from applied a, unnest(${created.map((effect) => effect.contractId)}::text[],
        ${created.map((effect) => effect.templateId)}::text[],
        ${created.map((effect) => JSON.stringify(effect.arguments))}::json[],
        ${created.map((effect) => effect.signatories.join(' '))}::text[],
        ${created.map((effect) => effect.observers.join(' '))}::text[])
        as n(contract_id, template_id, arguments, signatories, observers)),
    new_stakes as (
      insert into ledger_stakes (tenant_id, party, template_id, created_offset, contract_id)
      select ${tenantId}, n.party, n.template_id, a."offset", n.contract_id
      from applied a, unnest(${joined.map(({ party }) => party)}::text[],
        ${joined.map(({ effect }) => effect.templateId)}::text[],
        ${joined.map(({ effect }) => effect.contractId)}::text[]) as n(party, template_id, contract_id))
    select "offset" from applied`)
  return row?.offset
}

/** A transaction as it was written. */
export interface UpdateRow {
  offset: number
  update_id: string
  act_as: string
  command_id: string
  prepared: Buffer
  recorded_at: Date
  xid: string
}

/** What became of a command. */
export function findUpdate(
  db: Db,
  tenantId: Id<'ten'>,
  actAs: string,
  commandId: string,
): Promise<UpdateRow | undefined> {
  return db.one<UpdateRow>(sql`
    select "offset", update_id, act_as, command_id, prepared, recorded_at, xid::text from ledger_updates
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
    select "offset", update_id, act_as, command_id, prepared, recorded_at, xid::text from ledger_updates
    where tenant_id = ${tenantId} and (xid, "offset") > (${after.xid}::xid8, ${after.offset}::bigint)
      and xid < pg_snapshot_xmin(pg_current_snapshot())
    order by xid, "offset" limit ${limit}`)
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
): Promise<Contract[]> {
  const { offset, contractId } = before ?? { offset: Number.MAX_SAFE_INTEGER, contractId: '' }
  // Each template's newest out of the index, then the newest of those: no template's number of contracts counts.
  const rows = await db.query<ContractRow>(sql`
    select c.contract_id, c.template_id, c.arguments, c.signatories, c.observers, c.created_offset
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
  }))
}

/** The node's key of a tenant, and the sealed private one. */
export function findNodeKey(
  db: Db,
  tenantId: Id<'ten'>,
): Promise<{ node_public_key: Buffer; node_key_sealed: Buffer } | undefined> {
  return db.one(sql`select node_public_key, node_key_sealed from tenants where id = ${tenantId}`)
}

/** A declared template as the table holds it. */
export interface TemplateRow {
  template_id: string
  definition: Definition
  created_at: Date
}

/** Declared templates by their ids. */
export function findTemplates(db: Db, tenantId: Id<'ten'>, ids: readonly string[]): Promise<TemplateRow[]> {
  return db.query<TemplateRow>(sql`
    select template_id, definition, created_at from ledger_templates
    where tenant_id = ${tenantId} and template_id = any(${ids}::text[])`)
}

/** A page of a tenant's declared templates, by name, and how many there are. */
export async function listTemplates(
  db: Db,
  tenantId: Id<'ten'>,
  { offset, pageSize }: { offset: number; pageSize: number },
): Promise<{ rows: TemplateRow[]; total: number }> {
  const counted = await db.one<{ n: number }>(
    sql`select count(*) as n from ledger_templates where tenant_id = ${tenantId}`,
  )
  const rows = await db.query<TemplateRow>(sql`
    select template_id, definition, created_at from ledger_templates
    where tenant_id = ${tenantId} order by created_at desc, template_id offset ${offset} limit ${pageSize}`)
  return { rows, total: counted?.n ?? 0 }
}

/** Stores a template; false when there is one of this id. */
export async function insertTemplate(db: Db, tenantId: Id<'ten'>, definition: Definition, now: Date): Promise<boolean> {
  const rows = await db.run(sql`
    insert into ledger_templates (tenant_id, template_id, definition, created_at)
    values (${tenantId}, ${definition.templateId}, ${JSON.stringify(definition)}::json, ${now}) on conflict do nothing`)
  return rows === 1
}

/** Asks the ledger's table something that costs nothing. @throws Error while it cannot be read */
export async function probe(db: Db): Promise<void> {
  await db.run(sql`select 1 from ledger_updates limit 1`)
}
