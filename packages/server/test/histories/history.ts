import { sql } from '../../src/platform/db/db.ts'
import { checkEnd, checkNow } from './checks.ts'
import { type KnownEvent, Model } from './model.ts'
import { Network, type Send } from './network.ts'
import { createRandom, type Random } from './random.ts'
import { CAP, RETRY_DELAYS_MS, type Stage } from './stage.ts'
import { addHook, askForDeadLetters, nextStep, resume, type Step } from './steps.ts'
import { type SteppedWorker, settled, startWorker } from './worker.ts'

const STEPS_MIN = 50
const STEPS_MORE = 30
const HOOKS_MIN = 4
const HOOKS_MORE = 3
const ROUNDS_MAX = 60

/** What a history found. */
export interface Verdict {
  seed: number
  steps: number
  sends: number
  deliveries: number
  /** Empty if all promises were kept. */
  violations: string[]
  /** All that happened, for a person to read. */
  record: string[]
}

/** What is still to be done, and how much of it now. */
interface Left {
  open: number
  due: number
}

/** One random history: two workers, some webhooks of two tenants, and what happens to them. */
export class History {
  readonly random: Random
  readonly model = new Model()
  readonly network: Network
  readonly stage: Stage
  workers: SteppedWorker[] = []
  readonly record: string[] = []
  readonly violations: string[] = []
  /** How likely an endpoint fails. */
  failing: number
  readonly #lastOf = new Map<string, string>()
  /** Several steps run at once. */
  #racing = false

  constructor(stage: Stage, seed: number) {
    this.stage = stage
    this.random = createRandom(seed)
    this.failing = this.random.pick([0, 0.1, 0.3, 0.6])
    this.network = new Network(stage.nowMs)
    this.network.begun = (send) => this.#begun(send)
  }

  violated(what: string): void {
    if (this.violations.includes(what)) return
    this.violations.push(what)
    this.record.push(`VIOLATED: ${what}`)
  }

  /** An event was acknowledged. */
  published(event: KnownEvent): void {
    this.model.events.set(event.id, event)
    if (event.key === null) return
    const name = `${event.tenantId} ${event.key}`
    const last = this.#lastOf.get(name) ?? ''
    // Of two that are published at once, either may be first.
    if (!this.#racing && event.id < last)
      this.violated(`${event.id} sorts before ${last}, which has its key and was first`)
    if (event.id > last) this.#lastOf.set(name, event.id)
  }

  /** Moves the clock. Workers that run have beaten meanwhile. */
  async pass(ms: number): Promise<void> {
    await this.stage.pass(ms)
    for (const worker of this.workers) if (!worker.frozen) await worker.beat()
    this.#loseLeases()
  }

  /** Notes which deliveries another worker may be given by now. Real time counts too, on a machine that is busy. */
  #loseLeases(): void {
    for (const { id, beatAtMs } of this.workers) this.network.lose(id, this.stage.nowMs() - beatAtMs)
  }

  /** What must be true whenever a request begins. */
  #begun(send: Send): void {
    const { webhookId: path, eventId } = send
    this.record.push(`  send ${send.number}: ${eventId} to ${path}`)
    this.#loseLeases()
    const holding = this.network.open().filter((each) => each.webhookId === path && !each.mayBeLost)
    if (holding.length > CAP) this.violated(`${holding.length} requests at once to ${path}`)
    if (this.network.sends.some((each) => each.workerId === send.workerId && each.startedAtMs > send.startedAtMs))
      this.violated('the clock went back')
    const isExempt = this.model.exempt.has(`${path} ${eventId}`)
    for (const before of this.network.of(path, eventId)) {
      if (before === send || before.mayBeLost) continue
      const again = `send ${send.number} repeats send ${before.number}`
      if (before.stored === 'no') this.violated(`${again}, of which the outcome is not stored`)
      if (isExempt) continue
      if (before.status === 200) this.violated(`${again}, which succeeded`)
      else if (send.startedAtMs - before.storedAtMs < RETRY_DELAYS_MS[0]! && before.stored !== 'no')
        this.violated(`${again} before its delay was over`)
    }
  }

  /** One step, alone. A `quiet` one changes nothing that could be checked. */
  async #run({ name, run, quiet = false }: Step): Promise<void> {
    this.record.push(name)
    this.model.beginStep()
    this.#racing = name.includes('|')
    await run()
    await settled()
    // What became a dead letter beside the call may have been seen by it.
    for (const hook of this.model.recovered) await askForDeadLetters(this, hook)
    if (!quiet) await checkNow(this)
  }

  async #begin(): Promise<void> {
    this.workers = [await startWorker(this.stage, this.network), await startWorker(this.stage, this.network)]
    const count = HOOKS_MIN + this.random.below(HOOKS_MORE + 1)
    const [first, second] = this.stage.tenants
    for (let at = 0; at < count; at += 1) await addHook(this, (at % 3 === 2 ? second : first)!)
  }

  /** Each worker takes its turns once, both at the same time, and every request is answered. */
  async #round(broken: string | null): Promise<void> {
    const { workers, network } = this
    const both = (turn: 'beat' | 'fanOut' | 'claim' | 'flush') => Promise.all(workers.map((worker) => worker[turn]()))
    await both('beat')
    await both('fanOut')
    await both('claim')
    await settled()
    await checkNow(this)
    for (const send of network.open()) send.answer(send.webhookId === broken ? 500 : 200)
    await settled()
    await both('flush')
    await workers[0]!.upkeep()
  }

  async #left(): Promise<Left> {
    const [left] = await this.stage.engineDb.query<Left>(sql`
      select o.n + j.n + d.n as open, o.n + d.due as due from (select count(*)::int as n from outbox) o
      cross join (select count(*)::int as n from jobs where status in ('pending', 'running')) j
      cross join (
        select count(*)::int as n, count(*) filter (where next_at <= now() and lease_id is null)::int as due from deliveries) d`)
    return left as Left
  }

  /** Everything is resumed, and all endpoints but perhaps one answer, until nothing is left to do. */
  async #drain(): Promise<void> {
    const broken = this.random.chance(0.2) ? this.random.pick([...this.model.hooks.keys()]) : null
    for (const worker of this.workers) worker.frozen = false
    await this.#run({ name: 'drain', run: () => this.pass(61_000) })
    for (const hook of this.model.live()) await resume(this, hook)
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      await this.#run({ name: 'drain', run: () => this.#round(broken) })
      const left = await this.#left()
      if (left.open === 0) return
      if (left.due === 0) await this.pass(331_000)
    }
    this.violated('not everything is delivered in the end')
  }

  async run(): Promise<void> {
    await this.#begin()
    for (let left = STEPS_MIN + this.random.below(STEPS_MORE); left > 0; left -= 1) {
      const step = nextStep(this)
      await this.#run(step)
      if (this.violations.length > 0) return
    }
    await this.#drain()
    await checkEnd(this)
  }
}

/** Runs the history of a seed on a stage, and clears it. */
export async function runHistory(stage: Stage, seed: number): Promise<Verdict> {
  const history = new History(stage, seed)
  try {
    await history.run()
  } catch (error) {
    history.violated(`an error: ${error instanceof Error ? error.stack : String(error)}`)
  }
  for (const send of history.network.open()) send.answer(500)
  await settled()
  await stage.clear()
  const { violations, record, network, model } = history
  const deliveries = [...model.events.values()].reduce((sum, { receivers }) => sum + (receivers?.must.size ?? 0), 0)
  const steps = record.filter((line) => !line.startsWith(' ') && !line.startsWith('drain')).length
  return { seed, steps, sends: network.sends.length, deliveries, violations, record }
}
