const DAY_MS = 86_400_000

/** The lifetimes that the form offers. */
export const LIFETIMES = [
  { value: 'never', label: 'Never' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
  { value: 'date', label: 'On a date' },
] as const
export type Lifetime = (typeof LIFETIMES)[number]['value']

/**
 * When a key expires, in the API's format; null for never. A date ends at midnight in this browser's time zone.
 * Undefined if the date is missing.
 */
export function expiryOf(lifetime: Lifetime, date: string, nowMs: number): string | null | undefined {
  if (lifetime === 'never') return null
  if (lifetime !== 'date') return new Date(nowMs + Number(lifetime) * DAY_MS).toISOString()
  const end = new Date(`${date}T23:59:59`)
  return Number.isNaN(end.getTime()) ? undefined : end.toISOString()
}
