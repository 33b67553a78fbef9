// Closed-loop load over plain sockets: a connection sends its next request when the last answer is there. A general
// HTTP client would cost several times the CPU, and the generator shares the machine with what it measures.
import { createConnection, type Socket } from 'node:net'
import { spread } from '../figures.ts'
import { serveCalls } from './serve-calls.ts'

export interface Load {
  port: number
  key: string
  connections: number
  /** Before anything is counted. */
  warmUpMs: number
  forMs: number
  /** GET of these paths in turn, or POST of a new user each time. */
  paths?: string[]
  post?: { path: string; tag: string }
  expectedStatus: number
}

export interface LoadResult {
  perSecond: number
  /** Answers within the measured time. */
  answered: number
  /** Answers with the expected status, warm-up and the last ones in the air included. */
  succeeded: number
  /** Other answers and broken connections, all told. */
  errors: number
  firstError: string | null
  latencyMs: ReturnType<typeof spread>
  /** When the measured time began, Unix milliseconds. */
  fromMs: number
  toMs: number
}

let made = 0

function nextRequest(load: Load): string {
  const head = `host: 127.0.0.1\r\nx-api-key: ${load.key}\r\n`
  made += 1
  if (load.paths !== undefined) return `GET ${load.paths[made % load.paths.length]} HTTP/1.1\r\n${head}\r\n`
  const body = `{"email":"load-${load.post?.tag}-${made}@example.com","name":"Load Generated ${made}","externalId":"${load.post?.tag}-${made}"}`
  return `POST ${load.post?.path} HTTP/1.1\r\n${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

class Tally {
  latencies: number[] = []
  succeeded = 0
  errors = 0
  firstError: string | null = null

  fail(what: string): void {
    this.errors += 1
    this.firstError ??= what
  }
}

/** Runs one connection until `isOver`; resolves when its last answer is there. */
function drive(load: Load, tally: Tally, counts: () => boolean, isOver: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    let sentAt = 0
    let pending = ''
    let ended = false
    const socket: Socket = createConnection({ port: load.port, host: '127.0.0.1', noDelay: true })
    const finish = (failure?: string) => {
      if (ended) return
      ended = true
      if (failure !== undefined) tally.fail(failure)
      socket.destroy()
      resolve()
    }
    const send = () => {
      if (isOver()) return finish()
      sentAt = performance.now()
      socket.write(nextRequest(load), 'latin1')
    }
    socket.on('connect', send)
    socket.on('error', (error) => finish(error.message))
    socket.on('close', () => finish('connection closed by the server'))
    socket.on('data', (chunk) => {
      pending += chunk.toString('latin1')
      const headEnd = pending.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      const lengthAt = pending.indexOf('content-length: ')
      if (lengthAt === -1 || lengthAt > headEnd) return finish('an answer without content-length')
      const length = Number.parseInt(pending.slice(lengthAt + 16, lengthAt + 26), 10)
      if (pending.length < headEnd + 4 + length) return
      if (Number(pending.slice(9, 12)) === load.expectedStatus) tally.succeeded += 1
      else tally.fail(pending.slice(0, 15) + pending.slice(headEnd + 4, headEnd + 300))
      pending = ''
      if (counts()) tally.latencies.push(performance.now() - sentAt)
      send()
    })
  })
}

async function run(load: Load): Promise<LoadResult> {
  const tally = new Tally()
  const startedAt = performance.now() + load.warmUpMs
  const overAt = startedAt + load.forMs
  const fromMs = Date.now() + load.warmUpMs
  const counts = () => performance.now() >= startedAt && performance.now() < overAt
  const isOver = () => performance.now() >= overAt
  await Promise.all(Array.from({ length: load.connections }, () => drive(load, tally, counts, isOver)))
  return {
    perSecond: (tally.latencies.length / load.forMs) * 1000,
    answered: tally.latencies.length,
    succeeded: tally.succeeded,
    errors: tally.errors,
    firstError: tally.firstError,
    latencyMs: spread(tally.latencies),
    fromMs,
    toMs: fromMs + load.forMs,
  }
}

serveCalls({ run })
