// Emits events as the service does, by core's publish() in one statement each, without the request around it: POST
// /users would take the CPU that the engine is to be measured with.

import type { Connection } from '../../src/platform/db/connection.ts'
import type { Database } from '../../src/platform/db/db.ts'
import { openDatabase } from '../../src/platform/db/pool.ts'
import { type Publisher, publish } from '../../src/platform/events/events.ts'
import { createNotifier } from '../../src/platform/events/signal.ts'
import { type Id, newId } from '../../src/platform/ids.ts'
import { openLog } from '../../src/platform/observability/log.ts'
import { pause, spread } from '../figures.ts'
import { serveCalls } from './serve-calls.ts'

export interface Emission {
  tenantId: string
  /** Events go to these apps in turn. */
  appIds: string[]
  forMs: number
  /** Emit as fast as may be with so many undelivered, … */
  window?: number
  /** … or so many a second, whatever becomes of them. */
  perSecond?: number
}

export interface Emitted {
  count: number
  failed: number
  fromMs: number
  toMs: number
  publishMs: ReturnType<typeof spread>
  /** Open loop: how far the schedule was behind at worst. */
  latestMs: number
}

const CONNECTIONS = 8
const TICK_MS = 5

const { log } = openLog('error')
let db: Database
let publisher: Publisher
let delivered = 0

function open(connection: Connection): void {
  db = openDatabase({ connection, connectionsMax: CONNECTIONS, applicationName: 'bench emitter', log })
  publisher = { now: () => new Date(), wake: { outbox: () => notify('outbox') } }
  const notify = createNotifier(db, log)
}

class Run {
  count = 0
  failed = 0
  latestMs = 0
  readonly durations: number[] = []
  readonly #emission: Emission

  constructor(emission: Emission) {
    this.#emission = emission
  }

  async emit(): Promise<void> {
    const { tenantId, appIds } = this.#emission
    const appId = appIds[this.count % appIds.length] as Id<'app'>
    const userId = newId('usr')
    this.count += 1
    const startedAt = performance.now()
    const data = {
      userId,
      email: `emitted-${this.count}@example.com`,
      partyId: `${userId}::1220123087e6bf66d225d047e6af8b0944bc50cc470cb46afd9515a558bf55605441`,
    }
    try {
      await publish(db, publisher, { tenantId: tenantId as Id<'ten'>, appId, type: 'user.created', data })
      this.durations.push(performance.now() - startedAt)
    } catch {
      this.count -= 1
      this.failed += 1
    }
  }

  async closedLoop(endsAt: number, window: number): Promise<void> {
    const one = async () => {
      while (performance.now() < endsAt) {
        if (this.count - delivered >= window) await pause(2)
        else await this.emit()
      }
    }
    await Promise.all(Array.from({ length: CONNECTIONS }, one))
  }

  async openLoop(startedAt: number, endsAt: number, perSecond: number): Promise<void> {
    const open = new Set<Promise<void>>()
    let due = 0
    for (let now = performance.now(); now < endsAt; now = performance.now()) {
      const wanted = Math.floor(((now - startedAt) / 1000) * perSecond)
      if (wanted > due) this.latestMs = Math.max(this.latestMs, ((wanted - due) / perSecond) * 1000)
      for (; due < wanted; due += 1) {
        const emission = this.emit().finally(() => open.delete(emission))
        open.add(emission)
      }
      await pause(TICK_MS)
    }
    await Promise.all(open)
  }
}

async function emit(emission: Emission): Promise<Emitted> {
  delivered = 0
  const run = new Run(emission)
  const fromMs = Date.now()
  const startedAt = performance.now()
  const endsAt = startedAt + emission.forMs
  if (emission.window !== undefined) await run.closedLoop(endsAt, emission.window)
  else await run.openLoop(startedAt, endsAt, emission.perSecond ?? 1)
  const { count, failed, latestMs, durations } = run
  return { count, failed, fromMs, toMs: fromMs + emission.forMs, publishMs: spread(durations), latestMs }
}

serveCalls({
  open,
  emit,
  delivered(n: number) {
    delivered = n
  },
})
