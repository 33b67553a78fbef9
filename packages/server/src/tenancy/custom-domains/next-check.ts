import type { DomainRow } from './store.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/** A verified domain fails after its record has been missing for so long. */
const MISSING_MS_MAX = 72 * HOUR_MS
/** When a verified domain is checked again: after a find, while its record is missing, while there is no answer. */
const FOUND_AGAIN_MS = DAY_MS
const MISSING_AGAIN_MS = HOUR_MS
const UNANSWERED_AGAIN_MS = 10 * MINUTE_MS
/** A pending domain is checked after a minute, and then at intervals of its age, within these limits. */
const PENDING_AGAIN_MS_MIN = MINUTE_MS
const PENDING_AGAIN_MS_MAX = 6 * HOUR_MS
/** After that, only its owner starts a check. */
const PENDING_MS_MAX = 7 * DAY_MS

/** The outcome of a lookup. `taken`: found, but another tenant has verified the domain. */
export type DomainCheck = 'found' | 'missing' | 'unanswered' | 'taken'

const ERRORS = {
  found: null,
  missing: 'dns_record_missing',
  unanswered: 'dns_unavailable',
  taken: 'domain_taken',
} as const satisfies Record<DomainCheck, DomainRow['error']>

/** When a new domain is first checked without a request. */
export const firstCheckAt = (now: Date): Date => new Date(now.getTime() + PENDING_AGAIN_MS_MIN)

function nextCheckOfPending(row: DomainRow, now: Date): Date | null {
  const ageMs = now.getTime() - row.created_at.getTime()
  if (ageMs >= PENDING_MS_MAX) return null
  return new Date(now.getTime() + Math.min(PENDING_AGAIN_MS_MAX, Math.max(PENDING_AGAIN_MS_MIN, ageMs)))
}

function nextCheckOfVerified(look: DomainCheck, missingSince: Date | null, now: Date): Date {
  if (look === 'found') return new Date(now.getTime() + FOUND_AGAIN_MS)
  const again = now.getTime() + (look === 'missing' ? MISSING_AGAIN_MS : UNANSWERED_AGAIN_MS)
  if (missingSince === null) return new Date(again)
  // Checked exactly when it fails, not up to an hour later.
  const failsAt = missingSince.getTime() + MISSING_MS_MAX
  return new Date(failsAt > now.getTime() ? Math.min(again, failsAt) : again)
}

/**
 * A domain after a lookup of its record. Only a record that is known to be missing counts against it: a lookup without
 * an answer changes nothing.
 */
export function afterCheck(row: DomainRow, look: DomainCheck, now: Date): DomainRow {
  const looked = { ...row, error: ERRORS[look], last_checked_at: now, updated_at: now }
  if (look === 'found') {
    const verifiedAt = row.status === 'verified' ? row.verified_at : now
    const nextCheckAt = nextCheckOfVerified(look, null, now)
    return { ...looked, status: 'verified', verified_at: verifiedAt, missing_since: null, next_check_at: nextCheckAt }
  }
  if (row.status !== 'verified')
    return { ...looked, next_check_at: row.status === 'pending' ? nextCheckOfPending(row, now) : null }
  const missingSince = look === 'missing' ? (row.missing_since ?? now) : row.missing_since
  if (look === 'missing' && missingSince !== null && now.getTime() - missingSince.getTime() >= MISSING_MS_MAX)
    return { ...looked, status: 'failed', missing_since: missingSince, next_check_at: null }
  return { ...looked, missing_since: missingSince, next_check_at: nextCheckOfVerified(look, missingSince, now) }
}
