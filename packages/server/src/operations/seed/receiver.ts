import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const BODY_BYTES_MAX = 1024 * 1024
const TOLERANCE_SECONDS = 300
const SECRETS_MAX_MS = 5_000

/** A delivery whose signature fits. */
export interface Verified {
  id: string
  type: string
  data: Record<string, unknown>
  /** Which of the two endpoints it came to. */
  path: string
}

/** A receiver on loopback. */
export interface SampleReceiver {
  url: string
  /** How many deliveries came whose signature fits, by path. */
  verified: Map<string, number>
  /** How many came whose signature does not fit: none should. */
  refused(): number
  /** Tells a path's secret; what comes to it before waits. */
  knows(path: string, secret: string): void
  /** Whether a path answers 503, as a receiver that is down. */
  fails(path: string, failing: boolean): void
  close(): Promise<void>
}

async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** As the specification's section 6 has it: an HMAC over `<timestamp>.<body>`, keyed by the whole secret. */
function fits(headers: IncomingHttpHeaders, body: Buffer, secret: string): boolean {
  const timestamp = String(headers['x-service-timestamp'] ?? '')
  if (!/^\d{1,12}$/.test(timestamp)) return false
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false
  const mac = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')
  const [expected, given] = [Buffer.from(`sha256=${mac}`), Buffer.from(String(headers['x-service-signature'] ?? ''))]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function answer(response: ServerResponse, status: number, body?: object): void {
  if (body === undefined) response.writeHead(status).end()
  else response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Starts it on a free port. `told` hears of each delivery that fits, also of one that is answered 503. */
export async function startSampleReceiver(told: (event: Verified) => void): Promise<SampleReceiver> {
  const secrets = new Map<string, { promise: Promise<string>; resolve(secret: string): void }>()
  const failing = new Set<string>()
  const verified = new Map<string, number>()
  let refused = 0
  const secretOf = (path: string) => {
    const known = secrets.get(path) ?? Promise.withResolvers<string>()
    secrets.set(path, known)
    return known
  }
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    const body = await readBody(request)
    if (body === null) return answer(response, 413)
    // Something may arrive before the answer that tells the secret.
    const timeout = new Promise<null>((resolve) => setTimeout(resolve, SECRETS_MAX_MS, null).unref())
    const secret = await Promise.race([secretOf(path).promise, timeout])
    if (secret === null || !fits(request.headers, body, secret)) {
      refused += 1
      return answer(response, 401, { error: 'the signature does not fit' })
    }
    const { id, type, data } = JSON.parse(body.toString()) as Omit<Verified, 'path'>
    if (failing.has(path)) answer(response, 503, { error: 'warehouse database is being upgraded', retry: true })
    else answer(response, 204)
    verified.set(path, (verified.get(path) ?? 0) + 1)
    told({ id, type, data, path })
  }
  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    verified,
    refused: () => refused,
    knows(path, secret) {
      // A new secret, once an old one is known, takes its place.
      const known = Promise.withResolvers<string>()
      known.resolve(secret)
      secrets.get(path)?.resolve(secret)
      secrets.set(path, known)
    },
    fails(path, down) {
      if (down) failing.add(path)
      else failing.delete(path)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
