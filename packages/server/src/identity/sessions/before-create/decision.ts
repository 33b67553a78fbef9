import { z } from 'zod'

/** A code for the app's own pages, never a text for people: they would read it on a page that is not its author's. */
const REASON = /^[a-z][a-z0-9_]{0,63}$/

const Answer = z.discriminatedUnion('decision', [
  z.object({ decision: z.literal('allow') }),
  z.object({ decision: z.literal('refuse'), reason: z.string().regex(REASON).nullable().optional() }),
])

export type Decision = { allowed: true } | { allowed: false; reason: string | null }

/**
 * The decision in an answer: `{"decision": "allow"}`, or `{"decision": "refuse", "reason": "region_blocked"}`. Null for anything else:
 * silence is no permission. A refusal counts even if its reason is not a code.
 */
export function readDecision(answer: Buffer): Decision | null {
  let value: unknown
  try {
    value = JSON.parse(answer.toString())
  } catch {
    return null
  }
  const { data } = Answer.safeParse(value)
  if (data === undefined) return refusesAtLeast(value) ? { allowed: false, reason: null } : null
  return data.decision === 'allow' ? { allowed: true } : { allowed: false, reason: data.reason ?? null }
}

const refusesAtLeast = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && (value as { decision?: unknown }).decision === 'refuse'
