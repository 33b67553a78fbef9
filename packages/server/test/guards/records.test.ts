import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { recordKinds } from '../../src/app.ts'

const MIGRATIONS = join(import.meta.dirname, '../../migrations')
const migrations = globSync('*.sql', { cwd: MIGRATIONS })
  .sort()
  .map((name) => readFileSync(join(MIGRATIONS, name), 'utf8'))
  .join('\n')
  .replace(/--.*$/gm, '')

const NO_COLUMN = ['primary', 'constraint', 'unique', 'foreign', 'check']

/** The columns that the migrations give a table. */
function columnsOf(table: string): string[] {
  const firstName = new RegExp(`^alter table ([a-z_]+) rename to ${table};`, 'm').exec(migrations)?.[1] ?? table
  const created = new RegExp(`^create table ${firstName} \\(\\n([\\s\\S]*?)^\\)`, 'm').exec(migrations)?.[1] ?? ''
  const first = [...created.matchAll(/^ {2}"?([a-z_0-9]+)"? /gm)].map(([, name]) => name as string)
  const alterations = [...migrations.matchAll(new RegExp(`^alter table ${table}\\s([^;]*);`, 'gm'))]
  const added = alterations.flatMap(([, text]) =>
    [...(text as string).matchAll(/add column (?:if not exists )?([a-z_0-9]+)/g)].map(([, name]) => name as string),
  )
  return [...new Set([...first.filter((name) => !NO_COLUMN.includes(name)), ...added])].sort()
}

test.for(recordKinds.map((kind) => [kind.table, kind] as const))(
  'each column of %s is in its MAC, or listed with the reason why nobody gains by changing it',
  ([table, kind]) => {
    const tenant = kind.owner === 'none' ? [] : ['tenant_id']
    const own = [...tenant, ...kind.key, 'mac', ...(kind.versioned ? ['version'] : [])]
    const classified = [...own, ...Object.keys(kind.columns), ...Object.keys(kind.notAuthority)].sort()
    expect(columnsOf(table)).toEqual(classified)
    for (const [column, reason] of Object.entries(kind.notAuthority)) expect(reason, column).toMatch(/\w{3}/)
  },
)

test('every table with a column for a MAC is declared, each once', () => {
  const tables = [...migrations.matchAll(/^(?:alter|create) table ([a-z_]+)\s[^;]*\bmac bytea/gm)].map(
    ([, name]) => name,
  )
  expect(recordKinds.map(({ table }) => table).sort()).toEqual([...new Set(tables)].sort())
  expect(new Set(recordKinds.map(({ name }) => name)).size).toBe(recordKinds.length)
})
