import { Writable } from 'node:stream'
import { ASYNC_COMMIT_SETTINGS, ENGINE_SETTINGS } from '../../src/delivery/engine/worker.ts'
import { createEventType } from '../../src/delivery/event-types/service.ts'
import { createSubscriber } from '../../src/delivery/subscribers/service.ts'
import { type Database, sql } from '../../src/platform/db/db.ts'
import { openDatabase } from '../../src/platform/db/pool.ts'
import type { Deps } from '../../src/platform/deps.ts'
import type { Call } from '../../src/platform/http/route.ts'
import { type Id, newId } from '../../src/platform/ids.ts'
import { type Logger, openLog } from '../../src/platform/observability/log.ts'
import { openKeyFile } from '../../src/platform/security/key-provider.ts'
import { createApp } from '../../src/tenancy/apps/service.ts'
import { type Service, startService } from '../harness/harness.ts'
import { makeClockMovable } from './clock.ts'

const CONNECTIONS = 6
/** The types that histories publish. */
export const TYPES = ['acme.step', 'acme.note'] as const
/** The delays of retries, short enough for some deliveries to use all of them. */
export const RETRY_DELAYS_MS = [60_000, 300_000]
/** The most requests at once that an endpoint may have. */
export const CAP = 3

/** Who publishes and subscribes. */
export interface StageTenant {
  call: Call
  apps: readonly Id<'app'>[]
  /** Of the first app. */
  subscribers: readonly Id<'sub'>[]
}

/** A database with a few tenants, where one history after the other takes place. */
export interface Stage {
  deps: Deps
  engineDb: Database
  asyncCommit: Database
  log: Logger
  tenants: readonly StageTenant[]
  /** Whether a job was started since the last `clear`: before that, workers need not look for one. */
  hasJobs: boolean
  /** The time since the start, moved as the histories say. */
  nowMs(): number
  /** Moves the clock: this process's, and each time that is stored, for the database's own cannot be moved. */
  pass(ms: number): Promise<void>
  sql: Service['sql']
  /** What the engine has logged since the last `clear`. */
  logged(): readonly { msg: string }[]
  /** Removes what a history left. */
  clear(): Promise<void>
  close(): Promise<void>
}

const pass = (ms: number) => sql`
  with d as (update deliveries set next_at = next_at - ${ms}::float8 * interval '1 millisecond', lease_until = lease_until - ${ms}::float8 * interval '1 millisecond'),
  l as (update lanes set due_at = due_at - ${ms}::float8 * interval '1 millisecond', floor_at = floor_at - ${ms}::float8 * interval '1 millisecond', failing_since = failing_since - ${ms}::float8 * interval '1 millisecond'),
  h as (update webhooks set deleted_at = deleted_at - ${ms}::float8 * interval '1 millisecond' where deleted_at is not null)
  update workers set heartbeat_at = heartbeat_at - ${ms}::float8 * interval '1 millisecond'`

const LEFT = `outbox, events, feed, feed_heads, deliveries, deliveries_done, attempts, lanes, webhooks, webhook_minutes,
  webhook_alerts, workers, jobs, audit_only_entries, counter_increments`
  .split(',')
  .map((table) => table.trim())

function callOf(tenantId: Id<'ten'>): Call {
  const caller = { tenantId, keyId: newId('key'), keyType: 'secret', scopes: ['*'], appId: null } as const
  const origin = { requestId: 'history', address: '127.0.0.1', userAgent: null, webOrigin: null, actor: null }
  return { caller: { ...caller, allowedIps: [], expiresAtMs: null }, origin }
}

async function newTenant(service: Service): Promise<StageTenant> {
  const { deps } = service
  const made = await service.newTenant()
  const call = callOf(made.tenantId as Id<'ten'>)
  const apps = [made.appId as Id<'app'>, (await createApp(deps, call, { name: 'Second' })).id as Id<'app'>]
  for (const appId of apps) for (const name of TYPES) await createEventType(deps, call, { name, appId })
  const subscribers: Id<'sub'>[] = []
  for (const externalId of ['one', 'two'])
    subscribers.push((await createSubscriber(deps, call, { externalId, appId: apps[0] as string })).id as Id<'sub'>)
  return { call, apps, subscribers }
}

/** Opens a database that no worker works on, but those of the histories. */
export async function openStage(): Promise<Stage> {
  const service = await startService({
    HALFKEY_ROLE: 'api',
    HALFKEY_WEBHOOK_RETRY_DELAYS: RETRY_DELAYS_MS.map((ms) => `${ms}ms`).join(','),
    HALFKEY_WEBHOOK_CONCURRENCY: '2',
    HALFKEY_WEBHOOK_CONCURRENCY_MAX: String(CAP),
    HALFKEY_WEBHOOK_DISABLE_AFTER: '20m',
  })
  const lines: string[] = []
  const sink = new Writable({
    write(chunk, _, done) {
      lines.push(String(chunk))
      done()
    },
  })
  const { log } = openLog('warn', sink as never)
  const shared = { connection: { connectionString: service.databaseUrl }, connectionsMax: CONNECTIONS, log }
  const engineDb = openDatabase({ ...shared, applicationName: 'histories', settings: ENGINE_SETTINGS })
  const asyncCommit = openDatabase({ ...shared, applicationName: 'histories', settings: ASYNC_COMMIT_SETTINGS })
  const tenants = [await newTenant(service), await newTenant(service)]
  const clock = makeClockMovable()
  // Nobody is to be woken. Keys that do not look at their file now and then: nothing waits for the disk, and the order of things is the seed's.
  const keys = await openKeyFile(service.deps.config.kekFile as string, { create: false })
  const stage: Stage = {
    deps: { ...service.deps, keys, wake: { outbox() {}, due() {}, tasks() {} } },
    engineDb,
    asyncCommit,
    log,
    tenants,
    hasJobs: false,
    nowMs: () => performance.now(),
    async pass(ms) {
      await engineDb.run(pass(ms))
      clock.move(ms)
    },
    sql: service.sql,
    logged: () => lines.flatMap((line) => line.trim().split('\n')).map((line) => JSON.parse(line)),
    async clear() {
      lines.length = 0
      stage.hasJobs = false
      await service.sql(LEFT.map((table) => `delete from ${table};`).join(' '), undefined)
    },
    async close() {
      clock.restore()
      await Promise.all([engineDb.close(), asyncCommit.close()])
      await service.stop()
    },
  }
  await stage.clear()
  return stage
}
