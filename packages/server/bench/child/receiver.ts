// Webhook endpoints that count exactly what they get: by event, and how long after its creation each came.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { spread } from '../figures.ts'
import { serveCalls } from './serve-calls.ts'

export interface Received {
  /** Different pairs of endpoint and event. */
  distinct: number
  /** The same pair again. */
  repeated: number
  /** Unix milliseconds; 0 when none came. */
  firstAt: number
  lastAt: number
}

export interface Window {
  fromMs: number
  toMs: number
  /** Only endpoints whose path begins so. */
  prefix: string
}

export interface InWindow {
  count: number
  /** Arrival less the event's `created_at`, which its emitter set just before it wrote the event. */
  latencyMs: ReturnType<typeof spread>
  /** Arrivals in each whole second. */
  bySecond: number[]
}

interface Arrival {
  path: string
  atMs: number
  /** NaN for what was not emitted but prepared. */
  latencyMs: number
}

let seen = new Set<string>()
let arrivals: Arrival[] = []
let repeated = 0
/** Requests to /hang are never answered. */
const CREATED_AT = '"created_at":"'
const now = () => performance.timeOrigin + performance.now()

function take(request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? ''
  let body = ''
  request.setEncoding('latin1')
  request.on('data', (chunk: string) => {
    body += chunk
  })
  request.on('end', () => {
    if (path.startsWith('/hang')) return
    const atMs = now()
    const key = `${path} ${request.headers['x-service-event-id']}`
    if (seen.has(key)) repeated += 1
    else {
      seen.add(key)
      const createdAt = body.indexOf(CREATED_AT) + CREATED_AT.length
      arrivals.push({ path, atMs, latencyMs: atMs - Date.parse(body.slice(createdAt, createdAt + 24)) })
    }
    response.end('ok')
  })
}

/** Each port is an endpoint's host of its own, as real endpoints have. */
async function open(ports: number): Promise<number[]> {
  const servers = Array.from({ length: ports }, () => createServer({ keepAliveTimeout: 60_000 }, take))
  await Promise.all(
    servers.map(
      (server) => new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve)),
    ),
  )
  return servers.map((server) => (server.address() as AddressInfo).port)
}

function window({ fromMs, toMs, prefix }: Window): InWindow {
  const inside = arrivals.filter(({ path, atMs }) => atMs >= fromMs && atMs < toMs && path.startsWith(prefix))
  const bySecond = new Array<number>(Math.ceil((toMs - fromMs) / 1000)).fill(0)
  for (const { atMs } of inside) {
    const second = Math.floor((atMs - fromMs) / 1000)
    bySecond[second] = (bySecond[second] ?? 0) + 1
  }
  return { count: inside.length, latencyMs: spread(inside.map((arrival) => arrival.latencyMs)), bySecond }
}

serveCalls({
  open,
  window,
  received: (): Received => ({
    distinct: seen.size,
    repeated,
    firstAt: arrivals[0]?.atMs ?? 0,
    lastAt: arrivals.at(-1)?.atMs ?? 0,
  }),
  reset() {
    seen = new Set()
    arrivals = []
    repeated = 0
  },
})
