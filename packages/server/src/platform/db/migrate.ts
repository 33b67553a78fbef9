import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type pg from 'pg'
import { type Connection, openConnection } from './connection.ts'

const FOLDER = new URL('../../../migrations/', import.meta.url)
/** Any number, the same in every version: what migrators lock. */
const LOCK = 4_812_570_346

/** A migration that was applied is not the one in this release, or the server is too old. The message says what to do. */
export class MigrationError extends Error {}

export interface Migration {
  name: string
  text: string
  checksum: string
}

/** This release's migrations, in order. */
export async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, FOLDER), 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

async function applied(client: pg.Client): Promise<Map<string, string>> {
  const { rows } = await client.query<{ name: string; checksum: string }>('select name, checksum from migrations')
  return new Map(rows.map((row) => [row.name, row.checksum]))
}

/**
 * Requires that every migration of this release is applied, and changes nothing.
 * @returns no names, as `migrate` does where there is nothing to do
 * @throws MigrationError that names what is missing
 */
export async function requireMigrated(connection: Connection): Promise<string[]> {
  const migrations = await readMigrations()
  const client = await openConnection(connection, { application_name: 'halfkey migrate' })
  try {
    const { rows } = await client.query<{ exists: boolean }>("select to_regclass('migrations') is not null as exists")
    const known = rows[0]?.exists ? await applied(client) : new Map<string, string>()
    for (const migration of migrations) requireUnchanged(migration, known)
    const missing = migrations.filter(({ name }) => !known.has(name)).map(({ name }) => name)
    if (missing.length === 0) return []
    throw new MigrationError(
      `The database lacks migrations of this release (${missing.join(', ')}), and HALFKEY_MIGRATE is off. Run \`halfkey migrate\` of this release.`,
    )
  } finally {
    await client.end()
  }
}

function requireUnchanged({ name, checksum }: Migration, known: ReadonlyMap<string, string>): void {
  if ((known.get(name) ?? checksum) !== checksum)
    throw new MigrationError(
      `Migration ${name} differs from the one that was applied. Run the release that applied it, or restore the database from a backup.`,
    )
}

const VERSION_MIN = 150_000

async function prepare(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ n: number; v: string }>(
    "select current_setting('server_version_num')::int as n, current_setting('server_version') as v",
  )
  if ((rows[0]?.n ?? 0) < VERSION_MIN)
    throw new MigrationError(`PostgreSQL ${rows[0]?.v} is too old. Halfkey needs version 15 or later.`)
  await client.query('select pg_advisory_lock($1)', [LOCK])
  await client.query(
    'create table if not exists migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now())',
  )
}

/**
 * Brings the schema up to this release: each missing migration in a transaction of its own, under a lock that makes
 * others wait. A newer schema is left as it is, for old code must run on it during an upgrade.
 * @returns the names applied now
 * @throws MigrationError
 */
export async function migrate(connection: Connection, progress: (name: string) => void = () => {}): Promise<string[]> {
  const migrations = await readMigrations()
  const client = await openConnection(connection, { application_name: 'halfkey migrate' })
  try {
    await prepare(client)
    const known = await applied(client)
    const done: string[] = []
    for (const migration of migrations) {
      requireUnchanged(migration, known)
      if (known.has(migration.name)) continue
      progress(migration.name)
      await client.query('begin')
      await client.query(migration.text)
      await client.query('insert into migrations (name, checksum) values ($1, $2)', [
        migration.name,
        migration.checksum,
      ])
      await client.query('commit')
      done.push(migration.name)
    }
    return done
  } finally {
    await client.end()
  }
}
