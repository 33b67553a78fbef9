import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { newId } from '../ids.ts'
import type { Logger } from '../observability/log.ts'
import { inSpan, inStatementSpan, isTraced } from '../observability/tracing.ts'
import { NO_RECORDS, type RecordKeeper } from '../security/records/keeper.ts'
import type { Connection } from './connection.ts'
import {
  type Database,
  type Db,
  endsConnection,
  isDeadlock,
  isLostRace,
  isOutage,
  isReadOnlyServer,
  isStalePlan,
  keepsEffects,
  type Sql,
  sql,
} from './db.ts'
import { askDescribedOnce } from './described-once.ts'
import { requireWritable } from './servers.ts'

interface Result {
  rows: unknown[]
  rowCount: number | null
}

/** What stores call, over something that executes a statement. */
function statements(execute: (statement: Sql) => Promise<Result>) {
  const traced = (statement: Sql) =>
    isTraced() ? inStatementSpan(statement.text, () => execute(statement)) : execute(statement)
  return {
    async query<Row extends object>(statement: Sql): Promise<Row[]> {
      return (await traced(statement)).rows as Row[]
    },
    async one<Row extends object>(statement: Sql): Promise<Row | undefined> {
      return (await traced(statement)).rows[0] as Row | undefined
    },
    async count(statement: Sql): Promise<number> {
      return ((await traced(statement)).rows[0] as { n: number } | undefined)?.n ?? 0
    },
    async run(statement: Sql): Promise<number> {
      return (await traced(statement)).rowCount ?? 0
    },
  }
}

/**
 * Sends statements under names that a change of tables makes new: where a pooler keeps prepared statements, those from
 * before the change outlast every connection of ours.
 */
function createAsker({ connection, readOnly }: DatabaseOptions) {
  // Whether a replica's address is a pooler's is not known.
  const isOwnSession = connection.pooled !== true && readOnly !== true
  let mark = ''
  return {
    mark: () => mark,
    ask(client: pg.ClientBase, { text, values, name }: Sql): Promise<Result> {
      const config = { text: mark === '' ? text : `/* ${mark} */ ${text}`, values: values as unknown[] }
      if (name === '') return client.query(config)
      const named = { ...config, name: `${name}${mark}` }
      return isOwnSession ? askDescribedOnce(client, named) : client.query(named)
    },
    /** Whether the statement, sent under `sent`, is worth another try. */
    renew(error: unknown, sent: string): boolean {
      if (!isStalePlan(error)) return false
      if (mark === sent) mark = newId('job')
      return true
    },
  }
}

function transaction(ask: (statement: Sql) => Promise<Result>, effects: (() => void)[], records: RecordKeeper): Db {
  const tx: Db = {
    ...statements(ask),
    records,
    tx: (body) => body(tx),
    inTransaction: true,
    afterCommit: (effect) => void effects.push(effect),
  }
  return tx
}

/** `int8` as number: every 64-bit figure here is a count or a sequence far below 2^53. */
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === 20 ? Number : pg.types.getTypeParser(oid, format as 'text'),
}

export interface DatabaseOptions {
  connection: Connection
  connectionsMax: number
  applicationName: string
  log: Logger
  /** Server settings of these connections, by name. */
  settings?: Readonly<Record<string, string>>
  /** Whether nothing may be written. */
  readOnly?: boolean
  /** How long a statement may run before PostgreSQL ends it. */
  statementTimeoutMs?: number
  /** How much longer the client waits than PostgreSQL, before it takes the server for frozen. */
  clientSlackMs?: number
  /** How long a request waits for a free connection before it fails. */
  acquireTimeoutMs?: number
  /** Absent where no records are read or written. */
  records?: RecordKeeper
}

/** Past PostgreSQL's own limit on a statement, the client gives up by itself: the server may be frozen. */
const CLIENT_SLACK_MS = 5_000
const STATEMENT_TIMEOUT_MS = 15_000
const ACQUIRE_TIMEOUT_MS = 5_000
/** No transaction of ours waits for anything but the database. A process that freezes inside one must not keep its locks. */
const IDLE_IN_TRANSACTION_MS = 5_000

const limitsOf = ({ statementTimeoutMs = STATEMENT_TIMEOUT_MS }: DatabaseOptions) => ({
  statement_timeout: statementTimeoutMs,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
})

/** What opens a transaction. A pooler's session keeps no settings, so each transaction brings them in the same message. */
function beginText(options: DatabaseOptions): string {
  const { connection, settings, readOnly } = options
  if (connection.pooled !== true) return 'begin'
  const begin = readOnly === true ? 'begin read only' : 'begin'
  const all = Object.entries({ ...limitsOf(options), ...settings })
  return [begin, ...all.map(([name, value]) => `set local ${name} = '${value}'`)].join('; ')
}

/** What a session is started with, where it is PostgreSQL's own. */
function startupOptions(options: DatabaseOptions): pg.PoolConfig {
  const { connection, settings = {}, readOnly } = options
  const all = { ...settings, ...(readOnly === true ? { default_transaction_read_only: 'on' } : {}) }
  const texts = [connection.options ?? '', ...Object.entries(all).map(([name, value]) => `-c ${name}=${value}`)]
  const text = (connection.pooled === true ? texts.slice(0, 1) : texts).join(' ').trim()
  return { ...(connection.pooled === true ? {} : limitsOf(options)), ...(text === '' ? {} : { options: text }) }
}

function poolConfig(options: DatabaseOptions): pg.PoolConfig {
  const { servers, pooled = false, options: _, ...address } = options.connection
  const statementMs = options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS
  return {
    ...address,
    max: options.connectionsMax,
    // A pooler tells PostgreSQL of each change: one name for all pools spares it that.
    application_name: pooled ? 'halfkey' : options.applicationName,
    connectionTimeoutMillis: options.acquireTimeoutMs ?? ACQUIRE_TIMEOUT_MS,
    query_timeout: statementMs + (options.clientSlackMs ?? CLIENT_SLACK_MS),
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    types: types as never,
    // A single statement goes out together with what begins and ends its transaction.
    pipeline: pooled,
    ...startupOptions(options),
    ...(servers === undefined || options.readOnly === true ? {} : { onConnect: requireWritable }),
  }
}

/** A read-only server is told by every write: its connections are closed at most so often. */
const DISTRUST_MS = 1_000
const RECONNECT_MS = 50

/** The connections of one pool. */
function openPool(options: DatabaseOptions) {
  const { log, connection, acquireTimeoutMs = ACQUIRE_TIMEOUT_MS } = options
  const { servers } = connection
  const onError = (error: Error) => log.warn({ err: error }, 'database connection lost')
  /** Every connection, from its first packet on: to a server that hangs, it may be opened in vain. */
  const clients = new Set<ServerClient>()
  const openedAt = new Map<pg.ClientBase, number>()
  let distrusted = Number.NEGATIVE_INFINITY
  class ServerClient extends pg.Client {
    readonly url = servers?.current()
    constructor(config: pg.ClientConfig) {
      super(servers === undefined ? config : { ...config, connectionString: servers.current() })
      clients.add(this)
      this.once('end', () => clients.delete(this))
    }
  }
  const pool = new pg.Pool({ ...poolConfig(options), Client: ServerClient as never })
  pool.on('error', onError)
  pool.on('connect', (client) => {
    openedAt.set(client, performance.now())
    // A checked-out client whose connection breaks emits 'error' on itself; without a listener the process would end.
    client.on('error', onError)
  })
  pool.on('remove', (client) => void openedAt.delete(client))
  const unwatch = servers?.watch((url) => {
    for (const client of clients) if (client.url === url) client.connection.stream.destroy()
  })

  /** Of several servers, the one that takes writes is looked for as long as a request may wait. */
  async function connect(): Promise<pg.PoolClient> {
    const deadline = performance.now() + acquireTimeoutMs
    for (;;) {
      try {
        return await pool.connect()
      } catch (error) {
        if (servers === undefined || !isOutage(error) || performance.now() > deadline) throw error
      }
      await servers.find()
      await pause(RECONNECT_MS)
    }
  }

  return {
    pool,
    async take(): Promise<pg.PoolClient> {
      for (;;) {
        const client = await connect()
        if ((openedAt.get(client) ?? 0) >= distrusted) return client
        client.release(true)
      }
    },
    /** What an error says about the connections that there are: another server may be the one that takes writes. */
    judge(error: unknown): void {
      if (!isReadOnlyServer(error) || performance.now() - distrusted < DISTRUST_MS) return
      distrusted = performance.now()
      servers?.find().catch(() => {})
    },
    async close(): Promise<void> {
      unwatch?.()
      await pool.end()
    },
  }
}

/**
 * PostgreSQL ends one of two that lock each other out. Begun anew at once, it may lock the row that the other has waited for,
 * before that one has woken up. Next to the second that a deadlock takes to be found, this is nothing.
 */
const AFTER_DEADLOCK_MS = 50

type Ask = (client: pg.PoolClient, statement: Sql) => Promise<Result>

/** One statement as a transaction of its own, all of it sent at once. */
async function enclosed(client: pg.PoolClient, begin: string, statement: Sql, ask: Ask): Promise<Result> {
  const answers = [client.query(begin), ask(client, statement), client.query('commit')]
  const settled = await Promise.allSettled(answers)
  const failed = settled.find((each) => each.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return (settled[1] as PromiseFulfilledResult<Result>).value
}

/** @returns what gives the result, or throws the error that keeps its effects, after the commit */
async function attempt<T>(
  client: pg.PoolClient,
  begin: string,
  body: (tx: Db) => Promise<T>,
  ask: Ask,
  records: RecordKeeper,
): Promise<() => T> {
  const effects: (() => void)[] = []
  await client.query(begin)
  const settle = await body(transaction((statement) => ask(client, statement), effects, records)).then(
    (result) => () => result,
    (error: unknown) => {
      if (!keepsEffects(error)) throw error
      return () => {
        throw error
      }
    },
  )
  await client.query('commit')
  for (const effect of effects) effect()
  return settle
}

/** Opens a pool. A broken connection is dropped and logged; the next statement gets a new one. */
export function openDatabase(options: DatabaseOptions): Database {
  const { pool, take, judge, close } = openPool(options)
  const { ask, mark, renew } = createAsker(options)
  const begin = beginText(options)
  const { records = NO_RECORDS } = options

  async function alone(statement: Sql): Promise<Result> {
    const client = await take()
    const sent = mark()
    let broken: Error | undefined
    const run = () => (begin === 'begin' ? ask(client, statement) : enclosed(client, begin, statement, ask))
    try {
      return await run().catch((error: unknown) => {
        if (!renew(error, sent)) throw error
        return run()
      })
    } catch (error) {
      if (endsConnection(error)) broken = error as Error
      judge(error)
      throw error
    } finally {
      client.release(broken)
    }
  }

  async function transact<T>(body: (tx: Db) => Promise<T>): Promise<T> {
    const client = await take()
    const sent = mark()
    let broken: Error | undefined
    const run = () =>
      attempt(client, begin, body, ask, records).catch(async (error: unknown) => {
        if (isReadOnlyServer(error)) broken = error as Error
        judge(error)
        await client.query('rollback').catch((failure: Error) => {
          broken = failure
        })
        throw error
      })
    try {
      const settle = await run().catch(async (error: unknown) => {
        if (broken !== undefined || !(isLostRace(error) || renew(error, sent))) throw error
        options.log.warn({ err: error }, 'transaction is retried')
        if (isDeadlock(error)) await pause(AFTER_DEADLOCK_MS)
        return run()
      })
      return settle()
    } finally {
      client.release(broken)
    }
  }

  return {
    ...statements(alone),
    records,
    tx: (body) => (isTraced() ? inSpan('transaction', 'internal', {}, () => transact(body)) : transact(body)),
    inTransaction: false,
    afterCommit: (effect) => effect(),
    stats: () => ({
      total: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      max: options.connectionsMax,
    }),
    close,
  }
}

const FIRST_CONNECTION_MS = 60_000
const FIRST_CONNECTION_PAUSE_MS = 100

/**
 * Opens a pool's first connection, for which a start waits up to a minute: longer than a request may, because a machine
 * that starts everything at once is busy. @throws the last failure, and at once whatever is no outage
 */
export async function openFirstConnection(db: Database): Promise<void> {
  const deadline = performance.now() + FIRST_CONNECTION_MS
  for (;;) {
    try {
      await db.run(sql`select 1`)
      return
    } catch (error) {
      if (!isOutage(error) || performance.now() > deadline) throw error
    }
    await pause(FIRST_CONNECTION_PAUSE_MS)
  }
}
