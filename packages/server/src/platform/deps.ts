import type { Config } from './config.ts'
import type { Connection } from './db/connection.ts'
import type { Db } from './db/db.ts'
import type { Replica } from './db/replica.ts'
import type { Egress } from './egress/egress.ts'
import type { RequestCounter } from './events/counters.ts'
import type { SignalName } from './events/signal.ts'
import type { Floor } from './floor/floor.ts'
import type { Hooks } from './hooks.ts'
import type { RateLimiter } from './http/rate-limits/rate-limit.ts'
import type { JsonSchemas } from './json-schema/json-schemas.ts'
import type { Logger } from './observability/log.ts'
import type { Metrics } from './observability/metrics.ts'
import type { Tracing } from './observability/tracing.ts'
import type { Ledger } from './ports/ledger.ts'
import type { PaymentProcessor } from './ports/payment-processor.ts'
import type { Quotas } from './ports/quotas.ts'
import type { Authenticator } from './security/authenticator.ts'
import type { KeyProvider } from './security/key-provider.ts'
import type { SessionPermit } from './security/permits/session-permit.ts'
import type { Enforcement } from './security/records/enforcement.ts'
import type { RecordKind } from './security/records/kind.ts'
import type { Revocations } from './security/revocations.ts'
import type { Signers } from './security/signers/signers.ts'
import type { SigningKeys } from './security/signing-keys.ts'
import type { Threads } from './security/threshold/threads.ts'

/**
 * What a slice's code may use of the process; the same object everywhere but for `db`, which may be a transaction, and `permit`, which
 * is of one call.
 */
export interface Deps {
  config: Config
  db: Db
  /** A standby for lists; null where none is set. */
  replica: Replica | null
  /** How the database is reached without a pooler, for work that needs a session or other connections than `db` has. */
  connection: Connection
  log: Logger
  metrics: Metrics
  keys: KeyProvider
  /** Whether records without a MAC are refused. */
  enforcement: Enforcement
  /** Notices that the database went back to an earlier state. */
  floor: Floor
  /** Every kind of records with MACs. */
  recordKinds: readonly RecordKind[]
  egress: Egress
  auth: Authenticator
  /** Keys outside this process that it may sign with. */
  signers: Signers
  signingKeys: SigningKeys
  revocations: Revocations
  /** What the app's server has decided about the session that a call begins; null if it was not asked. */
  permit: SessionPermit | null
  limiter: RateLimiter
  quotas: Quotas
  /** Null where the service takes no payments; then every plan is unlimited. */
  payments: PaymentProcessor | null
  /** Counts this process's API requests. */
  requests: RequestCounter
  /** Null if tracing is off. */
  tracing: Tracing | null
  /** For arithmetic with key shares. */
  threads: Threads
  /** Checks data against schemas that callers wrote. */
  jsonSchemas: JsonSchemas
  /** By name; the first is for new wallets that name none. */
  ledgers: ReadonlyMap<string, Ledger>
  /** What higher slices do in the transactions of lower ones. */
  hooks: Hooks
  /** A separate small pool for the probes, so that they still work when the other pools are exhausted. */
  probeDb: Db
  lifecycle: Lifecycle
  /** The clock for everything that is stored or compared. */
  now(): Date
  /** Called between steps that a crash may separate; nothing but fault tests do anything there. */
  failpoint(step: string): Promise<void>
  /** Wakes the workers, in this process and the others. */
  wake: Record<SignalName, () => void>
}

/** Where this process is in its life, for the probes. */
export interface Lifecycle {
  startedAt: Date
  draining: boolean
  /** This process's delivery worker; null where it has none. */
  worker: { alive(): boolean } | null
  /** Whether this process hears the notifications of others; null where it has no worker. */
  listener: { listening(): boolean } | null
}
