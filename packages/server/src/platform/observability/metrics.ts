import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/** The service's own figures, in Prometheus' terms. Labels are bounded: routes, statuses and outcomes, never ids. */
export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'halfkey_' })
  const registers = [registry]
  return {
    registry,
    requests: new Histogram({
      name: 'halfkey_http_request_duration_seconds',
      help: 'Requests by route, method and status',
      labelNames: ['route', 'method', 'status'] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    rateLimited: new Counter({
      name: 'halfkey_rate_limited_total',
      help: 'Requests refused by a rate limit',
      labelNames: ['policy'] as const,
      registers,
    }),
    rateLimitStoreErrors: new Counter({
      name: 'halfkey_rate_limit_store_errors_total',
      help: 'Calls and connections that the shared rate limit store failed',
      registers,
    }),
    rateLimitAlone: new Gauge({
      name: 'halfkey_rate_limit_alone',
      help: '1 while the shared rate limit store is away and this process limits by itself',
      registers,
    }),
    spansDropped: new Counter({
      name: 'halfkey_trace_spans_dropped_total',
      help: 'Spans that the trace collector did not take, or that had no room to wait for it',
      registers,
    }),
    attempts: new Counter({
      name: 'halfkey_delivery_attempts_total',
      help: 'Delivery attempts by outcome',
      labelNames: ['outcome'] as const,
      registers,
    }),
    attemptSeconds: new Histogram({
      name: 'halfkey_delivery_attempt_duration_seconds',
      help: 'How long receivers took to answer',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    deadLetters: new Counter({
      name: 'halfkey_dead_letters_total',
      help: 'Deliveries that ended in the dead-letter queue',
      registers,
    }),
    fannedOut: new Counter({
      name: 'halfkey_events_fanned_out_total',
      help: 'Events handed to their subscribers',
      registers,
    }),
    inFlight: new Gauge({
      name: 'halfkey_deliveries_in_flight',
      help: 'Deliveries being sent by this process',
      registers,
    }),
    leasesLost: new Counter({
      name: 'halfkey_delivery_leases_lost_total',
      help: 'Leases that ran out or whose worker died',
      registers,
    }),
  }
}

export type Metrics = ReturnType<typeof createMetrics>
