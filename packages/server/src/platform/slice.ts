import type { Db } from './db/db.ts'
import type { Deps } from './deps.ts'
import type { CounterSink } from './events/counters.ts'
import type { Hooks } from './hooks.ts'
import type { ErrorTable } from './http/errors.ts'
import type { PlainRoute, Route } from './http/route.ts'
import type { MaintenanceTask } from './maintenance.ts'
import type { RecordKind } from './security/records/kind.ts'

/** Derives something from the feed; events are kept until every follower has read them. */
interface FeedFollower {
  /** Names its cursor in the feed. */
  name: string
  /** One step, by the engine's connection or the requests' pool. @returns whether there is more to do at once */
  follow(db: Db): Promise<boolean>
}

/** What a slice hands to the application. */
export interface Slice {
  /** Endpoints under `/v1`. */
  routes?: readonly Route[]
  /** Keyless endpoints outside `/v1`. */
  plainRoutes?: readonly PlainRoute[]
  /** Errors beyond the common ones, by code. */
  errors?: ErrorTable
  /** Periodic work of a worker process. */
  tasks?(deps: Deps): MaintenanceTask[]
  followers?(deps: Deps): FeedFollower[]
  /** Where counts of deliveries and requests are added. */
  counterSinks?(deps: Deps): CounterSink[]
  /** What it does in the transactions of lower slices. */
  hooks?: Partial<Hooks>
  /** The kinds of records with MACs in its tables. */
  records?: readonly RecordKind[]
}
