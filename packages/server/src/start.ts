import { setTimeout as pause } from 'node:timers/promises'
import { entrancesOf, followerNames, hooks, maintenanceTasks, plainRoutes, recordKinds, routesOf } from './app.ts'
import { createWorker, type Worker } from './delivery/engine/worker.ts'
import { createLink, FIRST_LINK_HOURS } from './operations/dashboard/link.ts'
import { healthProbes } from './operations/health/routes.ts'
import { readiness } from './operations/health/service.ts'
import type { Config } from './platform/config.ts'
import type { Database } from './platform/db/db.ts'
import { checkInstallation, type OpenedDatabase, openAndMigrate, withAdvisoryLock } from './platform/db/installation.ts'
import { openFirstConnection } from './platform/db/pool.ts'
import { createReplica } from './platform/db/replica.ts'
import type { Deps } from './platform/deps.ts'
import { openEgress } from './platform/egress/configured.ts'
import { createRequestCounter } from './platform/events/counters.ts'
import { createNotifier, type Listener, listen } from './platform/events/signal.ts'
import { requireFreePort } from './platform/http/free-port.ts'
import { createRateLimiter } from './platform/http/rate-limits/rate-limit.ts'
import { createServer, type Server } from './platform/http/server.ts'
import { createJsonSchemas } from './platform/json-schema/json-schemas.ts'
import { registerGauges } from './platform/observability/gauges.ts'
import type { OpenLog } from './platform/observability/log.ts'
import { createMetrics } from './platform/observability/metrics.ts'
import { listenForMetrics, metricsRoute } from './platform/observability/metrics-route.ts'
import { openTracing } from './platform/observability/tracing.ts'
import type { Ledger } from './platform/ports/ledger.ts'
import type { PaymentProcessor } from './platform/ports/payment-processor.ts'
import { noteRunningService } from './platform/running-service.ts'
import { createAuthenticator } from './platform/security/authenticator.ts'
import { identityKey } from './platform/security/identity-key.ts'
import { openKeyFile } from './platform/security/key-provider.ts'
import { createEnforcement } from './platform/security/records/enforcement.ts'
import { createRecordKeeper } from './platform/security/records/records.ts'
import { createRevocations } from './platform/security/revocations.ts'
import { createSigners, readSigners } from './platform/security/signers/signers.ts'
import { createSigningKeys } from './platform/security/signing-keys.ts'
import { createThreads } from './platform/security/threshold/threads.ts'
import { openFloor } from './start-floor.ts'
import { openPools } from './start-pools.ts'
import { startRecords } from './start-records.ts'
import { defaultApp } from './tenancy/apps/service.ts'
import { createQuotas, UNLIMITED } from './tenancy/billing/quota.ts'
import { createTenant, isEmptyInstallation, listTenants } from './tenancy/tenant/service.ts'
import { openLedgers, readLedgers } from './wallets/ledger/configured.ts'

const LOCK_FIRST_START = 4_812_570_349

/** What the first start made. `given` when the key came from HALFKEY_ADMIN_KEY. */
export interface FirstStart {
  tenantId: string
  appId: string
  key: string
  given: boolean
}

export interface StartOptions {
  /** The clock; tests move it. */
  now?: () => Date
  /** Further ledgers; tests bring some that fail. */
  ledgers?: (deps: Deps) => Ledger[]
  /** See `Deps.reached`. */
  failpoint?: (step: string) => Promise<void>
  /** Called before anything answers: the place to show the first start's key. */
  prepared?: (database: OpenedDatabase, first: FirstStart | null, pin: string) => void
}

/** The service's parts without its HTTP server: what the CLI works with. */
export interface Parts {
  deps: Deps
  database: OpenedDatabase
  engineDb: Database
  /** The engine's connections whose commits need not be durable at once. */
  asyncCommitDb: Database
  /** All pools of this process by what they are for, for metrics. */
  pools: Readonly<Record<string, Database>>
  close(): Promise<void>
}

/** The payment processor that is configured; without one, nothing of its library is even loaded. */
async function openPayments(config: Config): Promise<PaymentProcessor | null> {
  const { stripeSecretKey: key, stripeWebhookSecret: webhookSecret } = config
  if (key === null || webhookSecret === null) return null
  const { createStripe } = await import('./tenancy/billing/stripe.ts')
  return createStripe(config, { key, webhookSecret })
}

const openKeys = (config: Config, role: 'all' | 'api' | 'worker' | 'tool') =>
  openKeyFile(config.kekFile as string, {
    create: config.env === 'development' || config.kek !== null,
    service: config.kek,
    // A command may be the one that has the key wrapped.
    plain: config.kek === null || role === 'tool',
  })

/** Opens database, keys and all that `Deps` holds. Nothing runs yet. */
export async function openParts(
  config: Config,
  role: 'all' | 'api' | 'worker' | 'tool',
  { log }: OpenLog,
  options: StartOptions = {},
): Promise<Parts> {
  const [ledgers, payments] = [await readLedgers(config), await openPayments(config)]
  const keys = await openKeys(config, role)
  const database = await openAndMigrate(config, role, log)
  const now = options.now ?? (() => new Date())
  const metrics = createMetrics()
  const enforcement = createEnforcement(config)
  const records = createRecordKeeper({
    // Not the requests' pool, like the signing keys.
    db: () => probeDb,
    keys,
    log,
    metrics,
    kinds: recordKinds.map(({ name }) => name),
    now,
    isEnforced: enforcement.isEnforced,
    wake: () => deps.wake.outbox(),
  })
  const pools = openPools(config, database.pooled, log, records)
  const { api: db, engine: engineDb, async_commit: asyncCommitDb, probe: probeDb, replica: replicaDb } = pools
  const [threads, jsonSchemas] = [createThreads(), createJsonSchemas(log)]
  const signers = createSigners(readSigners(config.signers ?? ''))
  const close = async () => {
    keys.close()
    signers.close()
    await Promise.all([threads.close(), jsonSchemas.close()])
    await Promise.all(Object.values(pools).map((pool) => pool.close()))
    await database.close()
  }
  let isNew = false
  try {
    await Promise.all([db, engineDb, probeDb, pools.key].map(openFirstConnection))
    isNew = await checkInstallation(db, keys, config)
    await startRecords({ db, enforcement, log, isNew, serves: role !== 'tool' })
  } catch (error) {
    await close()
    throw error
  }
  // From here on a changed key file is taken over, if this process could have started with it.
  keys.follow({ accept: (held) => checkInstallation(probeDb, held, config), log, lifetimeMs: config.kekLifetimeMs })
  const notify = createNotifier(probeDb, log)
  const egress = openEgress(config)
  const deps: Deps = {
    config,
    db,
    replica: replicaDb === undefined ? null : createReplica({ db: replicaDb, primary: db, log }),
    connection: database.direct,
    log,
    metrics,
    keys,
    enforcement,
    recordKinds,
    floor: openFloor({
      ...{ config, db: probeDb, egress, keys, recordKinds, log, metrics, now, isNew },
      serves: role !== 'tool',
    }),
    egress,
    signers,
    auth: createAuthenticator({ db, log, now }),
    // Not by the requests' pool: a request that signs a token may hold one of its connections and must not wait for another.
    signingKeys: createSigningKeys({ db: pools.key, keys, signers, log, now }),
    revocations: createRevocations({ db, log, now }),
    limiter: createRateLimiter(),
    quotas: payments === null ? UNLIMITED : createQuotas({ now }),
    payments,
    requests: createRequestCounter({ db, log, now }),
    tracing: null,
    ...{ threads, jsonSchemas },
    permit: null,
    ledgers: await openLedgers(ledgers, { keys, now, egress }),
    hooks,
    probeDb,
    lifecycle: { startedAt: now(), draining: false, worker: null, listener: null },
    now,
    failpoint: options.failpoint ?? (async () => {}),
    wake: { outbox: () => notify('outbox'), due: () => notify('due'), tasks: () => notify('tasks') },
  }
  const more = options.ledgers?.(deps) ?? []
  deps.ledgers = new Map([...deps.ledgers, ...more.map((ledger) => [ledger.name, ledger] as const)])
  return { deps, database, engineDb, asyncCommitDb, pools, close }
}

/** A started service. */
export interface Running {
  deps: Deps
  /** Null for a worker without HTTP. */
  address: { address: string; port: number } | null
  database: OpenedDatabase
  /** Null on later starts. */
  first: FirstStart | null
  /** An app to show the sign-in page of: the first tenant's default one. */
  appId: string | null
  /** The first start's link to the dashboard; null on later starts and where none is served. */
  dashboardLink: string | null
  /** `hk_pin_…`: what clients pin this installation by. */
  pin: string
  stop(): Promise<void>
}

async function firstStart(deps: Deps, db: Database): Promise<FirstStart | null> {
  return withAdvisoryLock(db, LOCK_FIRST_START, async () => {
    if (!(await isEmptyInstallation(deps.db))) return null
    const given = deps.config.adminKey
    const made = await createTenant(deps, { name: 'Default', ...(given === null ? {} : { adminKey: given }) })
    return { ...made, given: given !== null }
  })
}

async function firstApp(deps: Deps): Promise<string | null> {
  const [tenant] = await listTenants(deps.db, 1)
  return tenant === undefined ? null : defaultApp(deps, tenant.id)
}

/** Signs in the operator of a new installation, who has no password yet. */
async function firstLink(deps: Deps): Promise<string | null> {
  if (deps.config.role === 'worker') return null
  return (await createLink(deps, null, { lifetimeMs: FIRST_LINK_HOURS * 3_600_000 })).url
}

function startWorker(parts: Parts): { worker: Worker; closeListener(): Promise<void> } {
  const { deps, engineDb, asyncCommitDb, database } = parts
  let listener: Listener | undefined
  const worker = createWorker(
    { ...deps, db: engineDb },
    {
      listening: () => listener?.listening() ?? false,
      tasks: maintenanceTasks(deps),
      followers: followerNames(deps),
      asyncCommit: asyncCommitDb,
    },
  )
  const opened = listen(database.direct, worker.signals, deps)
  listener = opened
  // In this process the signal is at hand; the other processes' workers poll, and this one is awake already.
  const { outbox, due, tasks } = worker.signals
  deps.wake = { outbox: outbox.raise, due: due.raise, tasks: tasks.raise }
  deps.lifecycle.worker = worker
  deps.lifecycle.listener = opened
  return { worker, closeListener: () => opened.close() }
}

/** Limits that all processes share, where a Redis is named: without one nothing of it is even loaded. */
async function shareLimits(deps: Deps, url: string): Promise<() => Promise<void>> {
  const { createSharedRateLimiter } = await import('./platform/http/rate-limits/shared-rate-limit.ts')
  const { metrics, log, signingKeys } = deps
  const namingKey = async () => (await signingKeys.oldest()).refreshKey
  const shared = createSharedRateLimiter({ url, local: createRateLimiter(), metrics, log, namingKey })
  deps.limiter = shared
  await shared.start()
  return () => shared.stop()
}

/** A worker answers probes only where a port was given for them: beside an API on one machine it needs none. */
const servesHttp = (config: Config) => config.role !== 'worker' || !config.defaults.includes('port')

async function serve(deps: Deps): Promise<Server> {
  const { role } = deps.config
  return role === 'worker'
    ? createServer(deps, [], [...healthProbes, metricsRoute])
    : createServer(deps, routesOf(deps.config), [...plainRoutes, metricsRoute], entrancesOf(deps.config))
}

/** Figures that are read when `/metrics` is scraped. */
function observe({ deps, database, pools }: Parts): void {
  registerGauges({
    registry: deps.metrics.registry,
    db: deps.probeDb,
    pools,
    checks: async () =>
      (await readiness(deps)).checks.map(({ name, state }) => ({ name, passes: state !== 'failing' })),
    dataFolder: database.dataFolder,
    listening: () => deps.lifecycle.listener?.listening() ?? null,
    log: deps.log,
  })
}

/** Starts the configured role. @throws when a part cannot start; what had started is stopped again */
export async function start(config: Config, openLog: OpenLog, options: StartOptions = {}): Promise<Running> {
  if (servesHttp(config)) await requireFreePort(config.host, config.port)
  const parts = await openParts(config, config.role, openLog, options)
  const { deps } = parts
  const stops: (() => Promise<void>)[] = [() => parts.close(), () => deps.egress.close()]
  const stopAll = async () => {
    for (const stop of stops.toReversed()) await stop()
  }
  try {
    // Before anything is done with what the database says.
    await deps.floor.start()
    stops.push(() => deps.floor.stop())
    const first = await firstStart(deps, parts.engineDb)
    const { pin } = await identityKey(deps)
    options.prepared?.(parts.database, first, pin)
    observe(parts)
    deps.auth.start()
    deps.signingKeys.start()
    deps.revocations.start()
    deps.requests.start()
    stops.push(async () => {
      await Promise.all([deps.auth.stop(), deps.signingKeys.stop(), deps.revocations.stop(), deps.requests.stop()])
    })
    if (config.otlpEndpoint !== null) {
      const tracing = await openTracing(config, deps.metrics)
      deps.tracing = tracing
      stops.push(() => tracing.close())
    }
    if (config.redisUrl !== null && config.rateLimits && config.role !== 'worker')
      stops.push(await shareLimits(deps, config.redisUrl))
    if (config.role !== 'api') {
      const { worker, closeListener } = startWorker(parts)
      await worker.start()
      stops.push(closeListener, () => worker.stop())
    }
    if (config.metricsPort !== null) {
      const metrics = await listenForMetrics(deps, config.host, config.metricsPort)
      stops.push(() => metrics.close())
    }
    const appId = first?.appId ?? (await firstApp(deps))
    let address: Running['address'] = null
    if (servesHttp(config)) {
      const server = await serve(deps)
      address = await server.listen(config.host, config.port)
      config.port = address.port
      if (config.role !== 'worker') stops.push(noteRunningService(config))
      stops.push(async () => {
        // The probes fail first, so that no new work is sent here; each answer asks its client to come back elsewhere.
        deps.lifecycle.draining = true
        server.drain()
        await pause(config.drainMs)
        await server.close()
      })
    }
    const dashboardLink = first === null ? null : await firstLink(deps)
    return { deps, address, database: parts.database, first, appId, dashboardLink, pin, stop: stopAll }
  } catch (error) {
    await stopAll()
    throw error
  }
}
