import { type Db, sql } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'
import type { EmailLanguage, EmailPurpose } from '../schema.ts'

/** A row of the table `email_templates`. */
export interface TemplateRow {
  tenant_id: Id<'ten'>
  app_id: Id<'app'>
  kind: EmailPurpose
  language: EmailLanguage
  subject: string
  text: string
  html: string | null
  updated_at: Date
}

/** Which email of which app. */
export type OfTemplate = Pick<TemplateRow, 'tenant_id' | 'app_id' | 'kind' | 'language'>

/** All templates that an app has written: at most one for each kind and language. */
export function templatesOf(db: Db, tenantId: Id<'ten'>, appId: Id<'app'>): Promise<TemplateRow[]> {
  return db.query<TemplateRow>(sql`select * from email_templates where tenant_id = ${tenantId} and app_id = ${appId}`)
}

/** One of them; undefined if the default is sent. */
export function findTemplate(db: Db, of: OfTemplate): Promise<TemplateRow | undefined> {
  return db.one<TemplateRow>(sql`
    select * from email_templates
    where tenant_id = ${of.tenant_id} and app_id = ${of.app_id} and kind = ${of.kind} and language = ${of.language}`)
}

/** Stores a template in place of the one before. */
export async function setTemplate(tx: Db, row: TemplateRow): Promise<void> {
  await tx.run(sql`
    insert into email_templates (tenant_id, app_id, kind, language, subject, text, html, updated_at)
    values (${row.tenant_id}, ${row.app_id}, ${row.kind}, ${row.language}, ${row.subject}, ${row.text}, ${row.html},
      ${row.updated_at})
    on conflict (tenant_id, app_id, kind, language) do update
      set subject = excluded.subject, text = excluded.text, html = excluded.html, updated_at = excluded.updated_at`)
}

/** @returns whether there was one */
export async function deleteTemplate(tx: Db, of: OfTemplate): Promise<boolean> {
  const gone = await tx.run(sql`
    delete from email_templates
    where tenant_id = ${of.tenant_id} and app_id = ${of.app_id} and kind = ${of.kind} and language = ${of.language}`)
  return gone === 1
}
