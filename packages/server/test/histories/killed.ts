import { newType, ok } from '../../src/delivery/events/own-events.fixture.ts'
import { newSubscriber } from '../../src/delivery/subscribers/subscribers.fixture.ts'
import { eventually, type Service, startService, type Tenant } from '../harness/harness.ts'
import { type Receiver, startReceiver } from '../harness/receiver.ts'
import { DataFolder, type ServiceProcess, startProcess } from '../harness/service-process.ts'
import { createRandom, type Random } from './random.ts'

const TYPE = 'acme.step'
const COLOURS = ['red', 'green'] as const
const EVENTS_A_TENANT = 45
const DRAIN_MS = 60_000
/** A worker is dead after 15 s without a heartbeat. Of one that was killed, the clock is moved by this. */
const DEAD_SECONDS = 20
/** Delays that a test can wait for, and more of them than an endpoint of a history fails in a row. */
const DELAYS = Array(8).fill('200ms').join(',')
const ANSWER_MS_MAX = 25

/** A worker as a process, with its id in the database. */
interface Worker {
  id: string
  process: ServiceProcess
}

/** An API in this process, two workers as processes, and an endpoint. */
export interface KillStage {
  api: Service
  receiver: Receiver
  workers: Worker[]
  /** Kills a worker and has another started in its place. */
  kill(at: number): Promise<void>
  close(): Promise<void>
}

export async function openKillStage(): Promise<KillStage> {
  const api = await startService({ HALFKEY_ROLE: 'api' })
  const receiver = await startReceiver()
  const folder = new DataFolder()
  const known = new Set<string>()
  const env = folder.env({
    DATABASE_URL: api.databaseUrl,
    HALFKEY_DATA_DIR: api.dataDir,
    HALFKEY_ROLE: 'worker',
    HALFKEY_WEBHOOK_RETRY_DELAYS: DELAYS,
  })
  const start = async (): Promise<Worker> => {
    const process = await startProcess({ cwd: folder.path, env })
    const [row] = await api.sql<{ id: string }>('select id from workers where id <> all($1::text[])', [[...known]])
    known.add(row?.id as string)
    return { id: row?.id as string, process }
  }
  const workers = [await start(), await start()]
  return {
    api,
    receiver,
    workers,
    async kill(at) {
      const { id, process } = workers[at]!
      await process.kill()
      await api.sql(`update workers set heartbeat_at = heartbeat_at - $2 * interval '1 second' where id = $1`, [
        id,
        DEAD_SECONDS,
      ])
      workers[at] = await start()
    },
    async close() {
      await Promise.all(workers.map(({ process }) => process.kill()))
      await receiver.close()
      await folder.remove()
      await api.stop()
    },
  }
}

interface Endpoint {
  path: string
  id: string
  tenant: Tenant
  /** Its filter; null without one. */
  colour: string | null
  subscriberId: string | null
  includeSubscribers: boolean
}

interface Published {
  id: string
  tenant: Tenant
  key: string | null
  colour: string
  subscriberId: string | null
}

/** One history with real processes. */
class KilledHistory {
  readonly #stage: KillStage
  readonly #random: Random
  readonly #seed: number
  readonly #endpoints: Endpoint[] = []
  /** In the order in which they were acknowledged, which for each key is the order of publishing. */
  readonly #published: Published[] = []
  /** When each event first arrived at each endpoint, and when it was first answered with 200: places in one order of both. */
  readonly #firstAt = new Map<string, number>()
  readonly #succeededAt = new Map<string, number>()
  #arrived = 0
  #now = 0
  readonly violations: string[] = []

  constructor(stage: KillStage, seed: number) {
    this.#stage = stage
    this.#seed = seed
    this.#random = createRandom(seed)
  }

  async #subscribe(tenant: Tenant, more: Partial<Endpoint>): Promise<void> {
    const path = `/${this.#seed}-${this.#endpoints.length}`
    const endpoint = { path, tenant, colour: null, subscriberId: null, includeSubscribers: false, ...more }
    const { colour, subscriberId, includeSubscribers } = endpoint
    const filter = colour === null ? null : { path: 'data.colour', eq: colour }
    const url = this.#stage.receiver.url + path
    const body = { url, events: [TYPE], filter, subscriberId, includeSubscribers }
    const { id } = ok(await tenant.post('/webhooks', body), 201)
    this.#endpoints.push({ ...endpoint, id })
  }

  /** Some answers take a while, and one in ten is a failure. */
  #behave(): void {
    const random = createRandom(this.#seed + 1)
    this.#stage.receiver.behave(({ path, event }, response) => {
      const status = random.chance(0.1) ? 500 : 200
      const name = `${path} ${event.id}`
      this.#arrived += 1
      this.#note(this.#firstAt, name)
      setTimeout(() => {
        if (status === 200) this.#note(this.#succeededAt, name)
        response.writeHead(status).end()
      }, random.below(ANSWER_MS_MAX))
    })
  }

  #note(times: Map<string, number>, name: string): void {
    this.#now += 1
    if (!times.has(name)) times.set(name, this.#now)
  }

  /** Publishes events of one tenant, one call after the other. */
  async #publish(tenant: Tenant, subscribers: readonly string[], random: Random): Promise<void> {
    for (let left = EVENTS_A_TENANT; left > 0; ) {
      const bodies = Array.from({ length: Math.min(left, random.chance(0.2) ? 5 : 1) }, () => ({
        type: TYPE,
        data: { colour: random.pick(COLOURS) },
        ...(random.chance(0.75) ? { orderingKey: random.pick(['a', 'b', 'c']) } : {}),
        ...(random.chance(0.4) ? { subscriberId: random.pick(subscribers) } : {}),
      }))
      left -= bodies.length
      const { events } = ok(await tenant.post('/events/batch', { events: bodies }), 201)
      bodies.forEach(({ data, orderingKey: key = null, subscriberId = null }, at) => {
        this.#published.push({ id: events[at].id, tenant, key, colour: data.colour, subscriberId })
      })
    }
  }

  async #killWhile(load: Promise<unknown>): Promise<void> {
    const random = this.#random
    for (let kills = random.chance(0.2) ? 2 : 1; kills > 0; kills -= 1) {
      const wanted = this.#arrived + 1 + random.below(60)
      const [enough] = await Promise.race([
        eventually('sends before the kill', async () => this.#arrived >= wanted && [true], DRAIN_MS),
        load.then(() => [true]),
      ])
      if (enough) await this.#stage.kill(random.below(2))
    }
  }

  async #drained(tenants: readonly Tenant[]): Promise<void> {
    const ids = tenants.map(({ tenantId }) => tenantId)
    await eventually(
      'all has ended',
      async () => {
        const [left] = await this.#stage.api.sql<{ n: number }>(
          `select ((select count(*) from outbox where tenant_id = any($1)) + (select count(*) from deliveries where tenant_id = any($1)))::int as n`,
          [ids],
        )
        return left?.n === 0
      },
      DRAIN_MS,
    )
  }

  #gets(endpoint: Endpoint, event: Published): boolean {
    if (endpoint.tenant !== event.tenant || (endpoint.colour !== null && endpoint.colour !== event.colour)) return false
    if (endpoint.subscriberId !== null) return endpoint.subscriberId === event.subscriberId
    return event.subscriberId === null || endpoint.includeSubscribers
  }

  #check(): void {
    const known = new Set<string>()
    for (const endpoint of this.#endpoints) {
      const last = new Map<string, string>()
      for (const event of this.#published) {
        const name = `${endpoint.path} ${event.id}`
        if (!this.#gets(endpoint, event)) continue
        known.add(name)
        if (!this.#succeededAt.has(name)) this.violations.push(`${name} is lost`)
        if (event.key === null) continue
        const ahead = last.get(event.key)
        if (ahead !== undefined && this.#firstAt.get(name)! < this.#succeededAt.get(ahead)!)
          this.violations.push(`${name} came before ${ahead} was delivered`)
        last.set(event.key, name)
      }
    }
    for (const name of this.#firstAt.keys()) if (!known.has(name)) this.violations.push(`${name} was not to arrive`)
  }

  async run() {
    const { api } = this.#stage
    this.#behave()
    const tenants = [await api.newTenant(), await api.newTenant()]
    const subscribers = new Map<Tenant, string[]>()
    for (const tenant of tenants) {
      await newType(tenant, TYPE)
      const [ada, bob] = [await newSubscriber(tenant), await newSubscriber(tenant)]
      subscribers.set(tenant, [ada, bob])
      await this.#subscribe(tenant, {})
      await this.#subscribe(tenant, { colour: this.#random.pick(COLOURS), includeSubscribers: true })
      await this.#subscribe(tenant, { subscriberId: ada })
    }
    const load = Promise.all(
      tenants.map((tenant, at) => this.#publish(tenant, subscribers.get(tenant)!, createRandom(this.#seed + 2 + at))),
    )
    await Promise.all([load, this.#killWhile(load)])
    await this.#drained(tenants)
    this.#check()
    const repeats = this.#arrived - this.#firstAt.size
    return { violations: this.violations, events: this.#published.length, arrived: this.#arrived, repeats }
  }
}

/** Runs the history of a seed. Its choices are the seed's; when a process is killed, the machine's. */
export const runKilledHistory = (stage: KillStage, seed: number) => new KilledHistory(stage, seed).run()
