import type { z } from 'zod'
import { invalid } from './errors.ts'
import type { Route } from './route.ts'
import { inlined, type JsonSchema, jsonSchema } from './schema.ts'

/** Records read from the database at a time. A delivery may have 40 KiB. */
const PAGE_RECORDS = 200
const RECORDS_MAX = 100_000

/** Whether a client wants a list as CSV: `Accept: text/csv` and no other type. */
export const wantsCsv = (accept: string | string[] | undefined): boolean =>
  typeof accept === 'string' && /^\s*text\/csv\s*(;|$)/i.test(accept)

/** The fields of a list's records, in the order of the API's description. */
function columnsOf(list: z.ZodType): string[] {
  const { properties } = inlined(jsonSchema(list, 'output')) as { properties: { data: { items: JsonSchema } } }
  return Object.keys(properties.data.items.properties as object)
}

/** Spreadsheets run text that begins like this as a formula (OWASP, CSV injection). Plain numbers are safe. */
const FORMULA = /^[=+\-@\t\r]/
const NUMBER = /^-?\d+(\.\d+)?$/

function cell(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value)
  const harmless = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}

/** Records as lines of CSV (RFC 4180). */
const linesOf = (columns: readonly string[], records: readonly Record<string, unknown>[]): string =>
  records.map((record) => `${columns.map((name) => cell(record[name])).join(',')}\r\n`).join('')

/** The lines, of which each portion is passed on only after `allow` has allowed it: the caller's key may end meanwhile. */
export async function* whileAllowed(
  lines: AsyncGenerator<string, void>,
  allow: () => Promise<void>,
): AsyncGenerator<string, void> {
  for await (const portion of lines) {
    await allow()
    yield portion
  }
}

/** A page of a list, as its JSON has it. */
interface Page {
  data: Record<string, unknown>[]
  total: number
  hasMore: boolean
}

/**
 * A whole list as CSV, read page by page while it is sent. An object is written as JSON in one cell.
 * @param readPage the list's JSON for a page, with only the declared fields of its records
 * @throws validation_failed if a page is given, or the list has more than 100 000 records, before anything is sent
 */
export async function streamCsv(
  { reply }: Route,
  { page, page_size: size }: Record<string, string>,
  readPage: (query: { page: string; page_size: string }) => Promise<string>,
): Promise<AsyncGenerator<string, void>> {
  if (page !== undefined || size !== undefined)
    throw invalid(
      page === undefined ? 'page_size' : 'page',
      'Must not be sent with `Accept: text/csv`: a CSV contains all pages.',
      'not_allowed',
    )
  const columns = columnsOf(reply.schema)
  const read = async (number: number): Promise<Page> =>
    JSON.parse(await readPage({ page: String(number), page_size: String(PAGE_RECORDS) }))
  const first = await read(1)
  if (first.total > RECORDS_MAX) {
    const message = `The list has ${first.total} records, and a CSV holds at most ${RECORDS_MAX}. Add a filter.`
    throw invalid('accept', message, 'too_many')
  }
  async function* lines(): AsyncGenerator<string, void> {
    yield `${columns.join(',')}\r\n`
    let { data, hasMore } = first
    for (let number = 2; ; number += 1) {
      yield linesOf(columns, data)
      if (!hasMore) return
      ;({ data, hasMore } = await read(number))
    }
  }
  return lines()
}
