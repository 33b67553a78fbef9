import { pipeline } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { z } from 'zod'
import { readLines } from '../../platform/files.ts'
import { METADATA_CLAIM_PREFIX } from '../../tenancy/apps/service.ts'
import type { Opened } from './container.ts'
import { parseJson, TransferError } from './errors.ts'
import type { Row, Table } from './tables.ts'

/** Far beyond any row of the service. */
const LINE_BYTES_MAX = 33_554_432
const PORTION_ROWS = 2_000
const PORTION_CHARS = 1_048_576
/** Of 1 to 9: most of the compression in a third of the time. */
const GZIP_LEVEL = 3

const Manifest = z.strictObject({
  tables: z
    .array(
      z.strictObject({
        name: z.string(),
        columns: z.array(z.strictObject({ name: z.string(), type: z.string() })).max(1_000),
        rows: z.number().int().min(0).max(Number.MAX_SAFE_INTEGER),
      }),
    )
    .max(1_000),
})
/** The first line of an export: its tables, in the order in which their rows follow. */
export type Manifest = z.infer<typeof Manifest>

/** How many rows each table has, by name. */
export const countsOf = ({ tables }: Manifest): Record<string, number> =>
  Object.fromEntries(tables.map(({ name, rows }) => [name, rows]))

/** How many rows there are in all. */
export const totalOf = ({ tables }: Manifest): number => tables.reduce((sum, { rows }) => sum + rows, 0)

/** The names of today's tables by those that earlier releases wrote. */
const RENAMED: Readonly<Record<string, string>> = { audit_notes: 'audit_only_entries', tallies: 'counter_increments' }

/** Tables that exports of earlier releases lack: a tenant of that time has no rows in them. */
const ADDED: ReadonlySet<string> = new Set([
  'app_issuers',
  'app_logos',
  'app_providers',
  'approval_assertions',
  'approvals',
  'email_templates',
  'event_types',
  'ledger_chain',
  'ledger_heads',
  'member_identities',
  'member_passkeys',
  'member_sign_in',
  'members',
  'subscribers',
  'token_holdings',
  'token_offers',
  'used_tokens',
  'wallet_recipients',
  'wallet_spending',
  'payment_settlements',
])

/** Columns that exports of earlier releases lack, by table: rows of that time have the column's default. */
const ADDED_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  analytics_daily: ['sign_ins_email', 'sign_ins_exchange', 'sign_ins_provider', 'sign_ins_wallet'],
  api_keys: ['created_by'],
  apps: [
    'address_book',
    'agents',
    'brand_links',
    'branding',
    'budgets',
    'email',
    'email_recovery',
    'email_webhook_secret_sealed',
    'external_wallets',
    'openid',
    'sign_in_hook',
    'sign_in_hook_secret_sealed',
  ],
  approvals: ['approvers', 'decided_by'],
  attempts: ['shape'],
  delegated_sessions: ['approvers', 'jkt'],
  deliveries: ['ordering_key', 'place'],
  events: ['subscriber_id'],
  identities: ['id', 'issuer'],
  ledger_contracts: ['index', 'seed'],
  members: ['identity_id', 'invitation_delivery', 'proven_email', 'rights_changed_at'],
  outbox: ['ordering_key', 'subscriber_id'],
  passkeys: ['approves_at'],
  tenants: ['ledger_chain_at', 'proof_delegation', 'proof_key_at', 'proof_key_sealed', 'proof_public_key'],
  transactions: ['session_version'],
  wallets: ['budgets'],
  webhooks: [
    'filter',
    'filter_version',
    'format',
    'include_subscribers',
    'options',
    'options_sealed',
    'payload',
    'subscriber_id',
  ],
}

/** @throws TransferError */
export function readManifest(line = ''): Manifest {
  const { data } = Manifest.safeParse(parseJson(line))
  if (data === undefined) throw new TransferError('The export does not begin with a list of its tables. Export again.')
  return { tables: data.tables.map((table) => ({ ...table, name: RENAMED[table.name] ?? table.name })) }
}

const shapeOf = (tables: readonly Pick<Table, 'name' | 'columns'>[]) =>
  tables
    .map(({ name, columns }) => JSON.stringify([name, columns.map((column) => [column.name, column.type])]))
    .sort()
    .join()

/** The table with the columns that an export has. */
function asGiven(table: Table, manifest: Manifest): Table {
  const given = manifest.tables.find(({ name }) => name === table.name)?.columns.map(({ name }) => name) ?? []
  const added = ADDED_COLUMNS[table.name] ?? []
  return { ...table, columns: table.columns.filter(({ name }) => given.includes(name) || !added.includes(name)) }
}

/**
 * @returns the tables in the order of the manifest, with the columns that it has
 * @throws TransferError unless they are exactly those that move with a tenant
 */
function tablesOf(manifest: Manifest, tables: readonly Table[]): Table[] {
  const given = new Set(manifest.tables.map(({ name }) => name))
  const expected = tables
    .filter(({ name }) => given.has(name) || !ADDED.has(name))
    .map((table) => asGiven(table, manifest))
  if (shapeOf(manifest.tables) !== shapeOf(expected))
    throw new TransferError(
      'The export has a table or column that does not belong here, or lacks one that is required. Nothing was imported.',
    )
  if (countsOf(manifest).tenants !== 1)
    throw new TransferError('The export does not contain exactly one tenant. Nothing was imported.')
  return manifest.tables.flatMap(({ name }) => expected.filter((table) => table.name === name))
}

/**
 * What a release without ID tokens wrote: guests could write any metadata, so keys that are claims today go, as in
 * 0042_id_tokens.sql. Metadata that is no object is left to the database, which refuses it.
 */
function withoutClaims(row: Row, { name, columns }: Table): Row {
  const at = columns.findIndex((column) => column.name === 'metadata')
  const metadata: unknown = name === 'users' ? parseJson(row[at] ?? '') : null
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return row
  const entries = Object.entries(metadata)
  const kept = entries.filter(([key]) => !key.startsWith(METADATA_CLAIM_PREFIX))
  return kept.length === entries.length ? row : row.with(at, JSON.stringify(Object.fromEntries(kept)))
}

/** @throws TransferError when it is no row of so many columns */
function readRow(line: string, { name, columns }: Table): Row {
  const value = parseJson(line)
  const isRow =
    Array.isArray(value) &&
    value.length === columns.length &&
    value.every((each) => each === null || (typeof each === 'string' && !each.includes('\0')))
  if (!isRow) throw new TransferError(`The export contains an invalid row of the table ${name}. Nothing was imported.`)
  return value
}

/** Text, compressed. */
export async function* compress(text: AsyncIterable<string>): AsyncGenerator<Buffer> {
  // An error in `text` destroys the last stream, and so reaches its reader.
  yield* pipeline(text, createGzip({ level: GZIP_LEVEL }), () => {})
}

/** Reverses `compress`, line by line. @throws TransferError when the content is not compressed lines */
export async function* decompress(content: AsyncIterable<Buffer>): AsyncGenerator<string> {
  try {
    for await (const line of readLines(
      pipeline(content, createGunzip(), () => {}),
      LINE_BYTES_MAX,
    )) {
      if (line === null) throw new TransferError('The export contains a row that is too large. Nothing was imported.')
      yield line.toString('utf8')
    }
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith('Z_')) throw error
    throw new TransferError('The export cannot be decompressed. Export again.', { cause: error })
  }
}

/** Rows of one table that are staged in one transaction. */
export interface Portion {
  table: Table
  rows: Row[]
  /** How many rows of the whole file came before them. */
  position: number
}

/**
 * The rows of an export from a position on, a bounded number at a time. Rows before the position are authenticated, and
 * not parsed.
 * @param begun called once with the manifest
 * @throws TransferError
 */
export async function* readPortions(
  opened: Opened,
  tables: readonly Table[],
  from: number,
  begun: (manifest: Manifest) => void,
): AsyncGenerator<Portion> {
  const lines = decompress(opened.content())
  const nextLine = async () => {
    const { done, value } = await lines.next()
    if (done) throw new TransferError('The export contains fewer rows than it declares. Nothing was imported.')
    return value
  }
  try {
    const manifest = readManifest(await nextLine())
    const inOrder = tablesOf(manifest, tables)
    begun(manifest)
    const hasClaims = inOrder.some(
      ({ name, columns }) => name === 'apps' && columns.some((one) => one.name === 'openid'),
    )
    let position = 0
    for (const table of inOrder) {
      let rows: Row[] = []
      let chars = 0
      for (let left = countsOf(manifest)[table.name] ?? 0; left > 0; left -= 1) {
        const line = await nextLine()
        position += 1
        if (position <= from) continue
        const row = readRow(line, table)
        rows.push(hasClaims ? row : withoutClaims(row, table))
        chars += line.length
        if (left > 1 && rows.length < PORTION_ROWS && chars < PORTION_CHARS) continue
        yield { table, rows, position: position - rows.length }
        rows = []
        chars = 0
      }
    }
    if (!(await lines.next()).done)
      throw new TransferError('The export contains more rows than it declares. Nothing was imported.')
  } finally {
    await lines.return(undefined)
  }
}
