import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** With all labels from the start: an increase from nothing to one is none to Prometheus. */
function createTokenMetrics(registry: Registry) {
  const skipped = new Counter({
    name: 'halfkey_token_updates_skipped_total',
    help: 'Updates of tokens that could not be read from their ledger, by the reason: all holdings are read again',
    labelNames: ['reason'] as const,
    registers: [registry],
  })
  for (const reason of ['oversize', 'timeout']) skipped.inc({ reason }, 0)
  const dropped = new Counter({
    name: 'halfkey_token_offers_dropped_total',
    help: 'Transfer offers that were dropped from the list of a wallet that has more than are kept',
    registers: [registry],
  })
  return { tokenUpdatesSkipped: skipped, tokenOffersDropped: dropped }
}

/** The same, for each way that a question about a sign-in can end. */
function createSignInHookCalls(registry: Registry) {
  const calls = new Counter({
    name: 'halfkey_sign_in_hook_calls_total',
    help: 'Questions whether a sign-in may begin a session, by what the servers of apps decided',
    labelNames: ['outcome'] as const,
    registers: [registry],
  })
  for (const outcome of ['allowed', 'refused', 'failed']) calls.inc({ outcome }, 0)
  return calls
}

/** The service's own figures, in Prometheus' terms. Labels are bounded: routes, statuses and outcomes, never ids. */
export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const counter = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter({ name, help, labelNames, registers })
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers })
  const replicaReads = counter(
    'halfkey_replica_reads_total',
    'Lists that a read replica may answer, by the server that did',
    'server',
  )
  for (const server of ['replica', 'primary']) replicaReads.inc({ server }, 0)
  return {
    registry,
    requests: new Histogram({
      name: 'halfkey_http_request_duration_seconds',
      help: 'Requests by route, method and status',
      labelNames: ['route', 'method', 'status'] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    rateLimited: counter('halfkey_rate_limited_total', 'Requests refused by a rate limit', 'policy'),
    rateLimitStoreErrors: counter(
      'halfkey_rate_limit_store_errors_total',
      'Failed calls and connections to the shared rate limit store',
    ),
    rateLimitAlone: gauge(
      'halfkey_rate_limit_alone',
      '1 while the shared rate limit store is unreachable and this process limits by itself',
    ),
    replicaReads,
    ...createTokenMetrics(registry),
    signInHookCalls: createSignInHookCalls(registry),
    spansDropped: counter(
      'halfkey_trace_spans_dropped_total',
      'Spans that the trace collector rejected, or that were dropped because the queue was full',
    ),
    attempts: counter('halfkey_delivery_attempts_total', 'Delivery attempts by outcome', 'outcome'),
    attemptSeconds: new Histogram({
      name: 'halfkey_delivery_attempt_duration_seconds',
      help: 'How long receivers took to respond',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    stageSeconds: new Histogram({
      name: 'halfkey_delivery_stage_duration_seconds',
      help: 'How long the oldest event of a batch waited (outbox), and how long the batches of each further stage took',
      labelNames: ['stage'] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300],
      registers,
    }),
    deadLetters: counter('halfkey_dead_letters_total', 'Deliveries that ended in the dead-letter queue'),
    fannedOut: counter('halfkey_events_fanned_out_total', 'Events handed to their subscribers'),
    inFlight: gauge('halfkey_deliveries_in_flight', 'Deliveries being sent by this process'),
    recordsTampered: counter(
      'halfkey_records_tampered_total',
      'Records that did not verify, each time one was read',
      'kind',
    ),
    transactionsLate: counter(
      'halfkey_transactions_late_total',
      'Transactions that their ledger executed after they were recorded as failed',
    ),
    floorBehind: gauge(
      'halfkey_floor_behind',
      '1 while the database is behind its floor, or could not be compared with it: nothing is signed or released',
    ),
    floorFailures: counter(
      'halfkey_floor_failures_total',
      'Failed reads and writes of the floor outside the database',
      'operation',
    ),
    leasesLost: counter('halfkey_delivery_leases_lost_total', 'Leases that expired or whose worker died'),
  }
}

export type Metrics = ReturnType<typeof createMetrics>
