import { pipeline } from 'node:stream/promises'
import { StringDecoder } from 'node:string_decoder'
import { createGunzip, createGzip } from 'node:zlib'
import { z } from 'zod'
import { TransferError } from './errors.ts'

/** No row of the service comes near it. */
const LINE_CHARS_MAX = 33_554_432
const ROWS_MAX = Number.MAX_SAFE_INTEGER
/** Of 1 to 9: most of the gain at a third of the time. */
const GZIP_LEVEL = 3

/** A table of an export: its columns, without whose row it is and without what is made anew. */
export interface TableShape {
  name: string
  columns: { name: string; type: string }[]
}

/** What an export holds, in the order in which it does. */
export interface Manifest {
  tables: (TableShape & { rows: number })[]
}

const ManifestShape = z.strictObject({
  tables: z
    .array(
      z.strictObject({
        name: z.string(),
        columns: z.array(z.strictObject({ name: z.string(), type: z.string() })).max(1_000),
        rows: z.number().int().min(0).max(ROWS_MAX),
      }),
    )
    .max(1_000),
})

/** @throws TransferError */
export function readManifest(line: string | undefined): Manifest {
  let value: unknown
  try {
    value = JSON.parse(line ?? '')
  } catch {
    value = undefined
  }
  const parsed = ManifestShape.safeParse(value)
  if (!parsed.success) throw new TransferError('The export does not begin with a list of its tables. Export again.')
  return parsed.data
}

/** The values of a row as text, null for NULL. @throws TransferError when it is no row of so many columns */
export function readRow(line: string, table: TableShape): (string | null)[] {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    value = undefined
  }
  const isRow =
    Array.isArray(value) &&
    value.length === table.columns.length &&
    value.every((each) => each === null || (typeof each === 'string' && !each.includes('\0')))
  if (!isRow)
    throw new TransferError(`The export holds what is no row of the table ${table.name}. Nothing was imported.`)
  return value as (string | null)[]
}

/** Text, compressed. */
export async function* compress(text: AsyncIterable<string>): AsyncGenerator<Buffer> {
  const gzip = createGzip({ level: GZIP_LEVEL })
  const feeding = pipeline(text, gzip)
  // The stream itself tells of it, too.
  feeding.catch(() => {})
  for await (const part of gzip) yield part as Buffer
  await feeding
}

/** Undoes `compress`, some lines at a time. @throws TransferError when it is no such text */
export async function* decompress(content: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  const gunzip = createGunzip()
  const feeding = pipeline(content, gunzip)
  feeding.catch(() => {})
  try {
    yield* splitLines(gunzip)
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith('Z_')) throw error
    throw new TransferError('The export cannot be decompressed. Export again.', { cause: error })
  }
  await feeding
}

async function* splitLines(source: AsyncIterable<Buffer>): AsyncGenerator<string[]> {
  const decoder = new StringDecoder('utf8')
  let begun: string[] = []
  let length = 0
  for await (const part of source) {
    const lines = decoder.write(part).split('\n')
    const last = lines.pop() as string
    if (lines.length > 0) {
      lines[0] = begun.join('') + lines[0]
      begun = []
      length = 0
      yield lines
    }
    begun.push(last)
    length += last.length
    if (length > LINE_CHARS_MAX)
      throw new TransferError('The export holds a row that is too large. Nothing was imported.')
  }
  if (length > 0) throw new TransferError('The export ends within a row. Nothing was imported.')
}
