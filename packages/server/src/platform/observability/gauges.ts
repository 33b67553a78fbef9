import { statfs } from 'node:fs/promises'
import { Gauge, type Registry } from 'prom-client'
import type { Database, Db } from '../db/db.ts'
import type { Logger } from './log.ts'
import {
  type FollowerLag,
  type QueueFigures,
  readClockSkewSeconds,
  readFollowerLags,
  readQueueFigures,
  readTokenLags,
  type TokenLag,
} from './queue-figures.ts'

/** The sources of the figures that a scrape reads. */
export interface GaugeSources {
  registry: Registry
  /** The probes' pool: a scrape takes one connection of it, for at most its statement timeout. */
  db: Db
  pools: Readonly<Record<string, Pick<Database, 'stats'>>>
  /** The readiness checks and whether each passes. */
  checks(): Promise<readonly { name: string; passes: boolean }[]>
  /** The embedded database's folder; null for an external database. */
  dataFolder: string | null
  /** Whether this process hears notifications; null where it has no worker. */
  listening(): boolean | null
  log: Logger
}

interface Figures {
  queue: QueueFigures | null
  followers: FollowerLag[]
  tokens: TokenLag[]
  clockSkewSeconds: number | null
}

/** The database is queried at most once in this time, for any number of scrapes. */
const REMEMBERED_MS = 2_000

function createReader({ db, log }: GaugeSources): () => Promise<Figures> {
  let readAt = Number.NEGATIVE_INFINITY
  let reading: Promise<Figures> | undefined

  async function read(): Promise<Figures> {
    try {
      // One after the other, so that the probes keep a connection for themselves.
      const queue = await readQueueFigures(db)
      const followers = await readFollowerLags(db)
      const tokens = await readTokenLags(db)
      return { queue, followers, tokens, clockSkewSeconds: await readClockSkewSeconds(db) }
    } catch (error) {
      log.warn({ err: error }, 'figures for /metrics could not be read')
      return { queue: null, followers: [], tokens: [], clockSkewSeconds: null }
    }
  }

  return () => {
    if (reading === undefined || performance.now() - readAt > REMEMBERED_MS) {
      readAt = performance.now()
      reading = read()
    }
    return reading
  }
}

type Sample = readonly [labels: Record<string, string>, value: number | null]

/** A gauge that is read when it is scraped. Values that are null or no longer present have no sample. */
function scraped(registry: Registry, name: string, help: string, labelNames: string[], read: () => Promise<Sample[]>) {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    async collect() {
      const samples = await read()
      if (labelNames.length > 0) this.reset()
      else this.remove()
      for (const [labels, value] of samples) if (value !== null) this.set(labels, value)
    },
  })
}

const QUEUE_GAUGES: readonly [name: string, field: keyof QueueFigures, help: string][] = [
  ['halfkey_outbox_events', 'outboxEvents', 'Events not yet handed to their subscribers; counted up to 10 000'],
  ['halfkey_outbox_age_seconds', 'outboxAgeSeconds', 'Age of the oldest event not yet handed to its subscribers'],
  ['halfkey_deliveries_pending', 'deliveriesPending', 'Deliveries to be sent, now or later; counted up to 10 000'],
  ['halfkey_deliveries_leased', 'deliveriesLeased', 'Deliveries that some worker is sending; counted up to 10 000'],
  [
    'halfkey_delivery_due_age_seconds',
    'deliveryDueAgeSeconds',
    'How long the most overdue webhook has been due, in seconds',
  ],
  ['halfkey_webhooks_failing', 'webhooksFailing', 'Webhooks that were reported as failing; counted up to 10 000'],
  ['halfkey_workers_alive', 'workersAlive', 'Workers that sent a heartbeat in the last 15 seconds'],
]

/** Adds the figures of the whole installation, which every process reports alike, and of this process's connections. */
export function registerGauges(sources: GaugeSources): void {
  const { registry, pools, checks, dataFolder, listening } = sources
  const read = createReader(sources)
  const gauge = (name: string, help: string, labelNames: string[], samples: () => Promise<Sample[]>) =>
    scraped(registry, name, help, labelNames, samples)
  for (const [name, field, help] of QUEUE_GAUGES)
    gauge(name, help, [], async () => [[{}, (await read()).queue?.[field] ?? null]])
  const perFollower = async (field: 'events' | 'ageSeconds'): Promise<Sample[]> =>
    (await read()).followers.map((lag) => [{ follower: lag.follower }, lag[field]])
  gauge('halfkey_follower_lag_events', 'Events that a follower of the feed has not processed yet', ['follower'], () =>
    perFollower('events'),
  )
  gauge('halfkey_follower_lag_seconds', 'Age of the oldest event that it has not processed yet', ['follower'], () =>
    perFollower('ageSeconds'),
  )
  const perLedger = async (field: 'unread' | 'ageSeconds'): Promise<Sample[]> =>
    (await read()).tokens.map((lag) => [{ ledger: lag.ledger }, lag[field]])
  gauge('halfkey_token_follower_age_seconds', "Time since a ledger's token updates were last read", ['ledger'], () =>
    perLedger('ageSeconds'),
  )
  gauge(
    'halfkey_token_wallets_unread',
    'Wallets whose holdings or offers are still to be read; counted up to 10 000',
    ['ledger'],
    () => perLedger('unread'),
  )
  const skew = "How much this process's clock is ahead of the database's"
  gauge('halfkey_clock_skew_seconds', skew, [], async () => [[{}, (await read()).clockSkewSeconds]])
  gauge('halfkey_database_up', 'Whether the database responded to this scrape', [], async () => [
    [{}, (await read()).queue === null ? 0 : 1],
  ])
  gauge('halfkey_notifications_heard', 'Whether this worker hears notifications; if not, it polls', [], async () => {
    const heard = listening()
    return [[{}, heard === null ? null : Number(heard)]]
  })
  gauge('halfkey_ready', 'Whether a readiness check passes', ['check'], async () =>
    (await checks()).map(({ name, passes }) => [{ check: name }, passes ? 1 : 0]),
  )
  gauge('halfkey_database_connections', "This process's database connections", ['pool', 'state'], async () =>
    Object.entries(pools).flatMap(([pool, database]): Sample[] => {
      const { total, idle, waiting } = database.stats()
      return Object.entries({ used: total - idle, idle, waiting }).map(([state, n]) => [{ pool, state }, n])
    }),
  )
  gauge('halfkey_database_connections_max', 'The maximum number of connections of a pool', ['pool'], async () =>
    Object.entries(pools).map(([pool, database]) => [{ pool }, database.stats().max]),
  )
  if (dataFolder !== null)
    gauge('halfkey_data_disk_bytes', "The embedded database's file system", ['space'], async () => {
      const disk = await statfs(dataFolder).catch(() => null)
      if (disk === null) return []
      const { bavail, blocks, bsize } = disk
      return [
        [{ space: 'free' }, bavail * bsize],
        [{ space: 'all' }, blocks * bsize],
      ]
    })
}
