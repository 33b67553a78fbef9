import { expect } from 'vitest'
import { type Answer, call, eventually } from '../harness/harness.ts'
import type { Receiver } from '../harness/receiver.ts'

const PAUSE_AFTER_FAILURE_MS = 20
/** A dead worker's deliveries go out again after 15 s; then there is always something going, or all is over. */
const QUIET_MS = 60_000
/** However much has piled up. */
const DRAIN_MS = 600_000
/** The type of the events that a load publishes itself, with ordering keys. */
const STEP = 'load.step'
/** Begins what such an event has in place of a user id. The call's number follows. */
const STEP_ID = 'step-'
/** Shared by all connections. No multiple of two or three, so that the calls with one key go through each of several processes. */
const ORDERING_KEYS = 7

/** An answer that was no success, or none at all (`status` null). */
export interface Failure {
  status: number | null
  code: string | null
  tookMs: number
  atMs: number
}

/** When an event with an ordering key was published: each call's beginning and each answer has a number, the later the greater. */
interface Step {
  orderingKey: string
  beganAt: number
  /** Null until it was acknowledged. */
  answeredAt: number | null
}

/**
 * Creates users over several connections at once, each call under an Idempotency-Key of its own, until told to stop.
 * Faults do not stop it: what was not answered is kept, to be sent again. Some of the connections can publish events with
 * ordering keys instead.
 */
export class UserLoad {
  /** User ids, by the call's number. An event with an ordering key has one that it made up. */
  readonly acknowledged = new Map<number, string>()
  readonly unanswered = new Set<number>()
  readonly failures: Failure[] = []
  #target: { urls: readonly string[]; key: string }
  #next = 1
  #stopping = false
  #loops: Promise<void>[] = []
  #moment = 0
  /** By the call's number. */
  #steps = new Map<number, Step>()

  /** With several addresses, each call goes to the next one; sent again, to the one after that. */
  constructor({ key, ...at }: { key: string } & ({ url: string } | { urls: readonly string[] })) {
    this.#target = { key, urls: 'urls' in at ? at.urls : [at.url] }
  }

  /** Where the next calls go: a restarted service may listen elsewhere, and others may have joined it. */
  moveTo(...urls: string[]): void {
    this.#target = { ...this.#target, urls }
  }

  /** @param ordered how many of the connections publish events with ordering keys, to webhooks of `subscribe` with `ordered` */
  start(connections = 6, ordered = 0): this {
    this.#stopping = false
    this.#loops = Array.from({ length: connections }, (_, at) => this.#loop(at < ordered))
    return this
  }

  /** The acknowledged calls that created users. */
  users(): [n: number, userId: string][] {
    return [...this.acknowledged].filter(([n]) => !this.#steps.has(n))
  }

  /** When what arrived with this in place of a user id was published. */
  stepOf(userId: string): Step {
    const step = this.#steps.get(Number(userId.slice(STEP_ID.length)))
    if (step === undefined) throw new Error(`the load has not published ${userId}`)
    return step
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all(this.#loops)
  }

  /** Until so many more calls were answered with 201. */
  async more(n: number, timeoutMs = 60_000): Promise<void> {
    const enough = this.acknowledged.size + n
    await eventually(`${n} more users`, async () => this.acknowledged.size >= enough, timeoutMs)
  }

  /** Sends again, under the same keys, what got no answer. @returns how many of them had had their effect already */
  async retryUnanswered(): Promise<{ retried: number; replayed: number; refused: Answer[] }> {
    const again = [...this.unanswered]
    const refused: Answer[] = []
    let replayed = 0
    for (const n of again) {
      const answer = await this.#post(n, n + 1)
      if (answer.status !== 201) refused.push(answer)
      else if (answer.headers.get('idempotency-replayed') === 'true') replayed += 1
    }
    return { retried: again.length, replayed, refused }
  }

  async #loop(publishes: boolean): Promise<void> {
    while (!this.#stopping) {
      const n = this.#next++
      if (publishes)
        this.#steps.set(n, { orderingKey: `key-${n % ORDERING_KEYS}`, beganAt: ++this.#moment, answeredAt: null })
      this.unanswered.add(n)
      const startedAt = performance.now()
      let failure: Pick<Failure, 'status' | 'code'> | null = null
      try {
        const { status, body } = await this.#post(n)
        if (status !== 201) failure = { status, code: body?.code ?? null }
      } catch {
        failure = { status: null, code: null }
      }
      if (failure === null) continue
      this.failures.push({ ...failure, tookMs: performance.now() - startedAt, atMs: performance.now() })
      // As any client does: not again at once.
      await new Promise((resolve) => setTimeout(resolve, PAUSE_AFTER_FAILURE_MS))
    }
  }

  async #post(n: number, at = n): Promise<Answer> {
    const { urls } = this.#target
    const url = urls[at % urls.length] as string
    const step = this.#steps.get(n)
    const answer = await (step === undefined ? this.#createUser(url, n) : this.#publish(url, n, step.orderingKey))
    if (answer.status === 201) {
      if (step !== undefined) step.answeredAt = ++this.#moment
      this.acknowledged.set(n, step === undefined ? answer.body.data.id : STEP_ID + n)
      this.unanswered.delete(n)
    }
    return answer
  }

  #createUser(url: string, n: number): Promise<Answer> {
    const body = { email: `user-${n}@example.com`, externalId: `load-${n}` }
    const headers = { 'idempotency-key': `load-${n}` }
    return call(url, 'POST', '/v1/users', { key: this.#target.key, body, headers })
  }

  #publish(url: string, n: number, orderingKey: string): Promise<Answer> {
    const data = { userId: STEP_ID + n }
    const body = { type: STEP, data, orderingKey, idempotencyKey: `load-${n}` }
    return call(url, 'POST', '/v1/events', { key: this.#target.key, body })
  }
}

/** What arrived at a receiver, in view of what was acknowledged. */
export interface CounterIncrement {
  /** Distinct pairs of event and endpoint. */
  delivered: number
  duplicates: number
  /** Acknowledged users whose event has not come to every endpoint. */
  missing: string[]
  /** Users with more than one event id. */
  twoEvents: number
  /** Events that an endpoint got after one with the same ordering key that was published only once they were acknowledged. */
  overtaking: string[]
  /** How many events came after one that they had to come after. */
  inOrder: number
}

/** Compares the first arrivals of each event with when it was published: events of overlapping calls have no order. */
function checkOrder(receiver: Receiver, load: UserLoad): Pick<CounterIncrement, 'overtaking' | 'inOrder'> {
  const seen = new Set<string>()
  /** What has come of each sequence: the latest beginning of a call, whose event it was, and the earliest answer. */
  const sequences = new Map<string, { beganAt: number; latest: string; answeredAt: number }>()
  const overtaking: string[] = []
  let inOrder = 0
  for (const { path, event } of receiver.received) {
    if (event.type !== STEP || seen.has(path + event.id)) continue
    seen.add(path + event.id)
    const id: string = event.data.userId
    const { orderingKey, beganAt, answeredAt } = load.stepOf(id)
    const answered = answeredAt ?? Number.POSITIVE_INFINITY
    const sequence = `${path} ${orderingKey}`
    const come = sequences.get(sequence) ?? { beganAt: 0, latest: '', answeredAt: Number.POSITIVE_INFINITY }
    if (come.beganAt > answered) overtaking.push(`${come.latest} before ${id} at ${sequence}`)
    else if (come.answeredAt < beganAt) inOrder += 1
    sequences.set(sequence, {
      ...(beganAt > come.beganAt ? { beganAt, latest: id } : { beganAt: come.beganAt, latest: come.latest }),
      answeredAt: Math.min(come.answeredAt, answered),
    })
  }
  return { overtaking, inOrder }
}

/** Counts arrivals of what the load caused, each once however often it is asked. Endpoints are told apart by their path. */
function newTally(receiver: Receiver, paths: readonly string[]) {
  const pathsOf = new Map<string, Set<string>>()
  const eventsOf = new Map<string, Set<string>>()
  let seen = 0
  let delivered = 0
  let duplicates = 0
  const add = (of: Map<string, Set<string>>, userId: string, value: string): boolean => {
    const values = of.get(userId) ?? new Set()
    const isNew = !values.has(value)
    of.set(userId, values.add(value))
    return isNew
  }
  return (load: UserLoad): CounterIncrement => {
    for (; seen < receiver.received.length; seen++) {
      const { path, event } = receiver.received[seen]!
      if (event.type !== 'user.created' && event.type !== STEP) continue
      if (add(pathsOf, event.data.userId, path)) delivered += 1
      else duplicates += 1
      add(eventsOf, event.data.userId, event.id)
    }
    return {
      delivered,
      duplicates,
      missing: [...load.acknowledged.values()].filter((id) => pathsOf.get(id)?.size !== paths.length),
      twoEvents: [...eventsOf.values()].filter((ids) => ids.size > 1).length,
      ...checkOrder(receiver, load),
    }
  }
}

/** Until every acknowledged user's event has come to every endpoint, or nothing has come for `quietMs`. */
export async function untilDelivered(
  receiver: Receiver,
  paths: readonly string[],
  load: UserLoad,
  quietMs: number,
): Promise<CounterIncrement> {
  const statusCounts = newTally(receiver, paths)
  let arrivals = 0
  let movedAt = performance.now()
  await eventually(
    'all deliveries',
    async () => {
      if (receiver.received.length > arrivals) movedAt = performance.now()
      arrivals = receiver.received.length
      const enough = arrivals >= load.acknowledged.size * paths.length
      const stalled = performance.now() - movedAt > quietMs
      return stalled || (enough && statusCounts(load).missing.length === 0)
    },
    DRAIN_MS,
  ).catch(() => {})
  return statusCounts(load)
}

/** Users by email, as the list shows them: those whose email fits. */
export async function listUsers(url: string, key: string, fits = /^user-/): Promise<Map<string, string[]>> {
  const byEmail = new Map<string, string[]>()
  for (let page = 1; ; page++) {
    const { status, body, text } = await call(url, 'GET', `/v1/users?page=${page}&page_size=100`, { key })
    if (status !== 200) throw new Error(`no list: ${status} ${text}`)
    for (const { email, id } of body.data) {
      if (fits.test(email)) byEmail.set(email, [...(byEmail.get(email) ?? []), id])
    }
    if (!body.hasMore) return byEmail
  }
}

/** Acknowledged users that the list does not show under their id. */
export function missingUsers(load: UserLoad, listed: Map<string, string[]>): string[] {
  return load
    .users()
    .filter(([n, id]) => !listed.get(`user-${n}@example.com`)?.includes(id))
    .map(([, id]) => id)
}

/** Subscribes so many endpoints of a receiver to new users and, with `ordered`, to events with ordering keys. @returns their paths */
export async function subscribe(
  url: string,
  key: string,
  receiver: Receiver,
  count: number,
  { ordered = false } = {},
): Promise<string[]> {
  const events = ordered ? ['user.created', STEP] : ['user.created']
  if (ordered) {
    const { status, text } = await call(url, 'POST', '/v1/event-types', { key, body: { name: STEP } })
    if (status !== 201) throw new Error(`no event type: ${status} ${text}`)
  }
  const paths = Array.from({ length: count }, (_, index) => `/endpoint-${index}`)
  for (const path of paths) {
    const { status, text } = await call(url, 'POST', '/v1/webhooks', {
      key,
      body: { url: receiver.url + path, events },
    })
    if (status !== 201) throw new Error(`no webhook: ${status} ${text}`)
  }
  return paths
}

export interface Settled extends CounterIncrement {
  /** Answers other than 201 to what was sent again. */
  refused: string[]
}

/** Sends again what got no answer, then waits for every acknowledged user's events. */
export async function settle(
  load: UserLoad,
  receiver: Receiver,
  paths: readonly string[],
  quietMs = QUIET_MS,
): Promise<Settled> {
  const { refused } = await load.retryUnanswered()
  const delivered = await untilDelivered(receiver, paths, load, quietMs)
  return { ...delivered, refused: refused.map(({ status, text }) => `${status} ${text}`) }
}

/** Events with ordering keys came in their order, and some had one. */
export function expectOrder({ overtaking, inOrder }: CounterIncrement): void {
  expect(overtaking).toEqual([])
  expect(inOrder).toBeGreaterThan(0)
}

/** What every fault must leave behind. */
export function expectNothingLost(load: UserLoad, listed: Map<string, string[]>, settled: Settled): void {
  expect(settled.refused).toEqual([])
  expect(load.unanswered.size).toBe(0)
  expect(missingUsers(load, listed)).toEqual([])
  // Answered at once or not: each call had its effect once.
  expect([...listed].filter(([, ids]) => ids.length > 1)).toEqual([])
  expect(listed.size).toBe(load.users().length)
  expect(settled.missing).toEqual([])
  expect(settled.twoEvents).toBe(0)
  expectOrder(settled)
}
