import type { Sql } from '../../platform/db/db.ts'
import type { TableShape } from './lines.ts'

/** A table as it travels, and in the order in which its rows are read. */
export interface Table extends TableShape {
  /** Its primary key without the tenant. */
  order: string[]
}

/** A statement whose text follows from the schema. Never prepared, since such texts have no bound in the source. */
export const composed = (text: string, values: readonly unknown[] = []): Sql => ({ text, values, name: '' })

/** A name as it stands in SQL. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Where the rows of an import wait until the tenant goes live: a schema of its own, which nothing else looks into. */
export const schemaName = (importId: string): string => `halfkey_import_${importId}`

/** A staged table as it stands in SQL. */
export const staged = (importId: string, table: string): string => `${quoted(schemaName(importId))}.${quoted(table)}`
