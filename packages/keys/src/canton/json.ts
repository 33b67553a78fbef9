import { CantonError } from './errors.ts'
import type { Identifier, Value } from './value.ts'

/** A value as JSON has it. Numbers of Daml are texts: a double holds neither int64 nor numerics. */
export type Json = null | boolean | string | readonly Json[] | { readonly [name: string]: Json }

/** `<package>:<module>:<entity>`, as the JSON Ledger API writes it. */
export const idText = (id: Identifier): string => `${id.packageId}:${id.moduleName}:${id.entityName}`

/**
 * A value as the JSON Ledger API writes it: unit `{}`, numerics and int64 as texts, times and dates in ISO 8601, records and text maps
 * as objects, other maps as lists of pairs, variants as `{tag, value}`, enumerations as texts, an absent optional as null. An optional in an
 * optional is a list of none or one, since null could not say which of the two is absent.
 */
export function jsonOf(value: Value): Json {
  switch (value.kind) {
    case 'unit':
      return {}
    case 'bool':
    case 'numeric':
    case 'party':
    case 'text':
    case 'contractId':
      return value.value
    case 'int64':
      return value.value.toString()
    case 'timestamp':
      return timeText(value.value)
    case 'date':
      return dateText(value.value)
    case 'optional':
      return optional(value.value)
    case 'list':
      return value.elements.map(jsonOf)
    case 'textMap':
      return Object.fromEntries(value.entries.map((entry) => [entry.key, jsonOf(entry.value)]))
    case 'genMap':
      return value.entries.map((entry) => [jsonOf(entry.key), jsonOf(entry.value)])
    case 'record':
      return Object.fromEntries(value.fields.map((field) => [field.label, jsonOf(field.value)]))
    case 'variant':
      return { tag: value.choice, value: jsonOf(value.value) }
    case 'enum':
      return value.choice
  }
}

/** Microseconds since 1970, as `2026-11-23T09:20:00.000001Z`. @throws CantonError before the year 1 or after 9999 */
export function timeText(micros: bigint): string {
  const millis = (micros - mod(micros, 1000n)) / 1000n
  const iso = isoText(Number(millis))
  return `${iso.slice(0, -1)}${String(mod(micros, 1000n)).padStart(3, '0')}Z`
}

const dateText = (days: number): string => isoText(days * 86_400_000).slice(0, 10)

function isoText(millis: number): string {
  const date = new Date(millis)
  const year = date.getUTCFullYear()
  if (!(year >= 1 && year <= 9999)) throw new CantonError('malformed', 'a time is out of range')
  return date.toISOString()
}

/** The remainder that is not negative. */
const mod = (value: bigint, by: bigint): bigint => ((value % by) + by) % by

function optional(value: Value | undefined): Json {
  if (value === undefined) return null
  return value.kind === 'optional' ? within(value.value) : jsonOf(value)
}

/** What is inside an optional that is inside another. */
function within(value: Value | undefined): Json {
  if (value === undefined) return []
  return [value.kind === 'optional' ? within(value.value) : jsonOf(value)]
}
