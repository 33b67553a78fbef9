import { createHash } from 'node:crypto'
import { type Id, idTime } from '../../platform/ids.ts'

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'
const PLACE_CHARS = 10
const CHECK_CHARS = 6
const FORM = new RegExp(`^cur_([0-9a-hjkmnp-tv-z]{${PLACE_CHARS}})([0-9a-f]{${CHECK_CHARS}})$`)

/** Tells a cursor of another tenant's feed, or one with a typo, from ours. No secret: nothing is guarded by it. */
const check = (tenantId: Id<'ten'>, place: string) =>
  createHash('sha256').update(`${tenantId} ${place}`).digest('hex').slice(0, CHECK_CHARS)

/** A place in a tenant's feed as its readers hold it; those of one feed sort as text. */
export function toCursor(tenantId: Id<'ten'>, seq: number): string {
  const place = idTime(seq)
  return `cur_${place}${check(tenantId, place)}`
}

/** The place that a cursor of this tenant's feed names; null for any other text. */
export function readCursor(tenantId: Id<'ten'>, text: string): number | null {
  const [, place, given] = FORM.exec(text) ?? []
  if (place === undefined || given !== check(tenantId, place)) return null
  const seq = [...place].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0)
  return seq <= Number.MAX_SAFE_INTEGER ? seq : null
}
