import { setTimeout as pause } from 'node:timers/promises'
import type pg from 'pg'
import type { Config } from '../config.ts'
import { newId } from '../ids.ts'
import { findDistributed } from './citus/distributed.ts'
import { type Connection, openConnection, readConnection } from './connection.ts'
import { checkStatements, leadToSame, recognise } from './poolers.ts'

/** The two ways to a database. They are the same where no pooler is named. */
export interface Reach {
  /** For requests: may lead through a pooler. */
  pooled: Connection
  /** For migrations, notifications and locks: keeps a session. */
  direct: Connection
}

/** The addresses do not lead to a database that can be used. The message says why and what to do. */
export class ReachError extends Error {
  /** Of docs/operating.md. */
  readonly section: string = 'behind-a-pooler'
}

/** Another system has spread our tables over servers. */
export class DistributedError extends ReachError {
  override readonly section = 'the-database'
}

const CONNECTION = { application_name: 'halfkey check', query_timeout: 10_000 }

const NO_SESSION = {
  direct: 'DATABASE_DIRECT_URL leads to a pooler in transaction mode. Set it to the address of PostgreSQL itself.',
  only: 'DATABASE_URL leads to a pooler in transaction mode. Migrations, notifications and locks need a direct connection: set DATABASE_DIRECT_URL to the address of PostgreSQL itself.',
}

const LOST_STATEMENTS =
  'Halfkey prepares statements by name. PgBouncer keeps them from version 1.21 on, with max_prepared_statements above 0 (before 1.24 it is 0 unless you set it). Update PgBouncer and set max_prepared_statements = 1000, or set DATABASE_URL to the address of PostgreSQL itself.'

/** The addresses as they are set. Null for the embedded database. */
export function readReach({ databaseUrl, databaseDirectUrl }: Config): Reach | null {
  if (databaseUrl === null) return null
  const pooled = readConnection(databaseUrl)
  const isSame = databaseDirectUrl === null || databaseDirectUrl === databaseUrl
  return { pooled, direct: isSame ? pooled : readConnection(databaseDirectUrl) }
}

/**
 * Spread over servers, statements go on without an error and say something else: transaction ids of several servers are compared, and
 * locks are taken on one server and asked for on another. So a revoked session may still count (docs/decisions/0109).
 */
const distributed = (table: string) =>
  `Citus distributes tables of this database, such as ${table}. Halfkey needs tables of PostgreSQL itself: on distributed ones, revoked sessions could still be accepted. Use another database, or undistribute them (select undistribute_table('${table}'), or citus_schema_undistribute for a schema).`

/** The direct address as it is to be used. @throws ReachError if it does not keep a session, or tables are distributed */
async function checkDirect(client: pg.Client, { pooled, direct }: Reach): Promise<Connection> {
  const counterpart = await recognise(client, direct)
  if (counterpart === 'transaction pooler')
    throw new ReachError(direct === pooled ? NO_SESSION.only : NO_SESSION.direct)
  const table = await findDistributed(client)
  if (table !== undefined) throw new DistributedError(distributed(table))
  return counterpart === 'server' ? direct : { ...direct, pooled: true }
}

/** The address for requests as it is to be used. @throws ReachError if it loses statements or refuses transactions */
async function checkPooled(client: pg.Client, pooled: Connection): Promise<Connection> {
  const counterpart = await recognise(client, pooled).catch((error: Error) => {
    throw new ReachError(
      `The pooler of DATABASE_URL could not run a transaction (${error.message}). If it is PgBouncer, set pool_mode = transaction and check that max_client_conn is not reached.`,
    )
  })
  if (counterpart === 'server') return pooled
  const found = counterpart === 'transaction pooler' ? await checkStatements(pooled) : 'kept'
  if (found instanceof Error)
    throw new ReachError(`The pooler of DATABASE_URL loses prepared statements (${found.message}). ${LOST_STATEMENTS}`)
  if (found === 'undecided')
    throw new ReachError(
      'The pooler of DATABASE_URL could not be checked, because it gave two connections the same session. It may be out of sessions. Let it open more of them (PgBouncer: default_pool_size = 40).',
    )
  return { ...pooled, pooled: true }
}

/** Runs with a connection that is closed afterwards. */
async function using<T>(connection: Connection, body: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openConnection(connection, CONNECTION)
  try {
    return await body(client)
  } finally {
    client.end().catch(() => {})
  }
}

/** Finds out what the addresses lead to. @returns them with what was found @throws ReachError, and the connection's own errors */
export function checkReach(reach: Reach): Promise<Reach> {
  return using(reach.direct, async (session) => {
    const direct = await checkDirect(session, reach)
    if (reach.direct === reach.pooled) return { direct, pooled: direct }
    return using(reach.pooled, async (client) => {
      if (!(await leadToSame(session, client)))
        throw new ReachError(
          'DATABASE_URL and DATABASE_DIRECT_URL lead to different databases. Set both to the same one.',
        )
      return { direct, pooled: await checkPooled(client, reach.pooled) }
    })
  })
}

const CHANNEL = 'halfkey_check'
const HEARD_MS = 2_000

/** Whether a notification that is sent over one address arrives at the other. */
export function hears({ pooled, direct }: Reach): Promise<boolean> {
  return using(direct, (listener) =>
    using(pooled, async (sender) => {
      const payload = newId('job')
      const heard = new Promise<boolean>((resolve) => {
        listener.on('notification', (notification) => notification.payload === payload && resolve(true))
      })
      await listener.query(`listen ${CHANNEL}`)
      await sender.query('select pg_notify($1, $2)', [CHANNEL, payload])
      return Promise.race([heard, pause(HEARD_MS, false, { ref: false })])
    }),
  )
}
