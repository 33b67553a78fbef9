import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbedded } from '../../src/platform/db/embedded/embedded.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The run's PostgreSQL, as the role that may create databases. */
    postgres: { host: string; port: number; user: string; password: string; database: string }
  }
}

/** Starts one real PostgreSQL for the whole run. Each service under test gets a database of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-test-'))
  // Passable, so that the server finds its data here even where root lends it to another user.
  chmodSync(folder, 0o755)
  const embedded = await openEmbedded({ dataDir: folder, role: 'all', log: () => {} })
  const { adminPassword } = JSON.parse(readFileSync(join(embedded.dataDir, 'halfkey.json'), 'utf8')) as {
    adminPassword: string
  }
  const admin = new pg.Client({
    ...embedded.connection,
    user: 'postgres',
    password: adminPassword,
    database: 'postgres',
  })
  await admin.connect()
  await admin.query('alter role halfkey createdb')
  await admin.end()
  project.provide('postgres', embedded.connection)
  return async () => {
    await embedded.detach()
    rmSync(embedded.dataDir, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
  }
}
