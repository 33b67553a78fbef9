import { type Db, sql } from '../db/db.ts'
import { type Id, newId } from '../ids.ts'
import type { AuditOnlyAction } from './audit-actions.ts'
import { contextOf, type EventInput } from './events.ts'

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
  await tx.run(sql`
    insert into audit_only_entries (tenant_id, id, at, action, target, user_id, app_id, context)
    values (${input.tenantId}, ${newId('aud')}, ${now()}, ${input.action}, ${input.target}, ${input.userId ?? null},
      ${input.appId}, ${contextOf(input.cause)}::jsonb)`)
}

/** Notes an operator's act that concerns the whole installation: in the log of every tenant. */
export async function recordForInstallation(
  tx: Db,
  { now }: { now(): Date },
  { action, target }: Pick<AuditOnlyEntry, 'action' | 'target'>,
): Promise<void> {
  const tenants = await tx.query<{ id: string }>(sql`select id from tenants`)
  await tx.run(sql`
    insert into audit_only_entries (tenant_id, id, at, action, target, context)
    select t.tenant_id, t.id, ${now()}, ${action}, ${target}, ${contextOf({ actor: 'cli' })}::jsonb
    from unnest(${tenants.map(({ id }) => id)}::text[], ${tenants.map(() => newId('aud'))}::text[]) as t(tenant_id, id)`)
}
