import { publishEvents } from '../../src/delivery/events/publish.ts'
import { startBulk } from '../../src/delivery/webhooks/bulk.ts'
import { retryDelivery } from '../../src/delivery/webhooks/deliveries.ts'
import { recoverDeadLetters } from '../../src/delivery/webhooks/recover.ts'
import { createWebhook, deleteWebhook, updateWebhook } from '../../src/delivery/webhooks/service.ts'
import { HttpError } from '../../src/platform/http/errors.ts'
import type { History } from './history.ts'
import type { Hook } from './model.ts'
import { type StageTenant, TYPES } from './stage.ts'
import { startWorker } from './worker.ts'

const COLOURS = ['red', 'green'] as const
const KEYS = ['a', 'b'] as const
const SUBSCRIPTIONS = [['acme.*'], ['acme.step'], ['acme.note'], ['*']] as const
const WAITS_MS = [1_000, 14_500, 61_000, 400_000, 1_860_000]
/** What a caller may be told who is late: the webhook is gone or disabled, or the delivery is. */
const REFUSALS = ['not_found', 'webhook_disabled', 'delivery_not_retryable', 'rate_limited']

/** One thing that happens. Its choices are made before it runs, so that they do not depend on what runs beside it. */
export interface Step {
  /** For the record of a history. */
  name: string
  run(): Promise<void>
  /** It changes nothing that is checked. */
  quiet?: boolean
}

type MakeStep = (history: History) => Step

/** Whether the call had its effect. */
async function allowed(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (error instanceof HttpError && REFUSALS.includes(error.code)) return false
    throw error
  }
}

const filterOf = (colour: string | null) => (colour === null ? null : { path: 'data.colour', eq: colour })

/** Makes a webhook: of the tenant, of an app or of a subscriber, with or without a filter. */
export async function addHook({ random, stage, model }: History, tenant: StageTenant): Promise<void> {
  const path = `hook-${model.hooks.size}`
  const kind = random.pick(['tenant', 'tenant', 'app', 'subscriber', 'including'] as const)
  const appId = kind === 'app' ? random.pick(tenant.apps) : kind === 'subscriber' ? (tenant.apps[0] as string) : null
  const subscriberId = kind === 'subscriber' ? random.pick(tenant.subscribers) : null
  const events = [...random.pick(SUBSCRIPTIONS)]
  const colour = random.chance(0.4) ? random.pick(COLOURS) : null
  const includeSubscribers = kind === 'including'
  const url = `https://endpoints.test/${path}`
  const input = { url, events, filter: filterOf(colour), appId, subscriberId, includeSubscribers }
  const { id } = await createWebhook(stage.deps, tenant.call, input)
  const scope = { tenant, appId, subscriberId, includeSubscribers }
  model.hooks.set(path, { id, path, ...scope, events, colour, status: 'active', deleted: false })
  model.changed()
}

const publish: MakeStep = (history) => {
  const { random, stage } = history
  const tenant = random.pick(stage.tenants)
  const inputs = Array.from({ length: random.chance(0.3) ? 2 + random.below(3) : 1 }, () => {
    const appId = random.pick(tenant.apps)
    const isOfSubscriber = appId === tenant.apps[0] && random.chance(0.3)
    return {
      type: random.pick(TYPES),
      data: { colour: random.pick(COLOURS) },
      appId,
      ...(random.chance(0.7) ? { orderingKey: random.pick(KEYS) } : {}),
      ...(isOfSubscriber ? { subscriberId: random.pick(tenant.subscribers) } : {}),
    }
  })
  return {
    name: `publish ${inputs.map(({ orderingKey, subscriberId }) => (orderingKey ?? '-') + (subscriberId ? 's' : '')).join(' ')}`,
    quiet: true,
    async run() {
      const made = await publishEvents(stage.deps, tenant.call, inputs, (at, name) => `events.${at}.${name}`)
      made.forEach(({ id, type }, at) => {
        const { appId, subscriberId = null, orderingKey: key = null, data } = inputs[at] as (typeof inputs)[number]
        const { tenantId } = tenant.call.caller
        const shared = { id, tenantId, appId, subscriberId, type, key, colour: data.colour }
        history.published({ ...shared, about: null, receivers: null })
      })
    },
  }
}

/** A turn of one of the workers. A frozen one does nothing. */
const turn =
  (name: 'fanOut' | 'claim' | 'flush' | 'upkeep' | 'beat'): MakeStep =>
  (history) => {
    const at = history.random.below(history.workers.length)
    return {
      name: `${name} ${'AB'[at]}`,
      async run() {
        const worker = history.workers[at]!
        if (!worker.frozen) await worker[name]()
      },
    }
  }

const answer: MakeStep = (history) => {
  const { random, network } = history
  const choices = Array.from({ length: 1 + random.below(5) }, () => ({
    at: random.below(1_000),
    fails: random.chance(history.failing),
  }))
  return {
    name: `answer ${choices.map(({ fails }) => (fails ? 500 : 200)).join(' ')}`,
    quiet: true,
    async run() {
      for (const { at, fails } of choices) {
        const open = network.open()
        open[at % Math.max(1, open.length)]?.answer(fails ? 500 : 200)
      }
    },
  }
}

const wait: MakeStep = (history) => {
  const ms = history.random.pick(WAITS_MS)
  return { name: `${ms} ms pass`, quiet: true, run: () => history.pass(ms) }
}

/** A change of a live webhook, if there is one. */
const onHook =
  (name: string, make: (history: History, hook: Hook) => () => Promise<void>): MakeStep =>
  (history) => {
    const live = history.model.live()
    if (live.length === 0) return { name, quiet: true, run: async () => {} }
    const hook = history.random.pick(live)
    return { name: `${name} ${hook.path}`, quiet: true, run: make(history, hook) }
  }

/** Changes a webhook in the model, if the call changed the real one. */
async function change({ model }: History, hook: Hook, by: Partial<Hook>, call: () => Promise<unknown>): Promise<void> {
  if (!(await allowed(call))) return
  Object.assign(hook, by)
  model.changed()
}

const update = (history: History, hook: Hook, by: Partial<Hook>, input: Parameters<typeof updateWebhook>[3]) => () =>
  change(history, hook, by, () => updateWebhook(history.stage.deps, hook.tenant.call, hook.id, input))

const pauseOrResume = onHook('pause or resume', (history, hook) => async () => {
  const status = hook.status === 'active' ? 'paused' : 'active'
  await update(history, hook, { status }, { status })()
})

/** Sets a webhook to active, also one that was disabled. */
export const resume = (history: History, hook: Hook) =>
  change(history, hook, { status: 'active' }, () =>
    updateWebhook(history.stage.deps, hook.tenant.call, hook.id, { status: 'active' }),
  )

const resumeOne = onHook('resume', (history, hook) => () => resume(history, hook))

const changeFilter = onHook('filter of', (history, hook) => {
  const colour = history.random.chance(0.4) ? null : history.random.pick(COLOURS)
  return update(history, hook, { colour }, { filter: filterOf(colour) })
})

const changeEvents = onHook('events of', (history, hook) => {
  const events = [...history.random.pick(SUBSCRIPTIONS)]
  return update(history, hook, { events }, { events })
})

const remove = onHook('delete', (history, hook) => async () => {
  const call = () => deleteWebhook(history.stage.deps, hook.tenant.call, hook.id)
  await change(history, hook, { deleted: true }, call)
})

/** As if the workers of what is being sent had died nine times: the next loss is the last. */
const wearOut = onHook('nine losses at', (history, hook) => async () => {
  await history.stage.sql('update deliveries set leases_lost = 9 where webhook_id = $1 and lease_id is not null', [
    hook.id,
  ])
})

const retry = onHook('retry at', (history, hook) => {
  const at = history.random.below(1_000)
  const { stage, model } = history
  return async () => {
    const rows = await stage.sql<{ id: string; event_id: string }>(
      `select id, event_id from deliveries where webhook_id = $1 union all
       select id, event_id from deliveries_done where webhook_id = $1 order by event_id`,
      [hook.id],
    )
    const row = rows[at % Math.max(1, rows.length)]
    if (row === undefined) return
    model.exempt.add(`${hook.path} ${row.event_id}`)
    await allowed(() => retryDelivery(stage.deps, hook.tenant.call, hook.id, row.id))
  }
})

/**
 * Notes that somebody asked for a webhook's dead letters, and for no other delivery of it: those that are there, and those
 * that a job of the same step has taken up already.
 */
export async function askForDeadLetters({ stage, model }: History, hook: Hook): Promise<void> {
  const rows = await stage.sql<{ event_id: string }>(
    `select event_id from deliveries_done where webhook_id = $1 and status = 'dead_letter' union all
     select event_id from deliveries where webhook_id = $1 and cycle > 0`,
    [hook.id],
  )
  for (const { event_id } of rows) model.exempt.add(`${hook.path} ${event_id}`)
}

const recover = onHook('recover', (history, hook) => {
  const inBulk = history.random.chance(0.3)
  const { stage, model } = history
  const { call } = hook.tenant
  const start = () =>
    inBulk
      ? startBulk(stage.deps, call, hook.id, { action: 'retry', filter: {} })
      : recoverDeadLetters(stage.deps, call, hook.id, '2026-01-01T00:00:00Z')
  return async () => {
    if (!(await allowed(start))) return
    stage.hasJobs = true
    model.recovered.add(hook)
    await askForDeadLetters(history, hook)
  }
})

/** A worker ends and another takes its place: without warning, or asked to. */
const replace =
  (name: 'kill' | 'stop'): MakeStep =>
  (history) => {
    const at = history.random.below(history.workers.length)
    return {
      name: `${name} ${'AB'[at]}`,
      async run() {
        const before = history.workers[at]!
        if (name === 'stop' && !before.frozen) await before.stop()
        history.network.end(before.id)
        history.workers[at] = await startWorker(history.stage, history.network)
      },
    }
  }

const freezeOrThaw: MakeStep = (history) => {
  const at = history.random.below(history.workers.length)
  return {
    name: `freeze or thaw ${'AB'[at]}`,
    quiet: true,
    async run() {
      const worker = history.workers[at]!
      worker.frozen = !worker.frozen
    },
  }
}

/** What may happen at the same time as something else. */
const AT_ONCE: readonly (readonly [number, MakeStep])[] = [
  [4, publish],
  [6, turn('fanOut')],
  [6, turn('claim')],
  [6, turn('flush')],
  [3, turn('upkeep')],
  [1, retry],
  [1, recover],
  [1, pauseOrResume],
  [1, changeFilter],
  [1, changeEvents],
  [0.3, remove],
]

/** Two or three steps that begin together, and are raced by the database. */
const atOnce: MakeStep = (history) => {
  const steps = new Map<string, Step>()
  for (let count = 2 + history.random.below(2); count > 0; count -= 1) {
    const step = history.random.weighted(AT_ONCE)(history)
    // The same turn of the same worker never runs twice at once.
    steps.set(step.name, step)
  }
  return {
    name: [...steps.keys()].join(' | '),
    async run() {
      await Promise.all([...steps.values()].map((step) => step.run()))
    },
  }
}

const STEPS: readonly (readonly [number, MakeStep])[] = [
  [10, publish],
  [8, turn('fanOut')],
  [8, turn('claim')],
  [14, answer],
  [8, turn('flush')],
  [3, turn('upkeep')],
  [1, turn('beat')],
  [6, wait],
  [2, retry],
  [1, wearOut],
  [1, recover],
  [2, pauseOrResume],
  [2, resumeOne],
  [1.5, changeFilter],
  [1, changeEvents],
  [0.4, remove],
  [0.8, replace('kill')],
  [0.4, replace('stop')],
  [1, freezeOrThaw],
  [22, atOnce],
]

/** What happens next. */
export const nextStep = (history: History): Step => history.random.weighted(STEPS)(history)
