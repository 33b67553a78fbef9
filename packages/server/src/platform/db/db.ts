import { createHash } from 'node:crypto'
import type { RecordKeeper } from '../security/records/keeper.ts'

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
  /** Makes and checks the MACs of records. */
  readonly records: RecordKeeper
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

/** Whether a transaction that throws this commits all the same. */
export const keepsEffects = (error: unknown): boolean =>
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

/** Whether this transaction and another locked each other out. */
export function isDeadlock(error: unknown): boolean {
  return sqlState(error) === '40P01'
}

/** Whether the database ended this transaction so that another could go on. */
export function isLostRace(error: unknown): boolean {
  return isDeadlock(error) || sqlState(error) === '40001'
}

/** Whether a statement was cancelled because it took, or waited, longer than a statement may. */
export function isStatementTimeout(error: unknown): boolean {
  return sqlState(error) === '57014'
}

/** SQLSTATE classes of what passes by itself: connection, resources, operator intervention, serialisation. */
const TRANSIENT = /^(08|25006|40|53|57|58)/

/** Whether the same statement may succeed later. What is not the database's own verdict (a broken connection) may. */
export function isTransient(error: unknown): boolean {
  // A mistake in our code does not pass.
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return false
  return TRANSIENT.test(sqlState(error) ?? '08')
}

/** Whether the database could not be reached, was stopping or takes no writes, as against a verdict on one statement. */
export function isOutage(error: unknown): boolean {
  return /^(08|57P|25006)/.test(sqlState(error) ?? '08')
}

/** Whether the connection that gave this error is of no use any more. */
export function endsConnection(error: unknown): boolean {
  return isOutage(error) || (error as { severity?: unknown }).severity === 'FATAL'
}

/** Whether a server refused a write because it only reads: a standby, or one that was the primary until now. */
export function isReadOnlyServer(error: unknown): boolean {
  return sqlState(error) === '25006'
}

/** Whether a table has changed under a statement that was prepared before. Its text is then prepared again. */
export function isStalePlan(error: unknown): boolean {
  return sqlState(error) === '0A000' && (error as { routine?: unknown }).routine === 'RevalidateCachedQuery'
}
