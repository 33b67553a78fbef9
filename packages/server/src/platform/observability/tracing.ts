import { AsyncLocalStorage } from 'node:async_hooks'
import type { Attributes, Context, Span } from '@opentelemetry/api'
import type { ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace'
import type { Config } from '../config.ts'
import { HttpError } from '../http/errors.ts'
import { createRateLimiter } from '../http/rate-limits/rate-limit.ts'
import { VERSION } from '../version.ts'
import type { Metrics } from './metrics.ts'
import { formatTraceparent, parseTraceparent, type TracePlace } from './traceparent.ts'

// Nothing of OpenTelemetry is loaded but by `openTracing`: the imports above are types.

/** Spans that wait for the collector. */
const QUEUE_MAX = 4_096
const BATCH_MAX = 512
const BATCH_EVERY_MS = 1_000
const EXPORT_MS = 5_000
const CLOSE_MS = 2_000
/** One request may do a lot; its trace shows so much of it. */
const SPANS_A_TRACE_MAX = 500
/** Anybody can request traces. Above this number the ratio decides, so that they do not crowd out all others. */
const ASKED = { name: 'traceparent', perSecond: 50, burst: 100 }
const QUERY_CHARS_MAX = 2_000
/** What all spans of one trace in this process share. */
interface Trace {
  tools: Tools
  /** The time in epoch milliseconds, by one clock for the whole trace: no span ends after the one around it. */
  now(): number
  left: number
  /** The request has been answered: work that continues after it is not traced. */
  isOver: boolean
}

interface Active {
  trace: Trace
  context: Context
}

const current = new AsyncLocalStorage<Active>()

interface Begun {
  attributes: Attributes
  /** Epoch milliseconds. */
  startTime: number
}

/** The parts of OpenTelemetry that create spans. */
interface Tools {
  begin(name: string, kind: number, begun: Begun, parent: Context | null): { span: Span; context: Context }
  /** The context of a span elsewhere. */
  remote(traceId: string, spanId: string): Context
}

/** `SpanKind` of the API. */
const KIND = { internal: 0, server: 1, client: 2 } as const
/** `SpanStatusCode.ERROR`. */
const ERROR = 2

/** Whether what runs now is traced. */
export const isTraced = (): boolean => current.getStore() !== undefined

function markError(span: Span, error: unknown): void {
  const { code, name } = error as { code?: unknown; name?: unknown }
  // Never its message: it may repeat what the caller sent.
  span.setAttribute('error.type', String(typeof code === 'string' ? code : (name ?? 'unknown')))
  if (!(error instanceof HttpError && error.status < 500)) span.setStatus({ code: ERROR })
}

async function runIn<T>(span: Span, active: Active, work: () => Promise<T>): Promise<T> {
  try {
    return await current.run(active, work)
  } catch (error) {
    markError(span, error)
    throw error
  } finally {
    span.end(active.trace.now())
  }
}

/** Runs work, as a span where it is part of a trace. Attributes are for the operator: no values, no names of people. */
export function inSpan<T>(
  name: string,
  kind: 'internal' | 'client',
  attributes: Attributes,
  work: () => Promise<T>,
): Promise<T> {
  const active = current.getStore()
  if (active === undefined || active.trace.isOver || active.trace.left <= 0) return work()
  active.trace.left -= 1
  const begun = { attributes, startTime: active.trace.now() }
  const { span, context } = active.trace.tools.begin(name, KIND[kind], begun, active.context)
  return runIn(span, { trace: active.trace, context }, work)
}

function traceparentOf(span: Span): string {
  const { traceId, spanId } = span.spanContext()
  return formatTraceparent({ traceId, spanId, isSampled: true })
}

interface Statement {
  name: string
  attributes: Attributes
}

const statements = new Map<string, Statement>()
/** As many as there may be (see `db.ts`); what is past it is described anew each time. */
const STATEMENTS_MAX = 2_000

function describeStatement(text: string): Statement {
  const line = text.replace(/\s+/g, ' ').trim()
  // Of one with parts (`with …`) the last write names it: that is what it is for.
  const written = [...line.matchAll(/(?<!\b(?:for|do) )\b(insert|update|delete)(?: into| from)? ([a-z_]+)/g)].at(-1)
  const operation = written?.[1] ?? /^\w+/.exec(line)?.[0] ?? 'query'
  const table = written?.[2] ?? /\bfrom ([a-z_]+)/.exec(line)?.[1]
  return {
    name: table === undefined ? operation : `${operation} ${table}`,
    attributes: { 'db.system.name': 'postgresql', 'db.query.text': line.slice(0, QUERY_CHARS_MAX) },
  }
}

/** Records a statement as a span, with its source text: `$1`, never a value. */
export function inStatementSpan<T>(text: string, work: () => Promise<T>): Promise<T> {
  const known = statements.get(text) ?? describeStatement(text)
  if (statements.size < STATEMENTS_MAX) statements.set(text, known)
  return inSpan(known.name, 'client', known.attributes, work)
}

/** A request whose trace has begun. */
interface TracedRequest {
  traceId: string
  /** For calls that this request causes. */
  traceparent: string
  /** Runs what answers it. */
  run(work: () => void): void
  /** @param status null when the client went away before it was answered */
  end(status: number | null, tenantId: string | undefined): void
}

/** Makes traces and sends them to the collector. */
export interface Tracing {
  /** Begins a request's trace or continues its caller's; null for a request that is not traced. */
  beginRequest(method: string, route: string | undefined, traceparent: unknown): TracedRequest | null
  /** Runs work that no request waits for, as part of the trace that it names, or as a separate one. */
  inTrace<T>(work: TracedWork<T>): Promise<T>
  /** Sends what waits, for two seconds at most. */
  close(): Promise<void>
}

/** Work that no request waits for. */
interface TracedWork<T> {
  name: string
  attributes: Attributes
  /** The trace that caused it: it is recorded if that one is. Null for a separate trace, if the sampling ratio chooses it. */
  parent: TracePlace | null
  /** @param traceparent for the call that it makes; null if it is not recorded */
  run(traceparent: string | null): Promise<T>
  told(result: T): Told
}

/** What a result says of the work that it came of. */
export interface Told {
  attributes: Attributes
  isFailed: boolean
}

/** Counts what is lost, and keeps no more than the queue may hold: also while the collector has a batch and says nothing. */
function boundedBy(metrics: Metrics, batch: (exporter: SpanExporter) => SpanProcessor, exporter: SpanExporter) {
  let waiting = 0
  const inner = batch({
    export(spans, done) {
      exporter.export(spans, (result) => {
        waiting -= spans.length
        if (result.code !== 0) metrics.spansDropped.inc(spans.length)
        done(result)
      })
    },
    forceFlush: async () => {},
    shutdown: () => exporter.shutdown(),
  })
  const bounded: SpanProcessor = {
    onStart() {},
    onEnd(span: ReadableSpan) {
      if (waiting >= QUEUE_MAX) return metrics.spansDropped.inc()
      waiting += 1
      inner.onEnd(span)
    },
    forceFlush: () => inner.forceFlush(),
    shutdown: () => inner.shutdown(),
  }
  return bounded
}

async function load(config: Config, metrics: Metrics) {
  const [api, sdk, { OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ])
  const exporter = new OTLPTraceExporter({ url: `${config.otlpEndpoint}/v1/traces`, timeoutMillis: EXPORT_MS })
  const batch = (to: SpanExporter) =>
    new sdk.BatchSpanProcessor({
      exporter: to,
      maxQueueSize: QUEUE_MAX,
      maxExportBatchSize: BATCH_MAX,
      scheduledDelayMillis: BATCH_EVERY_MS,
      exportTimeoutMillis: EXPORT_MS + 1_000,
    })
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'halfkey',
      'service.version': VERSION,
      'halfkey.role': config.role,
      'deployment.environment.name': config.env,
    }),
    // Everything that arrives here is recorded: `isChosen` has already decided.
    sampler: new sdk.AlwaysOnSampler(),
    spanProcessors: [boundedBy(metrics, batch, exporter)],
  })
  const tracer = provider.getTracer('halfkey', VERSION)
  const tools: Tools = {
    begin(name, kind, begun, parent) {
      const of = parent ?? api.ROOT_CONTEXT
      const span = tracer.startSpan(name, { kind, ...begun }, of)
      return { span, context: api.trace.setSpan(of, span) }
    },
    remote: (traceId, spanId) =>
      api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags: 1, isRemote: true }),
  }
  return { provider, tools }
}

/** Loads the tracing libraries and starts to send traces. Spans that the collector rejects are dropped and counted. */
export async function openTracing(config: Config, metrics: Metrics): Promise<Tracing> {
  const { provider, tools } = await load(config, metrics)
  const asked = createRateLimiter()
  const isChosen = () => Math.random() < config.traceRatio
  const newTrace = (): Trace => {
    const origin = Date.now() - performance.now()
    return { tools, now: () => origin + performance.now(), left: SPANS_A_TRACE_MAX, isOver: false }
  }

  /** The parent that the caller names; undefined for a request that is not traced, null for one that begins a trace. */
  function parentOf(traceparent: unknown): Context | null | undefined {
    const given = parseTraceparent(traceparent)
    if (given === null) return isChosen() ? null : undefined
    if (!given.isSampled) return undefined
    return asked.take('', ASKED).allowed || isChosen() ? tools.remote(given.traceId, given.spanId) : undefined
  }

  return {
    beginRequest(method, route, traceparent) {
      const parent = parentOf(traceparent)
      if (parent === undefined) return null
      const attributes = { 'http.request.method': method, ...(route === undefined ? {} : { 'http.route': route }) }
      const name = route === undefined ? method : `${method} ${route}`
      const trace = newTrace()
      const { span, context } = tools.begin(name, KIND.server, { attributes, startTime: trace.now() }, parent)
      return {
        traceId: span.spanContext().traceId,
        traceparent: traceparentOf(span),
        run: (work) => current.run({ trace, context }, work),
        end(status, tenantId) {
          if (tenantId !== undefined) span.setAttribute('halfkey.tenant.id', tenantId)
          if (status === null) span.setAttribute('error.type', 'client_gone')
          else span.setAttribute('http.response.status_code', status)
          if (status !== null && status >= 500) {
            span.setAttribute('error.type', String(status))
            span.setStatus({ code: ERROR })
          }
          span.end(trace.now())
          trace.isOver = true
        },
      }
    },
    inTrace({ name, attributes, parent, run, told }) {
      if (!(parent?.isSampled ?? isChosen())) return run(null)
      const trace = newTrace()
      const above = parent === null ? null : tools.remote(parent.traceId, parent.spanId)
      const { span, context } = tools.begin(name, KIND.client, { attributes, startTime: trace.now() }, above)
      return runIn(span, { trace, context }, async () => {
        const result = await run(traceparentOf(span))
        const { attributes: more, isFailed } = told(result)
        span.setAttributes(more)
        if (isFailed) span.setStatus({ code: ERROR })
        return result
      }).finally(() => {
        trace.isOver = true
      })
    },
    async close() {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, CLOSE_MS)
      })
      // What cannot be sent has been counted, and is no reason not to stop.
      await Promise.race([provider.shutdown().catch(() => {}), late])
      clearTimeout(timer)
    },
  }
}
