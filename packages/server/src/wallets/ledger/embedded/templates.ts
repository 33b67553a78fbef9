import { LRUCache } from 'lru-cache'
import type { Db } from '../../../platform/db/db.ts'
import type { Id } from '../../../platform/ids.ts'
import type { Command } from '../../../platform/ports/ledger.ts'
import { declaredTemplate } from './declared-template.ts'
import { noteTemplate } from './note-template.ts'
import * as store from './store.ts'
import type { Template } from './template.ts'
import { TOKEN_TEMPLATES } from './token-templates.ts'

/** The templates that every tenant's ledger has. */
export const BUILT_IN: ReadonlyMap<string, Template> = new Map(
  [...TOKEN_TEMPLATES, noteTemplate].map((template) => [template.templateId, template]),
)

const TENANTS_MAX = 1_000

/** Finds templates, built in or declared. A declared one never changes, so it is cached. */
export function createTemplates() {
  const declared = new LRUCache<Id<'ten'>, Map<string, Template>>({ max: TENANTS_MAX, memoMethod: () => new Map() })

  /** The templates of these ids and all that contracts of them can lead to; unknown ids are not among them. */
  async function find(db: Db, tenantId: Id<'ten'>, ids: Iterable<string>): Promise<ReadonlyMap<string, Template>> {
    let wanted = [...new Set(ids)].filter((id) => !BUILT_IN.has(id))
    if (wanted.length === 0) return BUILT_IN
    const known = declared.memo(tenantId)
    const found = new Map(BUILT_IN)
    while (wanted.length > 0) {
      const missing = wanted.filter((id) => !known.has(id))
      const rows = missing.length === 0 ? [] : await store.findTemplates(db, tenantId, missing)
      for (const row of rows) known.set(row.template_id, declaredTemplate(row.definition))
      const here = wanted.flatMap((id) => known.get(id) ?? [])
      for (const template of here) found.set(template.templateId, template)
      const next = here.flatMap((template) => [...template.choices.values()].flatMap((choice) => choice.consequences))
      wanted = [...new Set(next)].filter((id) => !found.has(id))
    }
    return found
  }

  return {
    find,
    forCommands: (db: Db, tenantId: Id<'ten'>, commands: readonly Command[]) =>
      find(
        db,
        tenantId,
        commands.map((command) => ('create' in command ? command.create.templateId : command.exercise.templateId)),
      ),
  }
}
