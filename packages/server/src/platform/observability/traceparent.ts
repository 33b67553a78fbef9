// W3C Trace Context, section 3.2: which trace a call is part of.
import { randomBytes } from 'node:crypto'

/** Version, trace, parent, flags; later versions may go on. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/

/** A place in a trace. */
export interface TracePlace {
  traceId: string
  spanId: string
  /** Whether the trace is recorded. */
  isSampled: boolean
}

/** Reads a header; null for one that is malformed or missing. */
export function parseTraceparent(text: unknown): TracePlace | null {
  const given = typeof text === 'string' ? TRACEPARENT.exec(text) : null
  const [, version, traceId = '', spanId = '', flags = '', more] = given ?? []
  if (given === null || (version === '00' && more !== undefined)) return null
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

export function formatTraceparent({ traceId, spanId, isSampled }: TracePlace): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
}

/** A caller's place in a trace that this service does not record: then nothing further down does. */
export function unrecordedTraceparent(text: unknown): string | undefined {
  const given = parseTraceparent(text)
  return given === null ? undefined : formatTraceparent({ ...given, isSampled: false })
}

/** A new place in the same trace, for work that nobody here records. */
export function nextTraceparent(place: TracePlace): string {
  return formatTraceparent({ ...place, spanId: randomBytes(8).toString('hex') })
}
