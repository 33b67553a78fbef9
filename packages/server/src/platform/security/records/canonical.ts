import { ciphertextOf } from '../crypto.ts'

/**
 * How a column's value is written: `bytes` in hex, `time` as ISO 8601 with milliseconds, `bigint` as a string; `…s` are
 * arrays. `fixed` is JSON that never changes. `sealed` is what a sealed value seals, without the key that wraps its data key: a rotation changes only that key.
 */
export type ColumnType =
  | 'text'
  | 'boolean'
  | 'integer'
  | 'bigint'
  | 'bytes'
  | 'sealed'
  | 'time'
  | 'json'
  | 'fixed'
  | 'texts'
  | 'byteses'
  | 'times'

function wrong(column: string): never {
  throw new RangeError(`the column ${column} has a value without a canonical form`)
}

/** The texts of fixed values that were written before: a record has one when it is checked and when it is sealed again. */
const written = new WeakMap<object, string>()

/**
 * A JSON value after RFC 8785. Properties that JSON leaves out are left out, because the database does not keep them. A
 * number that is not finite stands in no text that Halfkey wrote.
 */
function jsonText(value: unknown, column: string): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value === null) return 'null'
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? JSON.stringify(value) : wrong(column)
  if (typeof value !== 'object') return wrong(column)
  if (Array.isArray(value)) return `[${value.map((each) => itemText(each, column)).join(',')}]`
  return value instanceof Date ? JSON.stringify(value) : objectText(value as Record<string, unknown>, column)
}

const itemText = (value: unknown, column: string) => (value === undefined ? 'null' : jsonText(value, column))

function objectText(value: Record<string, unknown>, column: string): string {
  let text = ''
  for (const key of Object.keys(value).sort()) {
    const entry = value[key]
    if (entry !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${jsonText(entry, column)}`
  }
  return `{${text}}`
}

/** The same for a value that nothing changes. */
function fixedText(value: unknown, column: string): string {
  if (typeof value !== 'object' || value === null) return jsonText(value, column)
  const known = written.get(value)
  if (known !== undefined) return known
  const text = jsonText(value, column)
  written.set(value, text)
  return text
}

function one(type: ColumnType, value: unknown, column: string): string {
  switch (type) {
    case 'text':
      return typeof value === 'string' ? JSON.stringify(value) : wrong(column)
    case 'boolean':
      return typeof value === 'boolean' ? String(value) : wrong(column)
    case 'integer':
      return Number.isSafeInteger(value) ? String(value) : wrong(column)
    case 'bigint':
      return Number.isSafeInteger(value) ? `"${String(value)}"` : wrong(column)
    case 'bytes':
      return Buffer.isBuffer(value) ? `"${value.toString('hex')}"` : wrong(column)
    case 'sealed':
      return Buffer.isBuffer(value) ? `"${ciphertextOf(value).toString('hex')}"` : wrong(column)
    case 'time':
      // PostgreSQL's infinities come as numbers.
      return value instanceof Date && !Number.isNaN(value.getTime()) ? `"${value.toISOString()}"` : wrong(column)
    case 'fixed':
      return fixedText(value, column)
    default:
      return jsonText(value, column)
  }
}

const ITEMS: Partial<Record<ColumnType, ColumnType>> = { texts: 'text', byteses: 'bytes', times: 'time' }

/**
 * A column's value as canonical JSON. @throws RangeError for one without such a form; Error for a column that was not read
 */
export function encode(type: ColumnType, value: unknown, column: string): string {
  if (value === null) return 'null'
  if (value === undefined) throw new Error(`the column ${column} is in a record's MAC and was not read`)
  const item = ITEMS[type]
  if (item === undefined) return one(type, value, column)
  if (!Array.isArray(value)) return wrong(column)
  return `[${value.map((each) => (each === null ? 'null' : one(item, each, column))).join(',')}]`
}
