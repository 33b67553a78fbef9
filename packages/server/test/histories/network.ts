import type { Egress } from '../../src/platform/egress/egress.ts'
import type { SendRequest, SendResult } from '../../src/platform/egress/send.ts'

/** The longest time between a lease and its send. */
const LEASE_USED_MS = 25_000
const LEASE_MS = 60_000
/** A worker that was silent for so long may count as dead; a little less, since real time passes too. */
const SILENCE_MS = 14_000
/** From when on another worker may have the delivery of a send that was begun. */
const LOST_AFTER_MS = LEASE_MS - LEASE_USED_MS - 1_000

/** A request that a worker made. */
export interface Send {
  number: number
  /** By the path of the URL. */
  webhookId: string
  eventId: string
  /** Of the worker. */
  workerId: string
  startedAtMs: number
  /** What was answered; null while it is open. */
  status: number | null
  /** Whether its worker has stored the outcome, or was about to. */
  stored: 'no' | 'maybe' | 'yes'
  storedAtMs: number
  /** Another worker may have been given the delivery before the outcome was stored. */
  mayBeLost: boolean
  answer(status: number): void
}

/**
 * The network between the workers and the endpoints. It is part of this process, so that the same seed finds the same order
 * of things, and keeps every request open until a history says what is answered.
 */
export class Network {
  readonly sends: Send[] = []
  /** Called when a request begins. */
  begun: (send: Send) => void = () => {}
  readonly #now: () => number
  readonly #ended = new Set<string>()

  constructor(now: () => number) {
    this.#now = now
  }

  open(): Send[] {
    return this.sends.filter(({ status }) => status === null)
  }

  of(webhookId: string, eventId: string): Send[] {
    return this.sends.filter((send) => send.webhookId === webhookId && send.eventId === eventId)
  }

  /** What a worker sends by. */
  egressOf(workerId: string, real: Egress): Egress {
    return { ...real, post: (request) => this.#post(workerId, request) }
  }

  /** Outcomes that wait in a worker's memory are stored by the flush that begins now. */
  storing(workerId: string): Send[] {
    const storing = this.sends.filter(
      (each) => each.workerId === workerId && each.status !== null && each.stored === 'no',
    )
    for (const each of storing) Object.assign(each, { stored: 'maybe', storedAtMs: this.#now() })
    return storing
  }

  /** A worker is gone: it sends nothing more, and stores nothing more. */
  end(workerId: string): void {
    this.#ended.add(workerId)
    this.lose(workerId, Number.POSITIVE_INFINITY)
  }

  /** Marks what another worker may have been given by now. `silentMs`: since its last heartbeat. */
  lose(workerId: string, silentMs: number): void {
    for (const each of this.sends)
      if (each.workerId === workerId && each.stored !== 'yes')
        each.mayBeLost ||= silentMs > SILENCE_MS || this.#now() - each.startedAtMs > LOST_AFTER_MS
  }

  #post(workerId: string, { url, headers }: SendRequest): Promise<SendResult> {
    return new Promise((resolve) => {
      if (this.#ended.has(workerId)) return
      const send: Send = {
        number: this.sends.length,
        webhookId: new URL(url).pathname.slice(1),
        eventId: headers['webhook-id'] as string,
        workerId,
        startedAtMs: this.#now(),
        status: null,
        stored: 'no',
        storedAtMs: 0,
        mayBeLost: false,
        answer(status) {
          send.status = status
          const ok = status < 300
          resolve({ ok, statusCode: status, error: ok ? null : `HTTP ${status}`, responseSnippet: '', durationMs: 5 })
        },
      }
      this.sends.push(send)
      this.begun(send)
    })
  }
}
