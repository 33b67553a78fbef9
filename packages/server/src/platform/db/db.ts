import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from '../observability/log.ts'
import { inSpan, inStatementSpan, isTraced } from '../observability/tracing.ts'

/** A statement with its parameters. Created by the `sql` tag, never by concatenation. */
export interface Sql {
  readonly text: string
  readonly values: readonly unknown[]
  readonly name: string
}

const isSql = (value: unknown): value is Sql =>
  typeof value === 'object' && value !== null && 'text' in value && 'values' in value && 'name' in value

const names = new Map<string, string>()
/** Statement texts are written in the source, so their number is bounded by it; past this something composes texts from data. */
const NAMES_MAX = 2_000

/** The name under which each connection prepares a statement of this text. */
export function statementName(text: string): string {
  const known = names.get(text)
  if (known !== undefined) return known
  if (names.size >= NAMES_MAX) throw new Error('too many distinct SQL texts: a value is being composed into one')
  const name = createHash('sha256').update(text).digest('base64url').slice(0, 24)
  names.set(text, name)
  return name
}

interface Composed {
  text: string
  name: string
}

/** What a template became with these fragments, one step a part of it: so a statement is put together once. */
interface Step {
  composed: Composed | undefined
  next: Map<string, Step>
}

/** Stands for a value among fragments; no fragment is this text. */
const VALUE = '\0'

const steps = new WeakMap<TemplateStringsArray, Step>()

function stepOf(strings: TemplateStringsArray, parts: readonly unknown[]): Step {
  let step = steps.get(strings)
  if (step === undefined) {
    step = { composed: undefined, next: new Map() }
    steps.set(strings, step)
  }
  if (!parts.some(isSql)) return step
  for (const part of parts) {
    const key = isSql(part) ? part.text : VALUE
    let following: Step | undefined = step.next.get(key)
    if (following === undefined) {
      following = { composed: undefined, next: new Map() }
      step.next.set(key, following)
    }
    step = following
  }
  return step
}

function compose(strings: TemplateStringsArray, parts: readonly unknown[]): Composed {
  let text = strings[0] as string
  let count = 0
  parts.forEach((part, index) => {
    if (isSql(part)) {
      const before = count
      text += part.text.replace(/\$(\d+)/g, (_, number: string) => `$${Number(number) + before}`)
      count += part.values.length
    } else {
      count += 1
      text += `$${count}`
    }
    text += strings[index + 1] as string
  })
  return { text, name: statementName(text) }
}

/**
 * Tags SQL text: `${value}` becomes a parameter, `${sql`…`}` is spliced in. The statement's name is a hash of its
 * text, so each connection prepares it once.
 */
export function sql(strings: TemplateStringsArray, ...parts: unknown[]): Sql {
  const step = stepOf(strings, parts)
  step.composed ??= compose(strings, parts)
  const values = parts.some(isSql) ? parts.flatMap((part) => (isSql(part) ? part.values : [part])) : parts
  return { text: step.composed.text, name: step.composed.name, values }
}

/**
 * The statement planned anew at every call, for one whose best plan depends on its values: a prepared one soon gets a
 * plan that does for all of them.
 */
export function unprepared(statement: Sql): Sql {
  return { ...statement, name: '' }
}

/** Joins conditions by `and`; none gives `true`. */
export function and(conditions: readonly Sql[]): Sql {
  return conditions.reduce((all, one) => sql`${all} and ${one}`, sql`true`)
}

/** Part of a statement: a time as the API has it, ISO 8601 in UTC with milliseconds. */
export const isoTime = (time: Sql): Sql => sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** Lets a transaction wait for something else than the database between two statements. */
export async function allowIdle(tx: Db): Promise<void> {
  await tx.run(sql`set local idle_in_transaction_session_timeout = '10min'`)
}

/** Makes a transaction read-only, on one snapshot of the database; its reader may wait between two portions. */
export async function beginSnapshot(tx: Db): Promise<void> {
  await tx.run(sql`set transaction isolation level repeatable read, read only`)
  await allowIdle(tx)
}

/** Where statements run: the pool, or one transaction. Both look alike, so a store function takes either. */
export interface Db {
  query<Row extends object>(statement: Sql): Promise<Row[]>
  /** The first row, or undefined. */
  one<Row extends object>(statement: Sql): Promise<Row | undefined>
  /** The number `n` of the first row; 0 without one. */
  count(statement: Sql): Promise<number>
  /** Runs a statement without reading rows. @returns the number of affected rows */
  run(statement: Sql): Promise<number>
  /**
   * All or nothing. Inside a transaction it joins that one. One that the database ended in favour of another (deadlock,
   * serialisation failure) is run once more from its beginning: `body` does nothing that must not happen twice. An error
   * with `keepsEffects` is thrown on after a commit.
   */
  tx<T>(body: (tx: Db) => Promise<T>): Promise<T>
  /** Whether this is a transaction, which holds a connection while it waits for anything. */
  readonly inTransaction: boolean
  /** Runs once the surrounding transaction has committed (at once outside one); never when it rolls back. */
  afterCommit(effect: () => void): void
}

export interface Database extends Db {
  /** Connections open, those of them without work, requests that wait for one, and the most there may be; for metrics. */
  stats(): { total: number; idle: number; waiting: number; max: number }
  close(): Promise<void>
}

interface QueryRunner {
  query(config: {
    name?: string
    text: string
    values: unknown[]
  }): Promise<{ rows: unknown[]; rowCount: number | null }>
}

function statements(runner: QueryRunner) {
  const ask = (statement: Sql) =>
    runner.query({
      text: statement.text,
      values: statement.values as unknown[],
      ...(statement.name === '' ? {} : { name: statement.name }),
    })
  const execute = (statement: Sql) =>
    isTraced() ? inStatementSpan(statement.text, () => ask(statement)) : ask(statement)
  return {
    async query<Row extends object>(statement: Sql): Promise<Row[]> {
      return (await execute(statement)).rows as Row[]
    },
    async one<Row extends object>(statement: Sql): Promise<Row | undefined> {
      return (await execute(statement)).rows[0] as Row | undefined
    },
    async count(statement: Sql): Promise<number> {
      return ((await execute(statement)).rows[0] as { n: number } | undefined)?.n ?? 0
    },
    async run(statement: Sql): Promise<number> {
      return (await execute(statement)).rowCount ?? 0
    },
  }
}

function transaction(client: pg.PoolClient, effects: (() => void)[]): Db {
  const tx: Db = {
    ...statements(client as unknown as QueryRunner),
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

/** How to reach PostgreSQL: a URL, or the embedded server's parts. */
export type Connection =
  | { connectionString: string }
  | { host: string; port: number; user: string; password: string; database: string }

export interface DatabaseOptions {
  connection: Connection
  connectionsMax: number
  applicationName: string
  log: Logger
  /** Server settings of these connections, by name. */
  settings?: Readonly<Record<string, string>>
  /** How long a statement may run before PostgreSQL ends it. */
  statementTimeoutMs?: number
  /** How much longer the client waits than PostgreSQL, before it takes the server for frozen. */
  clientSlackMs?: number
  /** How long a request waits for a free connection before it fails. */
  acquireTimeoutMs?: number
}

/** Past PostgreSQL's own limit on a statement, the client gives up by itself: the server may be frozen. */
const CLIENT_SLACK_MS = 5_000
const STATEMENT_TIMEOUT_MS = 15_000
/** No transaction of ours waits for anything but the database. A process that freezes inside one must not keep its locks. */
const IDLE_IN_TRANSACTION_MS = 5_000

/** Opens a pool. A broken connection is dropped and logged; the next statement gets a new one. */
export function openDatabase(options: DatabaseOptions): Database {
  const pool = new pg.Pool({
    ...options.connection,
    max: options.connectionsMax,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.acquireTimeoutMs ?? 5_000,
    statement_timeout: options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
    query_timeout: (options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS) + (options.clientSlackMs ?? CLIENT_SLACK_MS),
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    types: types as never,
    ...(options.settings === undefined
      ? {}
      : {
          options: Object.entries(options.settings)
            .map(([name, value]) => `-c ${name}=${value}`)
            .join(' '),
        }),
  })
  const onError = (error: Error) => options.log.warn({ err: error }, 'database connection lost')
  pool.on('error', onError)
  // A checked-out client whose connection breaks emits 'error' on itself; without a listener the process would end.
  pool.on('connect', (client) => client.on('error', onError))
  async function begin<T>(body: (tx: Db) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    let broken: Error | undefined
    const attempt = async (): Promise<() => T> => {
      const effects: (() => void)[] = []
      try {
        await client.query('begin')
        const settle = await body(transaction(client, effects)).then(
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
      } catch (error) {
        await client.query('rollback').catch((failure: Error) => {
          broken = failure
        })
        throw error
      }
    }
    try {
      const settle = await attempt().catch((error: unknown) => {
        if (broken !== undefined || !isLostRace(error)) throw error
        options.log.warn({ err: error }, 'transaction is retried')
        return attempt()
      })
      return settle()
    } finally {
      client.release(broken)
    }
  }
  return {
    ...statements(pool as unknown as QueryRunner),
    tx: (body) => (isTraced() ? inSpan('transaction', 'internal', {}, () => begin(body)) : begin(body)),
    inTransaction: false,
    afterCommit: (effect) => effect(),
    stats: () => ({
      total: pool.totalCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      max: options.connectionsMax,
    }),
    close: () => pool.end(),
  }
}

const keepsEffects = (error: unknown): boolean =>
  error instanceof Error && (error as { keepsEffects?: unknown }).keepsEffects === true

/** The SQLSTATE of a database's error; undefined for any other. */
function sqlState(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** The unique constraint that a failed statement violated, or undefined for any other failure. */
export function violatedConstraint(error: unknown): string | undefined {
  if (!['23505', '23503'].includes(sqlState(error) ?? '')) return undefined
  return (error as { constraint?: string }).constraint
}

/** Whether the database ended this transaction so that another could go on. */
function isLostRace(error: unknown): boolean {
  return ['40P01', '40001'].includes(sqlState(error) ?? '')
}

/** Whether a statement was cancelled because it took, or waited, longer than a statement may. */
export function isStatementTimeout(error: unknown): boolean {
  return sqlState(error) === '57014'
}

/** SQLSTATE classes of what passes by itself: connection, resources, operator intervention, serialisation. */
const TRANSIENT = /^(08|40|53|57|58)/

/** Whether the same statement may succeed later. What is not the database's own verdict (a broken connection) may. */
export function isTransient(error: unknown): boolean {
  // A mistake in our code does not pass.
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return false
  return TRANSIENT.test(sqlState(error) ?? '08')
}

/** Whether the database could not be reached or was stopping, as against a verdict on one statement. */
export function isOutage(error: unknown): boolean {
  return /^(08|57P)/.test(sqlState(error) ?? '08')
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
