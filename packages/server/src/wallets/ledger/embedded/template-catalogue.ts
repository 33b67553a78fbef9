import type { Db } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'
import { createdBy, type Definition, type Flaw, flawsOf } from './declared-template.ts'
import * as store from './store.ts'
import { BUILT_IN } from './templates.ts'

export type { Definition } from './declared-template.ts'

/** How many templates a tenant may declare. */
export const TEMPLATES_MAX = 200

/** A template that a tenant declared. */
export interface DeclaredTemplate {
  definition: Definition
  createdAt: Date
}

const toDeclared = (row: store.TemplateRow): DeclaredTemplate => ({
  definition: row.definition,
  createdAt: row.created_at,
})

/** The errors of a definition on this tenant's ledger; empty if it can be declared. */
export async function findFlaws(db: Db, tenantId: Id<'ten'>, definition: Definition): Promise<Flaw[]> {
  const rows = await store.findTemplates(db, tenantId, createdBy(definition))
  const declared = new Map(rows.map((row) => [row.template_id, row.definition.fields]))
  return flawsOf(definition, (templateId) => BUILT_IN.get(templateId)?.fields ?? declared.get(templateId))
}

/** Whether a name is reserved for built-in templates. */
export function isReserved(templateId: string): boolean {
  return BUILT_IN.has(templateId) || /^(token|note)[^a-z0-9]*:/i.test(templateId)
}

/** Declares a template; `declared` runs in the same transaction. `taken` if its name is used, `full` if the tenant has reached the limit. */
export function declareTemplate(
  db: Db,
  tenantId: Id<'ten'>,
  definition: Definition,
  now: Date,
  declared: (tx: Db) => Promise<void> = async () => {},
): Promise<DeclaredTemplate | 'taken' | 'full'> {
  return db.tx(async (tx) => {
    // One at a time: concurrent callers would count the same number of templates and exceed the limit.
    await store.lockTemplates(tx, tenantId)
    if ((await findTemplate(tx, tenantId, definition.templateId)) !== undefined) return 'taken'
    if ((await store.countTemplates(tx, tenantId)) >= TEMPLATES_MAX) return 'full'
    await store.insertTemplate(tx, tenantId, definition, now)
    await declared(tx)
    return { definition, createdAt: now }
  })
}

/** One declared template. */
export async function findTemplate(
  db: Db,
  tenantId: Id<'ten'>,
  templateId: string,
): Promise<DeclaredTemplate | undefined> {
  const [row] = await store.findTemplates(db, tenantId, [templateId])
  return row && toDeclared(row)
}

/** A page of the tenant's declared templates, newest first. */
export async function listTemplates(
  db: Db,
  tenantId: Id<'ten'>,
  page: { offset: number; pageSize: number },
): Promise<{ items: DeclaredTemplate[]; total: number }> {
  const { rows, total } = await store.listTemplates(db, tenantId, page)
  return { items: rows.map(toDeclared), total }
}
