import type { PaymentProcessor } from '../billing/processor.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { Authenticator } from './auth.ts'
import type { Config } from './config.ts'
import type { Db } from './db.ts'
import type { Egress } from './egress/egress.ts'
import type { KeyProvider } from './key-provider.ts'
import type { Logger } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { Quotas } from './quotas.ts'
import type { RateLimiter } from './rate-limit.ts'
import type { Revocations } from './revocations.ts'
import type { SigningKeys } from './signing-keys.ts'
import type { RequestCounter } from './tallies.ts'
import type { Threads } from './threads.ts'
import type { Tracing } from './tracing.ts'

/** What a slice's code may use of the process; the same object everywhere but for `db`, which may be a transaction. */
export interface Deps {
  config: Config
  db: Db
  log: Logger
  metrics: Metrics
  keys: KeyProvider
  egress: Egress
  auth: Authenticator
  signingKeys: SigningKeys
  revocations: Revocations
  limiter: RateLimiter
  quotas: Quotas
  /** Null where the service takes no payments; then every plan is unlimited. */
  payments: PaymentProcessor | null
  /** Counts this process's API requests. */
  requests: RequestCounter
  /** Null where no traces are made. */
  tracing: Tracing | null
  /** For arithmetic with key shares. */
  threads: Threads
  /** By name; the first is for new wallets that name none. */
  ledgers: ReadonlyMap<string, Ledger>
  /** A small pool of its own for the probes: they answer when the others are exhausted. */
  probeDb: Db
  lifecycle: Lifecycle
  /** The clock for everything that is stored or compared. */
  now(): Date
  /** Called between steps that a crash may separate; nothing but fault tests do anything there. */
  reached(step: string): Promise<void>
  /** Bells that wake the delivery engine, in this process and the others. */
  wake: { outbox(): void; due(): void }
}

/** Where this process is in its life, for the probes. */
export interface Lifecycle {
  startedAt: Date
  draining: boolean
  /** This process's delivery worker; null where it has none. */
  worker: { alive(): boolean } | null
}
