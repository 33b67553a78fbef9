import { recordKinds } from '../../src/app.ts'
import type { Deps } from '../../src/platform/deps.ts'
import type { RecordRow } from '../../src/platform/security/records/kind.ts'
import { walkColumns, withLists } from '../../src/platform/security/records/walk.ts'
import { composed } from '../../src/platform/security/sealed-values.ts'

/**
 * Gives all records the MACs, and lists, of what the tables say now, and forgets which versions the process has seen. For tests that change
 * rows by SQL on purpose, where the change is not an attack.
 * @param tenantId only this tenant's; without it, all
 */
export async function recode({ db }: Pick<Deps, 'db'>, tenantId?: string): Promise<void> {
  for (const kind of recordKinds) {
    const lists = Object.keys(kind.sets ?? {})
    for (const found of await db.query<RecordRow>(composed(`select ${walkColumns(kind)} from ${kind.table}`))) {
      if (tenantId !== undefined && found.tenant_id !== tenantId) continue
      const row = withLists(kind, found)
      const mac = await db.records.mac(kind, row)
      const key = kind.owner === undefined ? ['tenant_id', ...kind.key] : kind.key
      const written = { mac, ...Object.fromEntries(lists.map((list) => [list, row[list]])) }
      const set = Object.keys(written).map((column, at) => `${column} = $${at + 1}`)
      const where = key.map((column, at) => `${column} = $${set.length + at + 1}`).join(' and ')
      const values = [...Object.values(written), ...key.map((column) => row[column])]
      await db.run(composed(`update ${kind.table} set ${set.join(', ')} where ${where}`, values))
    }
  }
  db.records.forgetVersions()
}
