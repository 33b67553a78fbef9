import type { Deps } from '../../../platform/deps.ts'
import type { EmailLanguage, EmailPurpose } from '../schema.ts'
import type { Template } from '../template.ts'
import { problemsOf } from './check.ts'
import { defaultTemplate } from './defaults.ts'
import * as store from './store.ts'

/** The template that is sent, and when the app wrote it. */
export interface Effective {
  template: Template
  /** Null for a default. */
  updatedAt: Date | null
}

/**
 * A row's template. It is checked again before each use: a row that was imported, or changed by something other than Halfkey, could
 * contain what no call can store. Then the default is sent.
 */
export function effectiveOf(
  row: store.TemplateRow | undefined,
  kind: EmailPurpose,
  language: EmailLanguage,
): Effective {
  if (row === undefined || problemsOf(kind, row).length > 0)
    return { template: defaultTemplate(kind, language), updatedAt: null }
  return { template: row, updatedAt: row.updated_at }
}

/** The template of an email. */
export async function templateFor(deps: Deps, of: store.OfTemplate): Promise<Template> {
  return effectiveOf(await store.findTemplate(deps.db, of), of.kind, of.language).template
}
