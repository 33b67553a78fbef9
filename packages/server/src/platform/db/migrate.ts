import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import type { Connection } from './db.ts'

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
  const client = new pg.Client({ ...connection, application_name: 'halfkey migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    await prepare(client)
    const known = await applied(client)
    const done: string[] = []
    for (const migration of migrations) {
      const checksum = known.get(migration.name)
      if (checksum === migration.checksum) continue
      if (checksum !== undefined)
        throw new MigrationError(
          `Migration ${migration.name} differs from the one that was applied. Run the release that applied it, or restore the database from a backup.`,
        )
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
