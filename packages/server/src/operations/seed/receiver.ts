import { createHmac, timingSafeEqual } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const BODY_BYTES_MAX = 1024 * 1024
const TOLERANCE_SECONDS = 300
const SECRET_WAIT_MS = 5_000

/** A delivery whose signature is valid. */
export interface Verified {
  id: string
  type: string
  data: Record<string, unknown>
  /** Which of the two endpoints received it. */
  path: string
}

/** A receiver on loopback. */
export interface SampleReceiver {
  url: string
  /** How many deliveries had a valid signature. */
  verified(): number
  /** How many had none: there should be no such delivery. */
  refused(): number
  /** Sets a path's secret. Deliveries that came before wait for it. */
  knows(path: string, secret: string): void
  /** Whether a path answers 503, as a receiver that is down. */
  fails(path: string, failing: boolean): void
  close(): Promise<void>
}

/** Specification, section 6: an HMAC over `<timestamp>.<body>`, keyed by the whole secret. */
function isSigned(headers: IncomingHttpHeaders, body: string, secret: string): boolean {
  const timestamp = String(headers['x-service-timestamp'] ?? '')
  if (!/^\d{1,12}$/.test(timestamp)) return false
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS) return false
  const mac = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
  const [expected, given] = [Buffer.from(`sha256=${mac}`), Buffer.from(String(headers['x-service-signature'] ?? ''))]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** The whole body; null where it is larger than any delivery. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function answer(response: ServerResponse, status: number, body?: object): void {
  response.writeHead(status, body && { 'content-type': 'application/json' }).end(body && JSON.stringify(body))
}

/** Starts it on a free port. `told` is called for each delivery with a valid signature, also if it is answered 503. */
export async function startSampleReceiver(told: (event: Verified) => void): Promise<SampleReceiver> {
  const secrets = new Map<string, string>()
  const secretSet = new EventEmitter().setMaxListeners(0)
  const failing = new Set<string>()
  let verified = 0
  let refused = 0
  // A delivery may arrive before the answer that holds the secret.
  const awaitSecret = (path: string): Promise<string | null> =>
    once(secretSet, path, { signal: AbortSignal.timeout(SECRET_WAIT_MS) }).then(
      ([secret]) => secret as string,
      () => null,
    )
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    const body = await readBody(request)
    if (body === null) return answer(response, 413)
    const secret = secrets.get(path) ?? (await awaitSecret(path))
    if (secret === null || !isSigned(request.headers, body, secret)) {
      refused += 1
      return answer(response, 401, { error: 'the signature is not valid' })
    }
    const { id, type, data } = JSON.parse(body) as Omit<Verified, 'path'>
    if (failing.has(path)) answer(response, 503, { error: 'warehouse database is being upgraded', retry: true })
    else answer(response, 204)
    verified += 1
    told({ id, type, data, path })
  }
  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    verified: () => verified,
    refused: () => refused,
    knows(path, secret) {
      secrets.set(path, secret)
      secretSet.emit(path, secret)
    },
    fails(path, down) {
      if (down) failing.add(path)
      else failing.delete(path)
    },
    async close() {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    },
  }
}
