import { CantonError, malformed } from './errors.ts'
import type { Fields } from './wire.ts'

/** Levels of one value; Daml's own limit. */
const MAX_VALUE_DEPTH = 100
const INT64 = 1n << 63n

/** A template, interface or data type. */
export interface Identifier {
  readonly packageId: string
  /** Segments joined by dots. */
  readonly moduleName: string
  readonly entityName: string
}

interface LabelledValue {
  readonly label: string
  readonly value: Value
}

/** A Daml value, as `com.daml.ledger.api.v2.Value` has it. */
export type Value =
  | { readonly kind: 'unit' }
  | { readonly kind: 'bool'; readonly value: boolean }
  | { readonly kind: 'int64'; readonly value: bigint }
  /** A decimal number with its decimals, such as `1.5000000000`. */
  | { readonly kind: 'numeric'; readonly value: string }
  /** Microseconds since 1970. */
  | { readonly kind: 'timestamp'; readonly value: bigint }
  /** Days since 1970. */
  | { readonly kind: 'date'; readonly value: number }
  | { readonly kind: 'party' | 'text' | 'contractId'; readonly value: string }
  | { readonly kind: 'optional'; readonly value: Value | undefined }
  | { readonly kind: 'list'; readonly elements: readonly Value[] }
  | { readonly kind: 'textMap'; readonly entries: readonly { readonly key: string; readonly value: Value }[] }
  | { readonly kind: 'record'; readonly id: Identifier | undefined; readonly fields: readonly LabelledValue[] }
  | {
      readonly kind: 'variant'
      readonly id: Identifier | undefined
      readonly choice: string
      readonly value: Value
    }
  | { readonly kind: 'enum'; readonly id: Identifier | undefined; readonly choice: string }
  | { readonly kind: 'genMap'; readonly entries: readonly { readonly key: Value; readonly value: Value }[] }

/** Reads a value. @throws CantonError for one that is no value, is nested too deeply, or is of a kind that is not known */
export const readValue = (fields: Fields): Value => valueAt(fields, 1)

/** Reads an identifier: no part and no segment is empty. */
export function readIdentifier(fields: Fields): Identifier {
  const id = { packageId: fields.string(1), moduleName: fields.string(2), entityName: fields.string(3) }
  if (id.packageId === '') malformed('an identifier has no package')
  for (const name of [id.moduleName, id.entityName])
    if (name.split('.').includes('')) malformed('an identifier has an empty name')
  return id
}

/** The bytes that a contract id stands for, in hexadecimal of lower case: other writings would have the same hash. */
export function checkContractId(id: string): string {
  if (!/^(?:[0-9a-f]{2}){1,255}$/.test(id)) malformed('a contract id is not hexadecimal of lower case')
  return id
}

function valueAt(fields: Fields, depth: number): Value {
  if (depth > MAX_VALUE_DEPTH) throw new CantonError('too_large', `a value has more than ${MAX_VALUE_DEPTH} levels`)
  const inner = (part: Fields) => valueAt(part, depth + 1)
  return fields.oneof<Value>('a value', {
    1: (at) => fields.message(at, () => ({ kind: 'unit' })),
    2: (at) => ({ kind: 'bool', value: fields.bool(at) }),
    3: (at) => ({ kind: 'int64', value: fields.sint64(at) }),
    4: (at) => ({ kind: 'date', value: fields.int32(at) }),
    5: (at) => ({ kind: 'timestamp', value: fields.sfixed64(at) }),
    6: (at) => ({ kind: 'numeric', value: checkNumeric(fields.string(at)) }),
    7: (at) => ({ kind: 'party', value: fields.string(at) }),
    8: (at) => ({ kind: 'text', value: fields.string(at) }),
    9: (at) => ({ kind: 'contractId', value: checkContractId(fields.string(at)) }),
    10: (at) => fields.message(at, (part) => ({ kind: 'optional', value: part.optional(1, inner) })),
    11: (at) => fields.message(at, (part) => ({ kind: 'list', elements: part.messages(1, inner) })),
    12: (at) => fields.message(at, (part) => textMap(part, inner)),
    13: (at) => fields.message(at, (part) => genMap(part, inner)),
    14: (at) => fields.message(at, (part) => record(part, inner)),
    15: (at) =>
      fields.message(at, (part) => ({
        kind: 'variant',
        id: part.optional(1, readIdentifier),
        choice: named(part.string(2)),
        value: part.message(3, inner),
      })),
    16: (at) =>
      fields.message(at, (part) => ({
        kind: 'enum',
        id: part.optional(1, readIdentifier),
        choice: named(part.string(2)),
      })),
  })
}

function record(part: Fields, inner: (part: Fields) => Value): Value {
  const id = part.optional(1, readIdentifier)
  const fields = part.messages(2, (field) => ({ label: named(field.string(1)), value: field.message(2, inner) }))
  // Shown as an object, where the second of two fields of one name would hide the first.
  if (new Set(fields.map(({ label }) => label)).size < fields.length) malformed('a record has a field twice')
  return { kind: 'record', id, fields }
}

function textMap(part: Fields, inner: (part: Fields) => Value): Value {
  const entries = part.messages(1, (entry) => ({ key: entry.string(1), value: entry.message(2, inner) }))
  if (new Set(entries.map(({ key }) => key)).size < entries.length) malformed('a map has a key twice')
  return { kind: 'textMap', entries }
}

const genMap = (part: Fields, inner: (part: Fields) => Value): Value => ({
  kind: 'genMap',
  entries: part.messages(1, (entry) => ({ key: entry.message(1, inner), value: entry.message(2, inner) })),
})

/**
 * A name that must be there. A record field without a label is refused: the algorithm's page hashes it as an empty
 * text, the participant as none. Participants prepare with all labels.
 */
function named(name: string): string {
  return name === '' ? malformed('a name is empty') : name
}

/** A numeric as participants write it: another writing of the same number has another hash here and the same there. */
function checkNumeric(text: string): string {
  const digits = text.replace(/[-.]/g, '').length
  const isCanonical = /^-?(?:0|[1-9]\d*)\.\d{0,37}$/.test(text) && !/^-0\.0*$/.test(text) && digits <= 38
  return isCanonical ? text : malformed('a numeric is not in its canonical form')
}

/** A time of the metadata, in microseconds since 1970: unsigned on the wire, and signed where it is hashed. */
export function checkMicros(value: bigint): bigint {
  return value < INT64 ? value : malformed('a time is out of range')
}
