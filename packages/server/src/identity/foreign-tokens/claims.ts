import type { MfaClaim } from '../../tenancy/apps/issuers/schema.ts'

type Claims = Readonly<Record<string, unknown>>

const own = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Claims)[name] : undefined

/** A claim by its name or, from a slash on, by its JSON Pointer (RFC 6901, section 4). */
export function claimAt(claims: Claims, place: string | null): unknown {
  if (place === null) return undefined
  if (!place.startsWith('/')) return own(claims, place)
  const names = place
    .slice(1)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  return names.reduce(own, claims as unknown)
}

const CONTROL = /[\p{Cc}\p{Cf}]/u

/** A claim as text that can be stored: without control and format characters; undefined for any other. */
export function textAt(claims: Claims, place: string | null, charsMax: number): string | undefined {
  const value = claimAt(claims, place)
  if (typeof value !== 'string' || value.trim() === '' || value.length > charsMax) return undefined
  return CONTROL.test(value) || !value.isWellFormed() ? undefined : value
}

/** Whether the claim says that a second factor was verified. */
export function saysMfa(claims: Claims, wanted: MfaClaim | null): boolean {
  if (wanted === null) return false
  const value = claimAt(claims, wanted.claim)
  return [value].flat().some((one) => typeof one === 'string' && wanted.values.includes(one))
}
