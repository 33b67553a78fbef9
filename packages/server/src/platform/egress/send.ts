// One request from its start to its verdict.
import { Attempt } from './attempt.ts'
import { type ClientIdentity, type Connection, type Connections, identityKey } from './connections.ts'
import { describeFailure, interimStatusOf, isConnectionClosed, TIMEOUT } from './failure.ts'
import type { Plan, Router } from './targets.ts'

/** How long an address may take to accept, including TLS, if there is another address to try: at most this, */
const CONNECT_PATIENCE_MS = 4_000
/** and at most this share of the send's time, so that the last address still has some. */
const CONNECT_PATIENCE_SHARE = 0.2
/** What is read of an answer before its connection is dropped, unless the request says otherwise. */
const ANSWER_BYTES_MAX = 64 * 1024

export type Method = 'GET' | 'POST' | 'PUT'

/** A request to an address a customer chose. */
export interface SendRequest {
  url: string
  /** sent as they are; the guard adds accept-encoding, host and content-length */
  headers: Record<string, string>
  body: Buffer | string
  /** for everything from name resolution to the end of the answer's body */
  timeoutMs: number
  /** The answer's body is needed, not only its start. Past `answerBytesMax` it is cut. */
  keepsAnswer?: boolean
  /** How much of an answer's body is read. By default 64 KiB. */
  answerBytesMax?: number
  /** for servers that ask for a certificate; without effect over http: */
  clientCertificate?: ClientIdentity
  /** See `Egress`. By default false. */
  publicOnly?: boolean
}

/** The result of a request. All but `answer` can be stored and shown to the customer unchanged. */
export interface SendResult {
  /** a 2xx status line came in time */
  ok: boolean
  /** null when no status line came */
  statusCode: number | null
  /** short stable public text; null exactly when `ok` */
  error: string | null
  /** at most 4 KiB of valid UTF-8 without NUL; null when no status line came */
  responseSnippet: string | null
  /** Only with `keepsAnswer`, and if a status line came. */
  answer?: Buffer
  /** The headers of that answer that came once, by their lower-case names. */
  answerHeaders?: Record<string, string>
  durationMs: number
}

/** Drives one request over as many connections as it needs; `settle` is called exactly once. */
export class Send {
  readonly connections: Connections
  readonly #router: Router
  readonly #method: Method
  readonly #request: SendRequest
  readonly #settle: (result: SendResult, send: Send) => void
  readonly #startedAt = performance.now()
  #deadline: NodeJS.Timeout | undefined
  #patience: NodeJS.Timeout | undefined
  #plan: Plan | null = null
  #nextRoute = 0
  #hasRetried = false
  #attempt: Attempt | null = null

  constructor(
    connections: Connections,
    router: Router,
    method: Method,
    request: SendRequest,
    settle: (result: SendResult, send: Send) => void,
  ) {
    this.connections = connections
    this.#router = router
    this.#method = method
    this.#request = request
    this.#settle = settle
  }

  start(): void {
    // Timers round to whole milliseconds of a clock read before: one more keeps the deadline from being early.
    this.#deadline = setTimeout(onDeadline, this.#request.timeoutMs + 1, this)
    try {
      const plan = this.#router.plan(this.#request.url)
      if (plan instanceof Promise)
        plan.then((resolved) => this.#begin(resolved)).catch((error: unknown) => this.#refuse(error))
      else this.#begin(plan)
    } catch (error) {
      this.#refuse(error)
    }
  }

  /** Ends the send now, with the verdict of the status line if one came, else with `error`. */
  cut(error: string): void {
    const attempt = this.#attempt
    this.finish(attempt, attempt?.statusCode ?? null, error)
    if (attempt) this.connections.discard(attempt.connection)
  }

  get keepsAnswer(): boolean {
    return this.#request.keepsAnswer === true
  }

  get answerBytesMax(): number {
    return this.#request.answerBytesMax ?? ANSWER_BYTES_MAX
  }

  /** True while `attempt` is the one that counts; undici may still report on one that was given up. */
  isCurrent(attempt: Attempt): boolean {
    return this.#attempt === attempt
  }

  onStarted(): void {
    clearTimeout(this.#patience)
  }

  /** The connection failed. Tries the next address, retries once, or ends the send. */
  onAttemptFailed(attempt: Attempt, error: unknown): void {
    this.connections.discard(attempt.connection)
    const hasOtherRoute = this.#plan !== null && this.#nextRoute < this.#plan.routes.length
    // The server closed an idle connection while the request was on its way: RFC 9110, section 9.2.2 lets a client
    // repeat what is known to be safe to repeat, and receivers of webhooks see an event at least once anyway.
    const isStale = attempt.isReused && !attempt.isAnswered && isConnectionClosed(error)
    if (attempt.statusCode !== null) {
      this.finish(attempt, attempt.statusCode, null)
    } else if (!attempt.isStarted && hasOtherRoute) {
      this.#tryNextRoute()
    } else if (isStale && !this.#hasRetried) {
      this.#hasRetried = true
      this.#dispatch(this.connections.create(attempt.connection.route))
    } else {
      this.finish(attempt, interimStatusOf(error), describeFailure(error))
    }
  }

  /** `error` counts only where the status itself does not say what happened. */
  finish(attempt: Attempt | null, statusCode: number | null, error: string | null): void {
    if (this.#deadline === undefined) return
    clearTimeout(this.#deadline)
    clearTimeout(this.#patience)
    this.#deadline = undefined
    this.#attempt = null
    const ok = statusCode !== null && statusCode >= 200 && statusCode < 300
    this.#settle(
      {
        ok,
        statusCode,
        error: ok ? null : statusCode === null ? (error ?? 'failed') : describeStatus(statusCode),
        responseSnippet: statusCode === null ? null : (attempt?.snippet() ?? ''),
        ...(this.keepsAnswer && attempt ? { answer: attempt.answer(), answerHeaders: attempt.headers } : {}),
        durationMs: Math.round(performance.now() - this.#startedAt),
      },
      this,
    )
  }

  #begin(checked: Plan): void {
    if (this.#deadline === undefined) return
    const plan = planAs(checked, this.#request.clientCertificate)
    this.#plan = plan
    // An address that is known to answer spares the wait for one that may not.
    const warm = plan.routes.find((route) => this.connections.hasIdle(route))
    if (warm) this.#dispatch(this.connections.acquire(warm))
    else this.#tryNextRoute()
  }

  #tryNextRoute(): void {
    const { routes } = this.#plan ?? { routes: [] }
    const route = routes[this.#nextRoute++]
    if (!route) return
    clearTimeout(this.#patience)
    if (this.#nextRoute < routes.length) {
      const patienceMs = Math.min(CONNECT_PATIENCE_MS, this.#request.timeoutMs * CONNECT_PATIENCE_SHARE)
      this.#patience = setTimeout(onImpatience, patienceMs, this)
    }
    this.#dispatch(this.connections.create(route))
  }

  #dispatch(connection: Connection): void {
    const { headers, body } = this.#request
    this.#attempt = new Attempt(this, connection)
    connection.client.dispatch(
      {
        path: this.#plan?.path ?? '/',
        method: this.#method,
        // Bodies are never inflated, so none should come deflated.
        headers: { ...headers, 'accept-encoding': 'identity' },
        body,
      },
      this.#attempt,
    )
  }

  #refuse(error: unknown): void {
    this.finish(null, null, describeFailure(error))
  }

  static timeOut(send: Send): void {
    send.cut(TIMEOUT)
  }

  static loseConnectPatience(send: Send): void {
    const attempt = send.#attempt
    if (!attempt || attempt.isStarted) return
    send.#attempt = null
    send.connections.discard(attempt.connection)
    send.#tryNextRoute()
  }
}

// Shared functions instead of a closure per send.
const onDeadline = Send.timeOut
const onImpatience = Send.loseConnectPatience

/** The same plan over connections of this client alone. */
function planAs(plan: Plan, identity: ClientIdentity | undefined): Plan {
  if (identity === undefined) return plan
  const client = identityKey(identity)
  const routes = plan.routes.map((route) => ({ ...route, key: `${route.key} ${client}`, identity }))
  return { path: plan.path, routes }
}

function describeStatus(statusCode: number): string {
  const isRedirect = statusCode >= 300 && statusCode < 400 && statusCode !== 304
  return isRedirect ? `status ${statusCode}: redirects are not followed` : `status ${statusCode}`
}
