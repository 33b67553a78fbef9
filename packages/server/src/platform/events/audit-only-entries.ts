import { type Db, sql } from '../db/db.ts'
import { insertion } from '../db/rows.ts'
import { type Id, newId } from '../ids.ts'
import { type Sealed, sealed } from '../security/records/access.ts'
import { defineRecord, type RecordRow } from '../security/records/kind.ts'
import type { AuditOnlyAction } from './audit-actions.ts'
import { contextOf, type EventInput } from './events.ts'
import type { EventContext } from './feed.ts'

/** An act as the table holds it until it is in the chain. */
export interface AuditOnlyRow extends Sealed {
  tenant_id: Id<'ten'>
  id: Id<'aud'>
  at: Date
  action: string
  target: string
  user_id: Id<'usr'> | null
  app_id: Id<'app'> | null
  context: EventContext
}

/** The MAC of an act that waits: the log must not say of anybody what they did not do, nor that a freeze was lifted. */
export const AUDIT_ONLY_RECORD = defineRecord({
  name: 'audit_only_entry',
  table: 'audit_only_entries',
  key: ['id'],
  since: 3,
  versioned: false,
  columns: { at: 'time', action: 'text', target: 'text', user_id: 'text', app_id: 'text', context: 'json' },
  notAuthority: {},
})

/** An act that is no event and has its place in the audit log. */
export interface AuditOnlyEntry {
  tenantId: Id<'ten'>
  /** The app of the action; null if it concerns the tenant itself. */
  appId: Id<'app'> | null
  action: AuditOnlyAction
  /** The id of the record that the action concerns. */
  target: string
  /** The user whose record that is. */
  userId?: Id<'usr'>
  cause: EventInput['cause']
}

/** Notes an act in the transaction that does it: it is in the audit log within a second or so of the commit. */
export async function recordAuditOnly(tx: Db, { now }: { now(): Date }, input: AuditOnlyEntry): Promise<void> {
  const row: AuditOnlyRow = {
    tenant_id: input.tenantId,
    id: newId('aud'),
    at: now(),
    action: input.action,
    target: input.target,
    user_id: input.userId ?? null,
    app_id: input.appId,
    context: JSON.parse(contextOf(input.cause)),
    mac: null,
  }
  await tx.run(insertion('audit_only_entries', await sealed(tx, AUDIT_ONLY_RECORD, row)))
}

/** Notes an operator's act that concerns the whole installation: in the log of every tenant. */
export async function recordForInstallation(
  tx: Db,
  { now }: { now(): Date },
  { action, target }: Pick<AuditOnlyEntry, 'action' | 'target'>,
): Promise<void> {
  const tenants = await tx.query<{ id: Id<'ten'> }>(sql`select id from tenants`)
  const [at, context] = [now(), JSON.parse(contextOf({ actor: 'cli' })) as EventContext]
  const rows = tenants.map(
    ({ id }): AuditOnlyRow => ({
      ...{ tenant_id: id, id: newId('aud'), at, action, target },
      ...{ user_id: null, app_id: null, context, mac: null },
    }),
  )
  const macs = await Promise.all(rows.map((row) => tx.records.mac(AUDIT_ONLY_RECORD, row as object as RecordRow)))
  await tx.run(sql`
    insert into audit_only_entries (tenant_id, id, at, action, target, context, mac)
    select t.tenant_id, t.id, ${at}, ${action}, ${target}, ${JSON.stringify(context)}::jsonb, t.mac
    from unnest(${rows.map((row) => row.tenant_id)}::text[], ${rows.map(({ id }) => id)}::text[], ${macs}::bytea[]) as t(tenant_id, id, mac)`)
}
