import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import fastJsonStringify from 'fast-json-stringify'
import { z } from 'zod'
import type { ErrorDetail } from './errors.ts'

/** A JSON Schema object, as far as this module looks into it. */
export type JsonSchema = { [keyword: string]: unknown }

const OPTIONS = { strict: false, verbose: true, validateFormats: false, discriminator: true }
const first = new Ajv({ ...OPTIONS, allErrors: false })
const every = new Ajv({ ...OPTIONS, allErrors: true })

/** Above this size only the first problem is reported: collecting all of them could take seconds. */
const ALL_ERRORS_BYTES_MAX = 16 * 1024

function isObject(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `anyOf: [X, null]` as `type: [X, 'null']`: half the work for validator and serialiser. */
function foldNull(schema: JsonSchema): JsonSchema {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema
  const [inner, none] = anyOf as JsonSchema[]
  if (!isObject(none) || none.type !== 'null' || !isObject(inner) || typeof inner.type !== 'string') return schema
  if (inner.type === 'object' || inner.type === 'array') return schema
  const nullable: JsonSchema = { ...inner, ...rest, type: [inner.type, 'null'] }
  if (Array.isArray(inner.enum)) nullable.enum = [...inner.enum, null]
  return nullable
}

function walk(value: unknown, change: (schema: JsonSchema) => JsonSchema): unknown {
  if (Array.isArray(value)) return value.map((entry) => walk(entry, change))
  if (!isObject(value)) return value
  const inner = Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, walk(entry, change)]))
  return change(inner)
}

/** The JSON Schema of a Zod schema. Named parts (`.meta({ id })`) stand in `$defs`. */
export function jsonSchema(schema: z.ZodType, side: 'input' | 'output'): JsonSchema {
  const { $schema: _, ...plain } = z.toJSONSchema(schema, { target: 'draft-2020-12', io: side }) as JsonSchema
  return walk(plain, foldNull) as JsonSchema
}

/** The same schema with every `$defs` reference inlined. Halfkey's schemas are never recursive. */
export function inlined(schema: JsonSchema): JsonSchema {
  const { $defs, ...root } = schema
  const defs = isObject($defs) ? $defs : {}
  const resolve = (part: JsonSchema): JsonSchema => {
    if (typeof part.$ref !== 'string') return part
    const { $ref, ...beside } = part
    const target = defs[($ref as string).replace('#/$defs/', '')] as JsonSchema
    const { id: _, ...resolved } = walk(target, resolve) as JsonSchema
    return { ...resolved, ...beside }
  }
  return walk(root, resolve) as JsonSchema
}

/** Lets Ajv pick the branch of a union by the constant that tells them apart: its errors are then those of one branch. */
function discriminated(schema: JsonSchema): JsonSchema {
  if (!Array.isArray(schema.oneOf)) return schema
  const branches = (schema.oneOf as JsonSchema[]).map(({ properties }) => (isObject(properties) ? properties : {}))
  const tagsOf = (name: string) => branches.flatMap((each) => (isObject(each[name]) ? (each[name].const ?? []) : []))
  const propertyName = Object.keys(branches[0] ?? {}).find((name) => tagsOf(name).length === branches.length)
  if (propertyName === undefined) return schema
  const expected = `an object with "${propertyName}" ${tagsOf(propertyName).join(' or ')}`
  return { ...schema, type: 'object', discriminator: { propertyName }, 'x-expected': expected }
}

function fieldOf(error: ErrorObject): string {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const extra = error.params.additionalProperty ?? error.params.missingProperty ?? error.params.tag
  return [...path, ...(typeof extra === 'string' ? [extra] : [])].join('.')
}

const WORDS: Record<string, (params: Record<string, unknown>, field: string) => string> = {
  additionalProperties: (_, field) => `Unknown field "${field}". Remove it, or check its spelling.`,
  required: (_, field) => `"${field}" is required.`,
  type: (params) => `Must be ${[params.type].flat().join(' or ')}.`,
  enum: (params) => `Must be one of: ${(params.allowedValues as unknown[]).join(', ')}.`,
  minLength: (params) => (params.limit === 1 ? 'Must not be empty.' : `Must have at least ${params.limit} characters.`),
  maxLength: (params) => `Must have at most ${params.limit} characters.`,
  minItems: (params) => `Must have at least ${params.limit} entries.`,
  maxItems: (params) => `Must have at most ${params.limit} entries.`,
  minimum: (params) => `Must be at least ${params.limit}.`,
  maximum: (params) => `Must be at most ${params.limit}.`,
  maxProperties: (params) => `Must have at most ${params.limit} keys.`,
}

const CODES: Record<string, string> = {
  additionalProperties: 'unknown_field',
  required: 'required',
  type: 'wrong_type',
  enum: 'not_allowed',
  discriminator: 'not_allowed',
}

/** What a keyword of a schema finds wrong with a field. */
type Violation = Pick<ErrorObject, 'keyword' | 'params' | 'message'> & { field: string }

/** A violation as an error shows it. */
export function detailOfViolation({ field, keyword, params, message }: Violation): ErrorDetail {
  const words = WORDS[keyword]?.(params, field) ?? `${message ?? 'is not valid'}.`
  return { field, code: CODES[keyword] ?? 'invalid', message: words.charAt(0).toUpperCase() + words.slice(1) }
}

function detailOf(error: ErrorObject): ErrorDetail {
  const detail = detailOfViolation({ ...error, field: fieldOf(error) })
  const { 'x-expected': expected, 'x-code': code } = isObject(error.parentSchema) ? error.parentSchema : {}
  if (typeof expected === 'string' && error.keyword !== 'required') detail.message = `Must be ${expected}.`
  if (typeof code === 'string' && CODES[error.keyword] === undefined) detail.code = code
  return detail
}

/** What is made of a schema, once. */
function perSchema<T>(make: (schema: z.ZodType) => T): (schema: z.ZodType) => T {
  const made = new WeakMap<z.ZodType, { of: T }>()
  return (schema) => {
    const known = made.get(schema) ?? { of: make(schema) }
    made.set(schema, known)
    return known.of
  }
}

/** Checks a value. Returns the problems field by field, or none. Compiled at first use. */
export const validator = perSchema((schema): ((value: unknown, bytes: number) => ErrorDetail[]) => {
  let shape: JsonSchema | undefined
  let quick: ValidateFunction | undefined
  let thorough: ValidateFunction | undefined
  return (value, bytes) => {
    shape ??= walk(inlined(jsonSchema(schema, 'input')), discriminated) as JsonSchema
    quick ??= first.compile(shape)
    if (quick(value)) return []
    let errors = quick.errors ?? []
    if (bytes <= ALL_ERRORS_BYTES_MAX) {
      thorough ??= every.compile(shape)
      thorough(value)
      errors = thorough.errors ?? errors
    }
    // `anyOf` and similar keywords only repeat the errors of their branches.
    const told = errors.filter(
      (error) => error.keyword !== 'anyOf' && error.keyword !== 'oneOf' && error.keyword !== 'if',
    )
    const details = (told.length > 0 ? told : errors).slice(0, 50).map(detailOf)
    // Several keywords of a field may share one `x-expected`.
    return [...new Map(details.map((detail) => [`${detail.field} ${detail.message}`, detail])).values()]
  }
})

/** Writes a response as JSON with exactly the declared fields. Other fields of the object are omitted. */
export const serialiser = perSchema((schema): ((value: unknown) => string) => {
  let write: ((value: unknown) => string) | undefined
  return (value) => {
    write ??= fastJsonStringify(inlined(jsonSchema(schema, 'output')) as never) as (value: unknown) => string
    return write(value)
  }
})
