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
  /**
   * GET of these paths in turn, or POST: of a new user each time, of these bodies, each once, of the same body each time, or of
   * the refresh token that the connection's last answer held.
   */
  paths?: string[]
  post?: { path: string; tag: string }
  bodies?: { path: string; list: string[] }
  same?: { path: string; body: string }
  refresh?: { path: string; tokens: string[] }
  /** Or each connection's own chain of transfers: the next spends what the last left. */
  chains?: { path: string; token: string; contractId: string; receiver: string }[]
  /** Sent beside the key with `paths` and `bodies`. */
  token?: string
  /** At most so many a second, evenly; as many as are answered without it. */
  perSecond?: number
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

/** The next request of a connection, given the answer before it; null when there is none left. */
function nextRequest(load: Load, connection: number, lastAnswer: string): string | null {
  const head = `host: 127.0.0.1\r\nx-api-key: ${load.key}\r\n`
  const bearer = (token: string | undefined) => (token === undefined ? '' : `authorization: Bearer ${token}\r\n`)
  const post = (path: string, body: string, token = load.token) =>
    `POST ${path} HTTP/1.1\r\n${head}${bearer(token)}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  made += 1
  if (load.paths !== undefined)
    return `GET ${load.paths[made % load.paths.length]} HTTP/1.1\r\n${head}${bearer(load.token)}\r\n`
  if (load.bodies !== undefined) {
    const body = load.bodies.list.pop()
    return body === undefined ? null : post(load.bodies.path, body)
  }
  if (load.same !== undefined) return post(load.same.path, load.same.body)
  if (load.refresh !== undefined) {
    const token = /"refreshToken":"([^"]+)"/.exec(lastAnswer)?.[1] ?? load.refresh.tokens[connection]
    return post(load.refresh.path, `{"refreshToken":"${token}"}`)
  }
  if (load.chains !== undefined) {
    const { path, token, receiver, contractId: first } = load.chains[connection] as NonNullable<Load['chains']>[number]
    const contractId =
      lastAnswer
        .match(/"contractId":"(0[01][0-9a-f]{64})"/g)
        ?.at(-1)
        ?.slice(14, 80) ?? first
    const given = `{"receiver":"${receiver}","amount":"0.01"}`
    const exercise = `{"templateId":"Token:Holding","contractId":"${contractId}","choice":"Transfer","arguments":${given}}`
    return post(path, `{"commandId":"load-${process.pid}-${made}","commands":[{"exercise":${exercise}}]}`, token)
  }
  const { path, tag } = load.post as { path: string; tag: string }
  return post(
    path,
    `{"email":"load-${tag}-${made}@example.com","name":"Load Generated ${made}","externalId":"${tag}-${made}"}`,
  )
}

class CounterIncrement {
  latencies: number[] = []
  succeeded = 0
  errors = 0
  firstError: string | null = null

  fail(what: string): void {
    this.errors += 1
    this.firstError ??= what
  }
}

interface Clock {
  counts(): boolean
  isOver(): boolean
}

/** Runs one connection until the clock is over; resolves when its last answer is there. */
function drive(load: Load, connection: number, increment: CounterIncrement, { counts, isOver }: Clock): Promise<void> {
  const everyMs = load.perSecond === undefined ? 0 : (load.connections / load.perSecond) * 1000
  return new Promise((resolve) => {
    let sentAt = 0
    let dueAt = performance.now() + (everyMs * connection) / load.connections
    let pending = ''
    let lastAnswer = ''
    let ended = false
    const socket: Socket = createConnection({ port: load.port, host: '127.0.0.1', noDelay: true })
    const finish = (failure?: string) => {
      if (ended) return
      ended = true
      if (failure !== undefined) increment.fail(failure)
      socket.destroy()
      resolve()
    }
    const send = () => {
      const request = isOver() ? null : nextRequest(load, connection, lastAnswer)
      if (request === null) return finish()
      sentAt = performance.now()
      socket.write(request, 'latin1')
    }
    const sendWhenDue = () => {
      if (everyMs === 0) return send()
      const waitMs = dueAt - performance.now()
      dueAt = Math.max(dueAt + everyMs, performance.now())
      if (waitMs > 0) setTimeout(send, waitMs)
      else send()
    }
    socket.on('connect', sendWhenDue)
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
      if (Number(pending.slice(9, 12)) === load.expectedStatus) increment.succeeded += 1
      else increment.fail(pending.slice(0, 15) + pending.slice(headEnd + 4, headEnd + 300))
      lastAnswer = load.refresh === undefined && load.chains === undefined ? '' : pending
      pending = ''
      if (counts()) increment.latencies.push(performance.now() - sentAt)
      sendWhenDue()
    })
  })
}

async function run(load: Load): Promise<LoadResult> {
  const increment = new CounterIncrement()
  const startedAt = performance.now() + load.warmUpMs
  const overAt = startedAt + load.forMs
  const fromMs = Date.now() + load.warmUpMs
  const counts = () => performance.now() >= startedAt && performance.now() < overAt
  const isOver = () => performance.now() >= overAt
  await Promise.all(
    Array.from({ length: load.connections }, (_, connection) => drive(load, connection, increment, { counts, isOver })),
  )
  return {
    perSecond: (increment.latencies.length / load.forMs) * 1000,
    answered: increment.latencies.length,
    succeeded: increment.succeeded,
    errors: increment.errors,
    firstError: increment.firstError,
    latencyMs: spread(increment.latencies),
    fromMs,
    toMs: fromMs + load.forMs,
  }
}

serveCalls({ run })
