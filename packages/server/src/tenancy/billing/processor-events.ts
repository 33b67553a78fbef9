import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { failures } from '../../platform/http/errors.ts'
import type { PlainRequest } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { ProcessorError, type Subscription } from '../../platform/ports/payment-processor.ts'
import { lockPlan, setPlan } from '../tenant/service.ts'
import { periodAt, planInForce } from './plans.ts'
import { BILLING_ERRORS, callProcessor, processorOf } from './service.ts'
import * as store from './store.ts'
import { announce } from './usage.ts'

const fail = failures(BILLING_ERRORS)

/** Longer than the processor redelivers an event, automatically or by hand. */
const EVENTS_KEPT_MS = 30 * 86_400_000
const DELETED_MAX = 1_000
/** How often a state is requested if no event reports a change. */
const ASKED_AGAIN_MS = 24 * 3_600_000
const ASKED_MAX = 100
/** `takeOver` needs at most two. A third one would be a bug. */
const ROUNDS_MAX = 3

/** Stores the plan that a state gives, and publishes a change. In the transaction that stores the state. */
async function changePlan(tx: Db, deps: Deps, tenantId: Id<'ten'>, state: Subscription | null): Promise<void> {
  const stored = await lockPlan(tx, tenantId)
  if (stored === undefined) return
  const from = planInForce(stored, true)
  const to = state?.plan ?? 'free'
  if (from === to) return
  await setPlan(tx, tenantId, to, deps.now())
  const cause = { actor: 'processor' }
  await publish(tx, deps, { tenantId, appId: null, type: 'billing.plan_changed', data: { from, to }, cause })
  const account = (await store.findAccounts(tx, [tenantId])).get(tenantId)
  const { start } = periodAt(account?.subscribed ?? null, deps.now())
  // The same use is another percentage of the new quotas.
  await announce(tx, deps, await store.resetAnnounced(tx, tenantId, start))
}

/**
 * Stores a state that was requested at `read.version`, with an optimistic lock on the version: an older state never replaces
 * a newer one, in any order of events. Two versions after `first`, the version when the event came, the stored state was
 * requested after the event, and covers it. `id` is null if no event caused the request.
 * @returns false if the version has changed, and the state must be requested again
 */
async function takeOver(
  deps: Deps,
  event: { id: string | null; first: number; read: store.SubscriptionRow },
  state: Subscription | null,
): Promise<boolean> {
  return deps.db.tx(async (tx) => {
    const { tenant_id: tenantId, version } = event.read
    const row = await store.lockSubscription(tx, tenantId)
    if (row === undefined) return true
    const covered = row.version >= event.first + 2
    if (row.version !== version && !covered) return false
    const isFirst = event.id === null || (await store.takeEvent(tx, event.id, deps.now()))
    if (!isFirst || covered) return true
    await store.updateSubscription(tx, tenantId, state, deps.now())
    await changePlan(tx, deps, tenantId, state)
    return true
  })
}

/** @throws ProcessorError */
async function presentState(deps: Deps, customerId: string): Promise<Subscription | null> {
  const state = await processorOf(deps).presentSubscription(customerId)
  if (state !== null && state.plan === null && state.status === 'active')
    deps.log.warn({ subscription: state.id }, 'a paid subscription has a price that belongs to no plan')
  return state
}

/** Requests the current state after an event, and stores it. @throws processor_unavailable: the processor redelivers */
async function follow(deps: Deps, { id, customerId }: { id: string; customerId: string }): Promise<void> {
  let first: number | null = null
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    // Only by the customer, which was created for this tenant. Other fields of the event are ignored.
    const read = await store.findSubscriptionOf(deps.db, customerId)
    if (read === undefined || (await store.isTaken(deps.db, id))) return
    first ??= read.version
    const state = await callProcessor(deps, presentState(deps, customerId))
    await deps.failpoint('state asked')
    if (await takeOver(deps, { id, first, read }, state)) return
  }
  throw new Error('the state of a subscription was changed by others in every round')
}

/**
 * Verifies what the processor posts, and processes each event once. Other events than those about a tenant's plan are
 * accepted and ignored. @throws billing_not_configured, processor_signature_invalid, processor_unavailable
 */
export async function takeProcessorEvent(deps: Deps, { headers, body }: PlainRequest): Promise<void> {
  const signature = headers['stripe-signature']
  const event = processorOf(deps).readEvent(body, typeof signature === 'string' ? signature : '', deps.now())
  if (event === 'forged') throw fail('processor_signature_invalid')
  if (event !== null) await follow(deps, event)
}

/**
 * Requests states that were not requested for a day, in case an event was lost: the processor gives up after some days, and
 * sends none before its endpoint is set up. A failed request is repeated in the next run.
 * @returns whether there may be more to do now
 */
export async function reconcileSubscriptions(deps: Deps): Promise<boolean> {
  if (deps.payments === null) return false
  const rows = await store.findUnasked(deps.db, new Date(deps.now().getTime() - ASKED_AGAIN_MS), ASKED_MAX)
  let failed = false
  for (const read of rows)
    try {
      // If this returns false, another process has stored a state that is not older.
      await takeOver(deps, { id: null, first: read.version, read }, await presentState(deps, read.customer_id))
    } catch (error) {
      if (!(error instanceof ProcessorError)) throw error
      deps.log.warn(
        { tenantId: read.tenant_id, reason: error.message },
        'the state of a subscription could not be read',
      )
      failed = true
      // The others would fail the same way.
      if (error.passing) break
    }
  return !failed && rows.length === ASKED_MAX
}

/** Deletes events that will not be redelivered. @returns whether there may be more */
export async function deleteOldEvents(db: Db, now: Date): Promise<boolean> {
  return (await store.deleteEvents(db, new Date(now.getTime() - EVENTS_KEPT_MS), DELETED_MAX)) === DELETED_MAX
}
