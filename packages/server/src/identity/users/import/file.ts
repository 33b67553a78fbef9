import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { type CsvError, type Info, parse } from 'csv-parse'
import { readLines } from '../../../platform/files.ts'
import { HttpError } from '../../../platform/http/errors.ts'
import { parseJson } from '../../../platform/http/json.ts'

/** The file cannot be imported at all. The message says what to do. */
export class ImportFileError extends Error {}

/** The format of a file of users. */
export type ImportFormat = 'csv' | 'jsonl'

/** An error in a line. */
export interface Problem {
  /** Starts at 1. For a record with line breaks, its first line. */
  line: number
  field: string
  code: string
  message: string
}

/** An unchecked record of the file, or why it cannot be read. */
export type FileRecord = { line: number; bytes: number; value: unknown } | (Problem & { value?: undefined })

/** The fields that a record may have. */
export const KNOWN_COLUMNS = ['email', 'name', 'externalId', 'metadata', 'emailVerified', 'createdAt'] as const
const METADATA_COLUMN = /^metadata\.(.+)$/s
/** These keys reach an object's prototype. */
const FORBIDDEN_KEYS = ['__proto__', 'constructor', 'prototype']

/** Longer than the longest user with every character escaped. */
const RECORD_CHARS_MAX = 256 * 1024
const COLUMNS_MAX = 100
const DELIMITERS = [',', ';', '\t', '|']
const HEADER_BYTES = 64 * 1024
/** Byte order marks of UTF-16, in both byte orders. */
const UTF_16_MARKS = ['fffe', 'feff']

const problem = (line: number, field: string, code: string, message: string): Problem => ({
  line,
  field,
  code,
  message,
})

const tooLong = (line: number): Problem =>
  problem(line, '', 'too_long', `Is longer than ${RECORD_CHARS_MAX / 1024} KiB, the limit for a record.`)

/** A stream from the beginning of the file. */
const streamOf = (file: FileHandle) => file.createReadStream({ start: 0, autoClose: false, highWaterMark: 256 * 1024 })

async function firstBytes(file: FileHandle): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
  const start = buffer.subarray(0, bytesRead)
  if (UTF_16_MARKS.includes(start.toString('hex', 0, 2)))
    throw new ImportFileError('The file is UTF-16. Save it as UTF-8 and run this again.')
  return start
}

/** The delimiter that occurs most often in the first line, outside quotes. A comma if there is none. */
function delimiterOf(start: Buffer): string {
  // The parser's own discovery counts in all lines, and throws a TypeError at the first letter beyond ASCII.
  const [line = ''] = start
    .toString('utf8')
    .replace(/"[^"]*"/g, '')
    .split(/\r?\n|\r/, 1)
  const count = (delimiter: string) => line.split(delimiter).length
  return DELIMITERS.reduce((best, one) => (count(one) > count(best) ? one : best), ',')
}

async function* decoded(file: FileHandle): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let read = 0
  try {
    for await (const chunk of streamOf(file)) {
      yield decoder.decode(chunk as Buffer, { stream: true })
      read += (chunk as Buffer).length
    }
    yield decoder.decode()
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new ImportFileError(
      `The file is not UTF-8 (somewhere after byte ${read}). Save it as UTF-8 and run this again.`,
    )
  }
}

/** @throws ImportFileError */
function checkHeader(header: readonly string[]): void {
  const known = `Known columns: ${KNOWN_COLUMNS.join(', ')}, and metadata.<key> for single keys.`
  if (header.length > COLUMNS_MAX)
    throw new ImportFileError(`The header has ${header.length} columns; at most ${COLUMNS_MAX} are allowed. ${known}`)
  for (const [index, name] of header.entries()) {
    const key = METADATA_COLUMN.exec(name)?.[1]
    if (FORBIDDEN_KEYS.includes(key ?? '')) throw new ImportFileError(`The metadata key "${key}" is not allowed.`)
    if (key === undefined && !KNOWN_COLUMNS.some((column) => column === name))
      throw new ImportFileError(
        name === ''
          ? `Column ${index + 1} has no name. ${known}`
          : `The column "${name.slice(0, 100)}" is not known. ${known}`,
      )
    if (header.indexOf(name) !== index) throw new ImportFileError(`The column "${name}" appears twice.`)
  }
}

const BOOLEANS: Record<string, boolean> = { true: true, '1': true, false: false, '0': false }

/** A record of a CSV file in the form of JSON. Empty cells are absent. @throws HttpError */
function recordOf(header: readonly string[], cells: readonly string[]): object {
  const value: Record<string, unknown> = {}
  const metadata = new Map<string, unknown>()
  for (const [index, name] of header.entries()) {
    const cell = cells[index] ?? ''
    if (cell === '') continue
    const key = METADATA_COLUMN.exec(name)?.[1]
    if (key !== undefined) metadata.set(key, cell)
    else if (name === 'metadata') {
      const given = parseJson(Buffer.from(cell))
      if (typeof given !== 'object' || given === null || Array.isArray(given)) value.metadata = given
      else for (const [one, text] of Object.entries(given)) if (!metadata.has(one)) metadata.set(one, text)
    } else value[name] = name === 'emailVerified' ? (BOOLEANS[cell.toLowerCase()] ?? cell) : cell
  }
  if (metadata.size > 0 && value.metadata === undefined) value.metadata = Object.fromEntries(metadata)
  return value
}

/** Why a record is not valid JSON. */
function unreadable(line: number, error: unknown, field = ''): Problem {
  if (!(error instanceof HttpError)) throw error
  const [detail] = error.details
  return problem(line, field, detail?.code ?? error.code, detail?.message ?? error.message)
}

function readCells(line: number, bytes: number, header: readonly string[], cells: readonly string[]): FileRecord {
  if (cells.length !== header.length)
    return problem(line, '', 'wrong_columns', `Has ${cells.length} values, but the header has ${header.length}.`)
  const nul = cells.findIndex((cell) => cell.includes('\0'))
  if (nul !== -1)
    return problem(line, header[nul] as string, 'nul_character', 'Contains a NUL character, which cannot be stored.')
  try {
    return { line, bytes, value: recordOf(header, cells) }
  } catch (error) {
    return unreadable(line, error, 'metadata')
  }
}

/** The number of line breaks in a record. The parser counts some of them twice. */
const breaksIn = (cells: readonly string[]) =>
  cells.reduce((sum, cell) => sum + (/[\r\n]/.test(cell) ? cell.split(/\r\n|\r|\n/).length - 1 : 0), 0)

async function* readCsv(file: FileHandle, delimiter: string | undefined): AsyncGenerator<FileRecord> {
  const parser = pipeline(
    decoded(file),
    parse({
      info: true,
      delimiter: delimiter ?? delimiterOf(await firstBytes(file)),
      record_delimiter: ['\r\n', '\n', '\r'],
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: RECORD_CHARS_MAX,
    }),
    () => {},
  )
  let header: string[] | undefined
  let next = 1
  let before = { empty_lines: 0, bytes: 0 }
  try {
    for await (const { record, info } of parser as AsyncIterable<{ record: string[]; info: Info }>) {
      const line = next + info.empty_lines - before.empty_lines
      const bytes = info.bytes - before.bytes
      next = line + 1 + breaksIn(record)
      before = info
      if (header !== undefined) yield readCells(line, bytes, header, record)
      else {
        header = record.map((name) => name.trim())
        checkHeader(header)
      }
    }
  } catch (error) {
    const { code, lines } = error as Partial<CsvError>
    if (typeof lines !== 'number') throw error
    throw unusable(
      code === 'CSV_MAX_RECORD_SIZE'
        ? tooLong(lines)
        : problem(lines, '', 'malformed_csv', 'A quote is not closed, or is in the wrong place.'),
    )
  }
  if (header === undefined) throw new ImportFileError('The file is empty: the first line must name the columns.')
}

/** After such a line, the beginning of the next one is unknown. */
const unusable = ({ line, message }: Problem) =>
  new ImportFileError(`The file cannot be read past line ${line}: ${message}`)

const isBlank = (line: Buffer) => line.every((byte) => byte === 32 || byte === 9 || byte === 13)

function readObject(line: number, bytes: Buffer): FileRecord {
  try {
    return { line, bytes: bytes.length + 1, value: parseJson(bytes) }
  } catch (error) {
    return unreadable(line, error)
  }
}

async function* readJsonLines(file: FileHandle): AsyncGenerator<FileRecord> {
  await firstBytes(file)
  let line = 0
  for await (const bytes of readLines(streamOf(file), RECORD_CHARS_MAX)) {
    line += 1
    if (bytes === null) yield tooLong(line)
    else if (!isBlank(bytes)) yield readObject(line, bytes)
  }
}

/** A file of users. */
export interface ImportSource {
  path: string
  format: ImportFormat
  /** For CSV. Undefined: the one that occurs most often in the first line. */
  delimiter: string | undefined
}

async function statOf(file: FileHandle) {
  const { size, mtimeNs } = await file.stat({ bigint: true })
  return { bytes: Number(size), version: `${size} ${mtimeNs}` }
}

/** A file that is read more than once, and must not change meanwhile. */
export type ImportFile = Awaited<ReturnType<typeof openImportFile>>

/** @throws ImportFileError */
export async function openImportFile({ path, format, delimiter }: ImportSource) {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    throw new ImportFileError(`${path} cannot be read (${error.code ?? error.message}).`)
  })
  if (!(await file.stat()).isFile()) {
    await file.close()
    throw new ImportFileError(`${path} must be a file: it is read more than once.`)
  }
  const { bytes, version } = await statOf(file)
  return {
    bytes,
    /** @throws ImportFileError */
    async checkUnchanged(): Promise<void> {
      if ((await statOf(file)).version !== version)
        throw new ImportFileError('The file was changed while it was read. Run this again once it is complete.')
    },
    /** SHA-256 of the content, in hex. */
    async hash(): Promise<string> {
      const hash = createHash('sha256')
      for await (const chunk of streamOf(file)) hash.update(chunk as Buffer)
      return hash.digest('hex')
    },
    /** All records in their order. Memory does not grow with the file. @throws ImportFileError if the rest cannot be read */
    records: (): AsyncGenerator<FileRecord> => (format === 'csv' ? readCsv(file, delimiter) : readJsonLines(file)),
    close: () => file.close(),
  }
}
