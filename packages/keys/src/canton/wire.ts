import type { Bytes } from '../bytes.ts'
import { CantonError, malformed, unsupported } from './errors.ts'

/*
 * Strict protobuf. A signature must cover what every reader of the bytes sees. Ordinary readers skip unknown fields, let the last of
 * several values win, and accept several writings of one number; here each of these is refused, so that no field can be
 * carried past the hash and the policy.
 */

/** What a message may cost to read. Lengths alone bound nothing: an element of a list can be two bytes long. */
export interface Limits {
  /** Bytes of the whole message. */
  readonly bytes: number
  /** Fields in all messages together. */
  readonly fields: number
  /** Messages inside each other. */
  readonly depth: number
}

interface Budget {
  fields: number
  depth: number
}

type Raw = { readonly wire: 0; readonly value: bigint } | { readonly wire: 1 | 2 | 5; readonly bytes: Uint8Array }

const VARINT_BYTES = 10
/** Strict: a byte order mark is part of the text, and bytes that are no UTF-8 are no text. */
const TEXT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads one message: all of its fields must be taken by `read`. @throws CantonError */
export function readMessage<T>(bytes: Uint8Array, limits: Limits, read: (fields: Fields) => T): T {
  if (bytes.length > limits.bytes)
    throw new CantonError('too_large', `${bytes.length} bytes; at most ${limits.bytes} are read`)
  return readPart(bytes, { fields: limits.fields, depth: limits.depth }, read)
}

function readPart<T>(bytes: Uint8Array, budget: Budget, read: (fields: Fields) => T): T {
  if (budget.depth === 0) throw new CantonError('too_large', 'the messages are nested too deeply')
  budget.depth -= 1
  const fields = new Fields(bytes, budget)
  const result = read(fields)
  fields.end()
  budget.depth += 1
  return result
}

/** The fields of one message, by number. Each is taken once, with the type that its definition has. */
export class Fields {
  readonly #budget: Budget
  readonly #raw: Map<number, Raw[]>

  constructor(bytes: Uint8Array, budget: Budget) {
    this.#budget = budget
    this.#raw = split(bytes, budget)
  }

  /** Whether the message has this field, which is still to be taken. */
  has(field: number): boolean {
    return this.#raw.has(field)
  }

  /** A text; empty if it is absent, as proto3 has it. */
  string(field: number): string {
    const raw = this.#one(field)
    return raw === undefined ? '' : text(lengthDelimited(raw, field), field)
  }

  /** Texts, in the order of the message. */
  strings(field: number): string[] {
    return this.#take(field).map((raw) => text(lengthDelimited(raw, field), field))
  }

  /** A copy of bytes; empty if they are absent. */
  bytes(field: number): Bytes {
    const raw = this.#one(field)
    return raw === undefined ? new Uint8Array(0) : new Uint8Array(lengthDelimited(raw, field))
  }

  bool(field: number): boolean {
    const value = this.#varint(field)
    if (value > 1n) malformed(`field ${field} is no bool`)
    return value === 1n
  }

  /** An `int32`, as a number. Enumerations are written alike. */
  int32(field: number): number {
    return int32(this.#varint(field), field)
  }

  /** A `uint32`, as a number. */
  uint32(field: number): number {
    const value = this.#varint(field)
    if (value >= 1n << 32n) malformed(`field ${field} is no uint32`)
    return Number(value)
  }

  uint64(field: number): bigint {
    return this.#varint(field)
  }

  /** A `uint64` that may be absent. */
  optionalUint64(field: number): bigint | undefined {
    return this.has(field) ? this.#varint(field) : undefined
  }

  /** A `sint64` (zigzag). */
  sint64(field: number): bigint {
    const value = this.#varint(field)
    return value & 1n ? -(value >> 1n) - 1n : value >> 1n
  }

  /** An `sfixed64`. */
  sfixed64(field: number): bigint {
    const raw = this.#one(field)
    if (raw === undefined) return 0n
    if (raw.wire !== 1) malformed(`field ${field} has the wrong wire type`)
    return new DataView(raw.bytes.buffer, raw.bytes.byteOffset, 8).getBigInt64(0, true)
  }

  /** Repeated enumeration values or `int32`, packed or not. */
  int32s(field: number): number[] {
    return this.#take(field).flatMap((raw) => {
      if (raw.wire === 0) return [int32(raw.value, field)]
      const bytes = lengthDelimited(raw, field)
      const values: number[] = []
      for (let at = 0; at < bytes.length; ) {
        this.#spend()
        const [value, next] = varint(bytes, at)
        values.push(int32(value, field))
        at = next
      }
      return values
    })
  }

  /** A message that must be there. */
  message<T>(field: number, read: (fields: Fields) => T): T {
    return this.optional(field, read) ?? malformed(`field ${field} is missing`)
  }

  /** A message, or undefined if it is absent. */
  optional<T>(field: number, read: (fields: Fields) => T): T | undefined {
    const raw = this.#one(field)
    return raw === undefined ? undefined : readPart(lengthDelimited(raw, field), this.#budget, read)
  }

  /** Messages, in order. */
  messages<T>(field: number, read: (fields: Fields) => T): T[] {
    return this.#take(field).map((raw) => readPart(lengthDelimited(raw, field), this.#budget, read))
  }

  /** The one member of a `oneof` that is set. @throws CantonError `malformed` if there are several, `unsupported` if none is known */
  oneof<T>(what: string, members: Readonly<Record<number, (field: number) => T>>): T {
    const present = Object.keys(members)
      .map(Number)
      .filter((field) => this.has(field))
    if (present.length > 1) malformed(`${what} has several values`)
    const [field] = present
    const read = field === undefined ? undefined : members[field]
    if (field === undefined || read === undefined) unsupported(`${what} has no value that is known`)
    return read(field)
  }

  /** @throws CantonError `unsupported` if anything was not taken */
  end(): void {
    const [field] = this.#raw.keys()
    if (field !== undefined) unsupported(`field ${field} is unknown here`)
  }

  #spend(): void {
    spend(this.#budget)
  }

  #take(field: number): Raw[] {
    const raw = this.#raw.get(field) ?? []
    this.#raw.delete(field)
    return raw
  }

  #one(field: number): Raw | undefined {
    const raw = this.#take(field)
    if (raw.length > 1) malformed(`field ${field} is there ${raw.length} times`)
    return raw[0]
  }

  #varint(field: number): bigint {
    const raw = this.#one(field)
    if (raw === undefined) return 0n
    if (raw.wire !== 0) malformed(`field ${field} has the wrong wire type`)
    return raw.value
  }
}

function split(bytes: Uint8Array, budget: Budget): Map<number, Raw[]> {
  const fields = new Map<number, Raw[]>()
  for (let at = 0; at < bytes.length; ) {
    spend(budget)
    const [tag, afterTag] = varint(bytes, at)
    const field = Number(tag >> 3n)
    if (field === 0 || field >= 1 << 29) malformed('a field has no valid number')
    const [raw, next] = value(bytes, afterTag, Number(tag & 7n))
    const others = fields.get(field)
    if (others === undefined) fields.set(field, [raw])
    else others.push(raw)
    at = next
  }
  return fields
}

function spend(budget: Budget): void {
  if (budget.fields === 0) throw new CantonError('too_large', 'the message has too many fields')
  budget.fields -= 1
}

function value(bytes: Uint8Array, at: number, wire: number): [Raw, number] {
  if (wire === 0) {
    const [number, next] = varint(bytes, at)
    return [{ wire, value: number }, next]
  }
  if (wire === 1 || wire === 5) return [{ wire, ...slice(bytes, at, wire === 1 ? 8 : 4) }, at + (wire === 1 ? 8 : 4)]
  if (wire !== 2) malformed(`wire type ${wire} is not used by proto3`)
  const [length, start] = varint(bytes, at)
  if (length > BigInt(bytes.length)) malformed('a field is longer than the message')
  return [{ wire, ...slice(bytes, start, Number(length)) }, start + Number(length)]
}

function slice(bytes: Uint8Array, at: number, length: number): { bytes: Uint8Array } {
  if (at + length > bytes.length) malformed('a field is longer than the message')
  return { bytes: bytes.subarray(at, at + length) }
}

/** A number of at most 64 bits in its shortest form, and where it ends. */
function varint(bytes: Uint8Array, start: number): [bigint, number] {
  const first = bytes[start]
  if (first !== undefined && first < 0x80) return [BigInt(first), start + 1]
  let result = 0n
  for (let at = start; at < start + VARINT_BYTES; at += 1) {
    const byte = bytes[at]
    if (byte === undefined) malformed('the message ends within a number')
    result |= BigInt(byte & 0x7f) << BigInt(7 * (at - start))
    if (byte < 0x80) {
      if (byte === 0 && at > start) malformed('a number is not in its shortest form')
      if (result >= 1n << 64n) break
      return [result, at + 1]
    }
  }
  malformed('a number has more than 64 bits')
}

function int32(unsigned: bigint, field: number): number {
  const signed = BigInt.asIntN(64, unsigned)
  if (signed !== BigInt.asIntN(32, signed)) malformed(`field ${field} is no int32`)
  return Number(signed)
}

function lengthDelimited(raw: Raw, field: number): Uint8Array {
  if (raw.wire !== 2) malformed(`field ${field} has the wrong wire type`)
  return raw.bytes
}

function text(bytes: Uint8Array, field: number): string {
  try {
    return TEXT.decode(bytes)
  } catch {
    malformed(`field ${field} is no UTF-8`)
  }
}
