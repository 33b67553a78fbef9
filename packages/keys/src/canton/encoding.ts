import { sha256 } from '@noble/hashes/sha2.js'
import { type Bytes, fromHex, utf8 } from '../bytes.ts'
import type { Identifier, Value } from './value.ts'

/*
 * How the parts of a prepared transaction are written before they are hashed: lengths and numbers are big-endian, everything of
 * variable length says how long it is, and a value begins with a tag of its kind. Source: "External Signing Hashing Algorithm" in
 * the public documentation of digital-asset/canton (docs-open/src/sphinx/sdk/explanations/external-signing).
 */

/** A SHA-256 in the making. */
export class Hasher {
  readonly #sha256 = sha256.create()

  raw(bytes: Uint8Array): this {
    this.#sha256.update(bytes)
    return this
  }

  byte(value: number): this {
    return this.raw(Uint8Array.of(value))
  }

  bool(value: boolean): this {
    return this.byte(value ? 1 : 0)
  }

  int32(value: number): this {
    const bytes = new Uint8Array(4)
    new DataView(bytes.buffer).setInt32(0, value)
    return this.raw(bytes)
  }

  int64(value: bigint): this {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setBigInt64(0, value)
    return this.raw(bytes)
  }

  bytes(bytes: Uint8Array): this {
    return this.int32(bytes.length).raw(bytes)
  }

  text(text: string): this {
    return this.bytes(utf8(text))
  }

  hex(text: string): this {
    return this.bytes(fromHex(text))
  }

  many<T>(values: readonly T[], write: (value: T) => unknown): this {
    this.int32(values.length)
    for (const value of values) write(value)
    return this
  }

  texts(texts: readonly string[]): this {
    return this.many(texts, (text) => this.text(text))
  }

  optional<T>(value: T | undefined, write: (value: T) => unknown): this {
    this.bool(value !== undefined)
    if (value !== undefined) write(value)
    return this
  }

  identifier(id: Identifier): this {
    return this.text(id.packageId).texts(id.moduleName.split('.')).texts(id.entityName.split('.'))
  }

  value(value: Value): this {
    writers[value.kind](this, value as never)
    return this
  }

  digest(): Bytes {
    return new Uint8Array(this.#sha256.digest())
  }
}

type Writer<K extends Value['kind']> = (to: Hasher, value: Extract<Value, { readonly kind: K }>) => unknown
type OfText = Extract<Value, { readonly kind: 'party' | 'text' | 'contractId' }>

const writers: {
  readonly [K in Exclude<Value['kind'], OfText['kind']>]: Writer<K>
} & { readonly [K in OfText['kind']]: (to: Hasher, value: OfText) => unknown } = {
  unit: (to) => to.byte(0x00),
  bool: (to, { value }) => to.byte(0x01).bool(value),
  int64: (to, { value }) => to.byte(0x02).int64(value),
  numeric: (to, { value }) => to.byte(0x03).text(value),
  timestamp: (to, { value }) => to.byte(0x04).int64(value),
  date: (to, { value }) => to.byte(0x05).int32(value),
  party: (to, { value }) => to.byte(0x06).text(value),
  text: (to, { value }) => to.byte(0x07).text(value),
  contractId: (to, { value }) => to.byte(0x08).hex(value),
  optional: (to, { value }) => to.byte(0x09).optional(value, (inner) => to.value(inner)),
  list: (to, { elements }) => to.byte(0x0a).many(elements, (element) => to.value(element)),
  textMap: (to, { entries }) => to.byte(0x0b).many(entries, ({ key, value }) => to.text(key).value(value)),
  record: (to, { id, fields }) =>
    to
      .byte(0x0c)
      .optional(id, (identifier) => to.identifier(identifier))
      .many(fields, ({ label, value }) => to.optional(label, (name) => to.text(name)).value(value)),
  variant: (to, { id, choice, value }) =>
    to
      .byte(0x0d)
      .optional(id, (identifier) => to.identifier(identifier))
      .text(choice)
      .value(value),
  enum: (to, { id, choice }) =>
    to
      .byte(0x0e)
      .optional(id, (identifier) => to.identifier(identifier))
      .text(choice),
  genMap: (to, { entries }) => to.byte(0x0f).many(entries, ({ key, value }) => to.value(key).value(value)),
}
