import { createHash } from 'node:crypto'
import { type Db, sql } from '../db/db.ts'
import type { Deps } from '../deps.ts'
import { canonicalJson } from '../security/canonical-json.ts'
import { open, seal } from '../security/crypto.ts'
import { fail, invalid } from './errors.ts'
import type { Caller } from './route.ts'

const KEY_CHARS_MAX = 255
const LIFETIME_MS = 24 * 3_600_000

/** A request that carries an Idempotency-Key. */
export interface KeyedRequest {
  caller: Caller
  key: string
  method: string
  /** The concrete path: the same key for another record is a different request. */
  path: string
  /** The parsed query and body. A repeat must have the same. */
  content: unknown
  /** The user or delegate it acts for, if any. */
  subject: string | null
  /** The response contains a secret, so it is kept sealed. */
  secret: boolean
  /** A larger response is not kept. */
  keptBytesMax: number
}

export interface Answer {
  status: number
  body: string
  replayed: boolean
}

interface KeptRow {
  request_hash: Buffer
  status: number | null
  answer: Buffer | null
  sealed: boolean
  recovery: Record<string, unknown> | null
}

const digest = (...parts: string[]) => createHash('sha256').update(JSON.stringify(parts)).digest()

/** @throws validation_failed on a header that is empty or too long */
export function checkIdempotencyKey(value: string | string[] | undefined): string | null {
  if (value === undefined) return null
  if (Array.isArray(value) || value === '' || value.length > KEY_CHARS_MAX) {
    throw invalid('Idempotency-Key', `Must be a single value of 1 to ${KEY_CHARS_MAX} characters.`)
  }
  return value
}

const scopeOf = ({ caller, method, path, subject, key }: KeyedRequest) =>
  digest(caller.keyId, method, path, subject ?? '', key)

/** Whether a request has had its effect, even if its response is not complete yet. Takes no lock. */
export async function isKept(deps: Deps, request: KeyedRequest): Promise<boolean> {
  const row = await deps.db.one(sql`
    select 1 from idempotency_keys
    where tenant_id = ${request.caller.tenantId} and scope_hash = ${scopeOf(request)} and expires_at > ${deps.now()}`)
  return row !== undefined
}

function kept(deps: Deps, request: KeyedRequest) {
  const { tenantId } = request.caller
  const scope = scopeOf(request)
  const requestHash = digest(canonicalJson(request.content))
  const context = ['idempotent answer', tenantId, scope.toString('hex')]

  async function lockAndFind(tx: Db): Promise<KeptRow | undefined> {
    const lock = await tx.one<{ held: boolean }>(
      sql`select pg_try_advisory_xact_lock(${scope.readBigInt64BE(0).toString()}::bigint) as held`,
    )
    if (lock?.held !== true) throw fail('idempotency_in_progress', [], { 'retry-after': '1' })
    await tx.run(
      sql`delete from idempotency_keys where tenant_id = ${tenantId} and scope_hash = ${scope} and expires_at <= ${deps.now()}`,
    )
    const row = await tx.one<KeptRow>(sql`
      select request_hash, status, answer, sealed, recovery from idempotency_keys
      where tenant_id = ${tenantId} and scope_hash = ${scope}`)
    if (row !== undefined && !row.request_hash.equals(requestHash)) throw fail('idempotency_conflict')
    return row
  }

  async function answerOf(row: KeptRow): Promise<Answer | undefined> {
    if (row.answer === null || row.status === null) return undefined
    const body = row.sealed ? await open(deps.keys, row.answer, context) : row.answer
    return { status: row.status, body: body.toString(), replayed: true }
  }

  const stored = async (body: string) => (request.secret ? await seal(deps.keys, body, context) : Buffer.from(body))
  const expiresAt = () => new Date(deps.now().getTime() + LIFETIME_MS)

  return {
    lockAndFind,
    answerOf,
    async insert(tx: Db, status: number | null, body: string | null, recovery: object | null): Promise<void> {
      const answer = body === null ? null : await stored(body)
      await tx.run(sql`
        insert into idempotency_keys (tenant_id, scope_hash, request_hash, status, answer, sealed, recovery, expires_at)
        values (${tenantId}, ${scope}, ${requestHash}, ${status}, ${answer}, ${request.secret}, ${recovery}, ${expiresAt()})`)
    },
    async forget(db: Db): Promise<void> {
      await db.run(sql`delete from idempotency_keys where tenant_id = ${tenantId} and scope_hash = ${scope}`)
    },
    async complete(db: Db, status: number, body: string): Promise<void> {
      await db.run(sql`
        update idempotency_keys set status = ${status}, answer = ${await stored(body)}
        where tenant_id = ${tenantId} and scope_hash = ${scope}`)
    },
  }
}

/** Runs an effect at most once per key. The effect and its response commit in one transaction. Failures are not kept. */
export async function runOnce(
  deps: Deps,
  request: KeyedRequest,
  effect: (deps: Deps) => Promise<{ status: number; body: string }>,
): Promise<Answer> {
  const store = kept(deps, request)
  return deps.db.tx(async (tx) => {
    const row = await store.lockAndFind(tx)
    const known = row && (await store.answerOf(row))
    if (known) return known
    const answer = await effect({ ...deps, db: tx })
    if (answer.body.length <= request.keptBytesMax) await store.insert(tx, answer.status, answer.body, null)
    return { ...answer, replayed: false }
  })
}

/**
 * The same for a call that must wait for the network between effect and response. The effect commits with a recovery
 * point. This process finishes from it, or, if it dies, the process that gets the repeat. A response that is not final is
 * not kept.
 */
export async function runOnceInSteps(
  deps: Deps,
  request: KeyedRequest,
  steps: {
    /** Runs the transaction that has the effect. */
    around<T>(work: () => Promise<T>): Promise<T>
    effect(deps: Deps): Promise<Record<string, unknown>>
    finish(
      recovery: Record<string, unknown>,
      replayed: boolean,
    ): Promise<{ status: number; body: string; isFinal: boolean }>
  },
): Promise<Answer> {
  const store = kept(deps, request)
  const begin = async (tx: Db) => {
    const row = await store.lockAndFind(tx)
    const known = row && (await store.answerOf(row))
    if (known) return { known }
    if (row?.recovery) return { recovery: row.recovery, replayed: true }
    const recovery = await steps.effect({ ...deps, db: tx })
    await store.insert(tx, null, null, recovery)
    return { recovery, replayed: false }
  }
  const begun = await steps.around(() => deps.db.tx(begin))
  if ('known' in begun && begun.known) return begun.known
  const { recovery, replayed } = begun as { recovery: Record<string, unknown>; replayed: boolean }
  const { isFinal, ...answer } = await steps.finish(recovery, replayed)
  if (answer.body.length > request.keptBytesMax) {
    await store.forget(deps.db)
    return { ...answer, replayed: false }
  }
  if (isFinal) await store.complete(deps.db, answer.status, answer.body)
  return { ...answer, replayed }
}

const ANSWERS_A_DELETION = 5_000

/** Deletes a batch of expired idempotency responses. @returns how many */
export function deleteExpiredAnswers(db: Db): Promise<number> {
  return db.run(sql`
    delete from idempotency_keys where (tenant_id, scope_hash) in (
      select tenant_id, scope_hash from idempotency_keys where expires_at < now() order by expires_at limit ${ANSWERS_A_DELETION})`)
}
