import { recordKinds } from '../../src/app.ts'
import type { Deps } from '../../src/platform/deps.ts'
import type { RecordRow } from '../../src/platform/security/records/kind.ts'
import { composed } from '../../src/platform/security/sealed-values.ts'

/**
 * Gives all records the MACs of what they say now, and forgets which versions the process has seen. For tests that change
 * rows by SQL on purpose, where the change is not an attack.
 * @param tenantId only this tenant's; without it, all
 */
export async function recode({ db }: Pick<Deps, 'db'>, tenantId?: string): Promise<void> {
  for (const kind of recordKinds) {
    for (const row of await db.query<RecordRow>(composed(`select * from ${kind.table}`))) {
      if (tenantId !== undefined && row.tenant_id !== tenantId) continue
      const mac = await db.records.mac(kind, row)
      const key = kind.owner === undefined ? ['tenant_id', ...kind.key] : kind.key
      const where = key.map((column, at) => `${column} = $${at + 2}`).join(' and ')
      const values = [mac, ...key.map((column) => row[column])]
      await db.run(composed(`update ${kind.table} set mac = $1 where ${where}`, values))
    }
  }
  db.records.forgetVersions()
}
