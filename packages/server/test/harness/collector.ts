import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { eventually } from './harness.ts'

/** A span as a collector gets it (OTLP 1.x, JSON). */
export interface CollectedSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  /** 1 internal, 2 server, 3 client. */
  kind: number
  attributes: Record<string, unknown>
  /** 2 is an error. */
  status: number
  startNanos: bigint
  endNanos: bigint
}

export interface Collector {
  url: string
  spans: CollectedSpan[]
  /** All that came, as text. */
  text(): string
  /** Each request's path and media type. */
  requests: { path: string; contentType: string | undefined; headers: Record<string, unknown> }[]
  /** What it answers from now on; 0 leaves requests without an answer. */
  answer(status: number): void
  /** Waits for the trace whose spans fit, until its root is there; its spans in the order of their beginning. */
  trace(what: string, isRoot: (span: CollectedSpan) => boolean): Promise<CollectedSpan[]>
  close(): Promise<void>
}

interface Wire {
  resourceSpans: {
    resource: { attributes: WireAttribute[] }
    scopeSpans: { spans: (Omit<CollectedSpan, 'attributes' | 'status'> & WireSpan)[] }[]
  }[]
}
interface WireSpan {
  attributes: WireAttribute[]
  status: { code: number }
  startTimeUnixNano: string
  endTimeUnixNano: string
}
interface WireAttribute {
  key: string
  value: Record<string, unknown>
}

const plain = (attributes: WireAttribute[]) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** A real OTLP/HTTP receiver that keeps everything it gets. */
export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = []
  const texts: string[] = []
  const requests: Collector['requests'] = []
  let status = 200
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    requests.push({
      path: request.url ?? '',
      contentType: request.headers['content-type'],
      headers: { ...request.headers },
    })
    if (status === 0) return
    if (status !== 200) return void response.writeHead(status).end()
    texts.push(text)
    for (const { scopeSpans } of (JSON.parse(text) as Wire).resourceSpans)
      for (const { spans: some } of scopeSpans)
        for (const span of some)
          spans.push({
            ...span,
            attributes: plain(span.attributes),
            status: span.status.code,
            startNanos: BigInt(span.startTimeUnixNano),
            endNanos: BigInt(span.endTimeUnixNano),
          })
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    text: () => texts.join('\n'),
    requests,
    answer(next) {
      status = next
    },
    async trace(what, isRoot) {
      const root = await eventually(what, async () => spans.find(isRoot))
      return spans
        .filter(({ traceId }) => traceId === root.traceId)
        .sort((one, other) => Number(one.startNanos - other.startNanos))
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
