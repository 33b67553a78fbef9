import { randomUUID } from 'node:crypto'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { newId } from '../../platform/ids.ts'
import { openKeyFile } from '../../platform/security/key-provider.ts'
import { newKeyLine } from '../../platform/security/key-services/key-lines.ts'
import { runCli } from '../cli/cli.ts'
import { copiedTables } from './catalogue-store.ts'
import { type Header, openContainer, writeContainer } from './container.ts'
import { compress, decompress, type Manifest, readManifest } from './lines.ts'
import { tenantColumn } from './tables.ts'

/** A folder for exports and keys. */
export interface Workbench {
  path(name: string): string
  /** A new key file of mode 0600. */
  newKey(name?: string): string
  remove(): void
}

/** A temporary folder. */
export function newWorkbench(): Workbench {
  const folder = mkdtempSync(join(tmpdir(), 'halfkey-transfer-'))
  const path = (name: string) => join(folder, name)
  let keys = 0
  return {
    path,
    newKey(name) {
      keys += 1
      const file = path(name ?? `transfer-${keys}.key`)
      writeFileSync(file, `${newKeyLine()}\n`, { mode: 0o600 })
      chmodSync(file, 0o600)
      return file
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Runs a command of the command line in this process, with a service's parts. */
export async function halfkey(service: Pick<Service, 'deps'>, ...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const exitCode = await runCli(args, {
    openDeps: async () => ({ deps: service.deps, close: async () => {} }),
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
  })
  return { exitCode, out: out.join('\n'), err: err.join('\n') }
}

/** Exports a tenant. @throws Error with what the command said, if it fails */
export async function exportTo(service: Pick<Service, 'deps'>, tenantId: string, out: string, keyFile: string) {
  const done = await halfkey(service, 'export', '--tenant', tenantId, '--out', out, '--key-file', keyFile, '--json')
  if (done.exitCode !== 0) throw new Error(done.err)
  return JSON.parse(done.out)
}

/** Imports a file. */
export const importFrom = (service: Pick<Service, 'deps'>, file: string, keyFile: string, ...more: string[]) =>
  halfkey(service, 'import', '--file', file, '--key-file', keyFile, ...more)

/** The same tenant, with the same keys, at another service. */
export function tenantAt(service: Pick<Service, 'url'>, tenant: Tenant): Tenant {
  const moved: Tenant = {
    ...tenant,
    call: (method, path, options = {}) => call(service.url, method, `/v1${path}`, { key: tenant.key, ...options }),
    get: (path, options) => moved.call('GET', path, options),
    post: (path, body, options) => moved.call('POST', path, body === undefined ? options : { body, ...options }),
    patch: (path, body, options) => moved.call('PATCH', path, body === undefined ? options : { body, ...options }),
    delete: (path, options) => moved.call('DELETE', path, options),
    async newKey(input) {
      const { appId = tenant.appId, ...rest } = input
      const type = 'publishable' in rest ? { type: 'publishable', appId } : { type: 'secret', ...rest }
      return (await moved.post('/api-keys', { name: 'test', ...type })).body.data.key as string
    },
  }
  return moved
}

/** What an export holds, decrypted: rows by table, as lines. Sealed values, which differ at each wrapping, apart. */
export async function contentOf(
  file: string,
  keyFile: string,
): Promise<{ manifest: Manifest; rows: Map<string, string[]> }> {
  const opened = await openContainer(file, await openKeyFile(keyFile, { create: false }))
  const lines: string[] = []
  for await (const line of decompress(opened.content())) lines.push(line)
  const manifest = readManifest(lines.shift())
  const rows = new Map(manifest.tables.map((table) => [table.name, lines.splice(0, table.rows)]))
  return { manifest, rows }
}

/** The same without what wrapping anew changes: of sealed values their ciphertext alone. */
export async function comparable(file: string, keyFile: string): Promise<Record<string, string[]>> {
  const { manifest, rows } = await contentOf(file, keyFile)
  const found: Record<string, string[]> = {}
  for (const { name, columns } of manifest.tables) {
    const places = columns.flatMap((column, at) => (column.name.endsWith('_sealed') ? [at] : []))
    found[name] = (rows.get(name) as string[]).map((line) => {
      if (places.length === 0) return line
      const row = JSON.parse(line) as (string | null)[]
      for (const place of places) if (row[place] != null) row[place] = ciphertextOf(row[place])
      return JSON.stringify(row)
    })
  }
  return found
}

function ciphertextOf(hex: string): string {
  const sealed = Buffer.from(hex.slice(2), 'hex')
  const keyIdEnd = 2 + (sealed[1] ?? 0)
  return sealed.subarray(keyIdEnd + 2 + sealed.readUInt16BE(keyIdEnd)).toString('hex')
}

/** The file with some of its bytes changed, under another name. */
export function changed(file: string, change: (bytes: Buffer) => Buffer): string {
  const other = `${file}.changed`
  writeFileSync(other, change(readFileSync(file)))
  return other
}

/** A value that only an exact copy gives again, as SQL: none of them is a round one. */
const ODD: Record<string, string> = {
  bigint: '281474976710655',
  boolean: 'true',
  bytea: String.raw`'\x00ff5c27'`,
  date: "'2026-02-28'",
  integer: '-7',
  json: `'{"b" : 1.0,\n "a":"\\u0000 \\u00e9", "b":2}'`,
  jsonb: `'{"a": [null, 1e3, "\\""]}'`,
  'numeric(38,10)': '1234567890123456789012345678.0000000001',
  smallint: '3',
  'text[]': `array['a,b', '"', '{}', E'\\\\', 'ü']`,
  'timestamp with time zone': "'2026-11-21 14:41:32.123456+05:30'",
}

/** Columns that take some texts only. */
const GIVEN: Record<string, string> = {
  'app_issuers.app_id': '(select min(id) from apps where tenant_id = $1)',
  'app_providers.app_id': '(select min(id) from apps where tenant_id = $1)',
  // What another key seals opens for nobody.
  'app_providers.client_secret_sealed': 'null',
  'approval_assertions.approval_id': '(select min(id) from approvals where tenant_id = $1)',
  'approval_assertions.user_id': '(select min(id) from users where tenant_id = $1)',
  'approvals.delegated_session_id': '(select min(id) from delegated_sessions where tenant_id = $1)',
  'app_logos.app_id': '(select min(id) from apps where tenant_id = $1)',
  'counter_increments.metric': "'api_requests'",
  'email_templates.app_id': '(select min(id) from apps where tenant_id = $1)',
  'event_types.app_id': '(select min(id) from apps where tenant_id = $1)',
  'member_identities.member_id': '(select min(id) from members where tenant_id = $1)',
  'member_sign_in.client_secret_sealed': 'null',
  'member_passkeys.member_id': '(select min(id) from members where tenant_id = $1)',
  'subscribers.app_id': '(select min(id) from apps where tenant_id = $1)',
  'token_holdings.wallet_id': '(select min(id) from wallets where tenant_id = $1)',
  'token_offers.wallet_id': '(select min(id) from wallets where tenant_id = $1)',
  'wallet_recipients.wallet_id': '(select min(id) from wallets where tenant_id = $1)',
  'wallet_spending.wallet_id': '(select min(id) from wallets where tenant_id = $1)',
}

/** Gives a tenant a row in every table that moves and where it has none yet. */
export async function fillEmptyTables(service: Pick<Service, 'deps' | 'sql'>, tenantId: string): Promise<string[]> {
  const filled: string[] = []
  for (const { name, columns } of await copiedTables(service.deps.db)) {
    const [row] = await service.sql<{ n: number }>(
      `select count(*)::int as n from ${name} where ${tenantColumn(name)} = $1`,
      [tenantId],
    )
    if (row?.n !== 0) continue
    const values = columns.map(
      (column) => GIVEN[`${name}.${column.name}`] ?? ODD[column.type] ?? `'${column.name} of ${tenantId}\n\t'`,
    )
    const names = columns.map((column) => `"${column.name}"`)
    // What is made anew stands in no export, and may have no default.
    if (name === 'subscriptions') {
      names.push('updated_at')
      values.push('now()')
    }
    await service.sql(`insert into ${name} (tenant_id, ${names.join(', ')}) values ($1, ${values.join(', ')})`, [
      tenantId,
    ])
    filled.push(name)
  }
  return filled
}

/** What a file made by hand says, where it is other than a right one. */
export interface Crafted {
  header?: Partial<Omit<Header, 'format' | 'key'>>
  /** Changes the manifest and the rows, which are in its order. */
  change?(manifest: Manifest, rows: Map<string, string[]>): void
  /** Lines instead of all that. */
  lines?: AsyncIterable<string> | string[]
}

/** A file under the right key that the service would not have written, beside the one that it is made of. */
export async function craft(file: string, keyFile: string, { header, change, lines }: Crafted): Promise<string> {
  const keys = await openKeyFile(keyFile, { create: false })
  const opened = await openContainer(file, keys)
  const { format: _, key: __, ...about } = opened.header
  const { manifest, rows } = await contentOf(file, keyFile)
  change?.(manifest, rows)
  async function* text(): AsyncGenerator<string> {
    if (lines !== undefined) {
      for await (const line of lines) yield `${line}\n`
      return
    }
    yield `${JSON.stringify(manifest)}\n`
    for (const line of [...rows.values()].flat()) yield `${line}\n`
  }
  const other = `${file}.${newId('job')}`
  const exportId = randomUUID().replaceAll('-', '')
  const parts: Buffer[] = []
  for await (const part of writeContainer(keys, { ...about, exportId, ...header }, compress(text()))) parts.push(part)
  writeFileSync(other, Buffer.concat(parts))
  return other
}
