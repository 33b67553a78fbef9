import pg from 'pg'
import { type Connection, openConnection } from './connection.ts'
import { statementName } from './db.ts'

/** What answers at a connection: PostgreSQL itself, or a pooler that lends its sessions to clients or to transactions. */
export type Counterpart = 'server' | 'session pooler' | 'transaction pooler'

const CLIENT = { application_name: 'halfkey check', query_timeout: 5_000 }
/** Other clients of a busy pooler may take the session that is looked for. */
const ROUNDS_MAX = 5

async function backend(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid as number
}

/** Runs with a second connection. */
async function withSecond<T>(connection: Connection, body: (second: pg.Client) => Promise<T>): Promise<T> {
  const second = await openConnection(connection, CLIENT)
  try {
    return await body(second)
  } finally {
    second.end().catch(() => {})
  }
}

/**
 * Finds out what an open connection leads to. A server names its process when a session starts; a pooler names another one,
 * since it has no process for the session yet. @throws Error of the pooler where it refuses transactions
 */
export async function recognise(client: pg.Client, connection: Connection): Promise<Counterpart> {
  let pid = await backend(client)
  if (pid === (client as unknown as { processID: number }).processID) return 'server'
  return withSecond(connection, async (second) => {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      await second.query('begin')
      // Had the first connection a session to itself, the second could not be in it.
      const isShared = (await backend(second)) === pid
      const next = isShared ? pid : await backend(client)
      await second.query('rollback')
      if (isShared || next !== pid) return 'transaction pooler'
      pid = next
    }
    return 'session pooler'
  })
}

/** The text is the pooler's key for a prepared statement, so it must be none that others have prepared. */
const named = (client: pg.Client, text: string) =>
  client.query<{ pid: number }>({ name: statementName('select pg_backend_pid() as pid'), text })

/**
 * Whether statements that are prepared by name in one session of a transaction pooler are known in the next one.
 * @returns the error of the statement that got lost; `undecided` where the pooler gave no second session
 */
export async function checkStatements(connection: Connection): Promise<Error | 'kept' | 'undecided'> {
  const text = `select pg_backend_pid() as pid /* ${Date.now()} */`
  const first = await openConnection(connection, CLIENT)
  try {
    return await withSecond(connection, async (second) => {
      for (let round = 0; round < ROUNDS_MAX; round++) {
        try {
          const before = (await named(first, text)).rows[0]?.pid
          // While the second connection is in a transaction, the first one is given another session.
          await second.query('begin')
          await backend(second)
          const after = (await named(first, text)).rows[0]?.pid
          await second.query('rollback')
          if (before !== after) return 'kept'
        } catch (error) {
          // What is no verdict of PostgreSQL's is a wait for a second session, which timed out.
          return error instanceof pg.DatabaseError ? error : 'undecided'
        }
      }
      return 'undecided'
    })
  } finally {
    first.end().catch(() => {})
  }
}

const WHICH = {
  exactly: "select concat_ws('/', system_identifier, current_database()) as id from pg_control_system()",
  byName: 'select current_database() as id',
}

/**
 * Whether two connections lead to the same database. Where a role may not ask the server for its identity, the database's name
 * decides.
 */
export async function leadToSame(one: pg.Client, other: pg.Client): Promise<boolean> {
  const ask = (text: string) => Promise.all([one, other].map((client) => client.query<{ id: string }>(text)))
  const [first, second] = await ask(WHICH.exactly).catch(() => ask(WHICH.byName))
  return first?.rows[0]?.id === second?.rows[0]?.id
}
