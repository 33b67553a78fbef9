import { publicUrl } from '../../platform/config.ts'
import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { isMarked } from '../../platform/security/records/access.ts'
import type { NoticePurpose } from '../emails/schema.ts'
import { queueEmail, sealEmail } from '../emails/service.ts'
import { findAnyUser } from '../users/service.ts'
import { cancelPending, cancelToken } from './cancel.ts'
import * as store from './store.ts'

const HOUR_MS = 3_600_000
/** How long before the end of the wait the owner is reminded. */
const REMINDER_MS = 13 * HOUR_MS
/** What is left at least: a reminder that comes later than this moves the end. */
const LEFT_MS = 12 * HOUR_MS
/** How soon the first notice comes where a worker runs. */
const PROMPT_MS = HOUR_MS
/** How long a notice of something that is over is of use. */
const COMPLETED_MS = 24 * HOUR_MS
const PORTION = 20
/** After a step that failed. */
const RETRY_MS = 60_000

/** What a worker does next with a recovery. */
type Step = NoticePurpose | 'expire'

function stepOf(row: store.RecoveryRow): Step {
  if (row.status === 'completed') return 'recovery_completed'
  if (row.told_at === null) return 'recovery_requested'
  return row.reminded_at === null ? 'recovery_reminder' : 'expire'
}

/** The recovery with a later end. */
const moved = (row: store.RecoveryRow, byMs: number): store.RecoveryRow => ({
  ...row,
  available_at: new Date(row.available_at.getTime() + byMs),
  expires_at: new Date(row.expires_at.getTime() + byMs),
})

/**
 * The recovery after a notice. One that comes late, after a time without a worker or a leap of the clock, moves the end: the
 * whole wait is left after the first one, and half a day after the second.
 */
function told(before: store.RecoveryRow, step: Step, now: Date): store.RecoveryRow {
  if (step === 'recovery_completed') return { ...before, due_at: null, updated_at: now }
  if (step === 'recovery_requested') {
    const lateMs = now.getTime() - before.created_at.getTime()
    const row = moved(before, lateMs > PROMPT_MS ? lateMs : 0)
    const due_at = new Date(row.available_at.getTime() - REMINDER_MS)
    return { ...row, told_at: now, due_at, updated_at: now }
  }
  const row = moved(before, Math.max(0, now.getTime() + LEFT_MS - before.available_at.getTime()))
  return { ...row, reminded_at: now, due_at: row.expires_at, updated_at: now }
}

/** The page on which the reader of a notice stops the recovery. Opening it does nothing: programs open links too. */
async function cancelUrl(deps: Deps, row: store.RecoveryRow): Promise<string> {
  const page = new URL(`/signin?app=${row.app_id}`, publicUrl(deps.config)).href
  return `${page}#cancel_recovery=${await cancelToken(deps, row.tenant_id, row.id)}`
}

async function tell(
  tx: Db,
  deps: Deps,
  row: store.RecoveryRow,
  step: NoticePurpose,
  email: Awaited<ReturnType<typeof sealEmail>>,
) {
  const user = await findAnyUser(tx, row.tenant_id, row.user_id)
  if (user?.email != null)
    await queueEmail(tx, deps, email, {
      tenantId: row.tenant_id,
      appId: row.app_id,
      userId: row.user_id,
      address: user.email,
      purpose: step,
      language: row.language,
      expiresAt: step === 'recovery_completed' ? new Date(deps.now().getTime() + COMPLETED_MS) : row.available_at,
      skipped: false,
    })
  if (step !== 'recovery_reminder') return
  const data = { userId: row.user_id, recoveryId: row.id, availableAt: row.available_at.toISOString() }
  await publish(tx, deps, eventOf(row, 'user.recovery_reminder', data, undefined))
}

async function goOn(deps: Deps, seen: store.RecoveryRow): Promise<void> {
  const now = deps.now()
  const step = stepOf(seen)
  const of = { tenantId: seen.tenant_id, userId: seen.user_id, id: seen.id }
  if (step === 'expire') {
    await deps.db.tx((tx) => cancelPending(tx, deps, of, null))
    return
  }
  const next = told(seen, step, now)
  const link = step === 'recovery_completed' ? null : await cancelUrl(deps, seen)
  // Sealed before the transaction: the key provider may be on the network.
  const email = await sealEmail(deps, seen.tenant_id, { code: null, link, at: next.available_at.toISOString() })
  const isTampered = await deps.db.tx(async (tx) => {
    const row = await store.lockDue(tx, seen, now)
    if (row === undefined || stepOf(row) !== step) return false
    if (isMarked(row) && row.status === 'pending') return true
    const stored = await store.storeRecovery(tx, told(row, step, now))
    await tell(tx, deps, stored, step, email)
    return false
  })
  if (isTampered) await deps.db.tx((tx) => cancelPending(tx, deps, of, 'tampered'))
}

/** Sends the notices that are due, and ends what nobody came for. @returns whether there may be more */
export async function sendNotices(deps: Deps): Promise<boolean> {
  const due = await store.listDue(deps.db, deps.now(), PORTION)
  for (const row of due) {
    try {
      await goOn(deps, row)
    } catch (error) {
      deps.log.error({ err: error, recoveryId: row.id }, 'a recovery could not go on')
      await store.postpone(deps.db, row, new Date(deps.now().getTime() + RETRY_MS))
    }
  }
  return due.length === PORTION
}
