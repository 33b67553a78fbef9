import type { TestContext } from 'vitest'
import { newDatabase } from '../harness/harness.ts'
import { DataFolder, query, type ServiceProcess, startProcess } from '../harness/service-process.ts'

export type Sql = <Row extends object>(text: string, values?: unknown[]) => Promise<Row[]>

/** An API process, and as many others as are asked for, on one database and with one key file. */
export interface Apart {
  api: ServiceProcess
  key: string
  databaseUrl: string
  folder: DataFolder
  sql: Sql
  start(role: 'all' | 'api' | 'worker', settings?: Record<string, string>, nodeArgs?: string[]): Promise<ServiceProcess>
}

/** `databaseUrl`: a PostgreSQL of the test's own, instead of a new database in the run's. All of it ends with the test. */
export async function startApart(
  context: TestContext,
  settings: Record<string, string> = {},
  databaseUrl?: string,
): Promise<Apart> {
  const database = databaseUrl === undefined ? await newDatabase() : { url: databaseUrl, drop: async () => {} }
  const folder = new DataFolder()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
  })
  const start: Apart['start'] = (role, more = {}, nodeArgs = []) =>
    startProcess({
      cwd: folder.path,
      env: folder.env({ DATABASE_URL: database.url, HALFKEY_ROLE: role, ...settings, ...more }),
      nodeArgs,
    })
  const api = await start('api')
  return {
    api,
    key: api.key,
    databaseUrl: database.url,
    folder,
    sql: (text, values) => query({ connectionString: database.url }, text, values),
    start,
  }
}

/** The id, in the database, of the worker that started last. */
export async function newestWorker(sql: Sql): Promise<string> {
  const rows = await sql<{ id: string }>('select id from workers order by started_at desc limit 1')
  if (rows[0] === undefined) throw new Error('no worker has ever started')
  return rows[0].id
}

/** How many deliveries a worker holds: of a killed one, the most that may arrive twice. */
export async function leasesOf(sql: Sql, workerId: string): Promise<number> {
  const rows = await sql<{ n: number }>(
    "select count(*)::int as n from deliveries where split_part(lease_id, '/', 1) = $1",
    [workerId],
  )
  return rows[0]?.n ?? 0
}
