import { createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import { AuditFault, type ChainPlace, type WholeLog } from '../../insight/audit/chain.ts'
import { verifyFile, type Watcher } from '../../insight/audit/log-file.ts'
import { readLog, verifyLog } from '../../insight/audit/verify.ts'
import type { Id } from '../../platform/ids.ts'
import { listTenants } from '../../tenancy/tenant/service.ts'
import { type CliContext, type Command, CommandError, readOptions, required, UsageError, withDeps } from './command.ts'
import { findTenant } from './keys.ts'
import { createProgress } from './progress.ts'

const TENANTS_MAX = 100_000
/** For the owner alone: a log holds addresses. */
const FILE_MODE = 0o600

/** Shows how far a stage is; `entries` are what it counts. */
function watch(context: CliContext, what: string): Watcher & { end(): void } {
  const progress = createProgress(context)
  return { begin: (total) => progress.begin(what, total), add: progress.add, end: progress.end }
}

const isNoFile = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** A new file that is there whole or not at all. */
async function writeWhole(
  path: string,
  write: (line: (text: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  if (await stat(path).catch(() => null))
    throw new CommandError(`${path} exists already. Name another file, or take that one away.`)
  const partial = `${path}.partial`
  const stream = createWriteStream(partial, { mode: FILE_MODE, flush: true })
  const ended = finished(stream)
  // Told of by whoever writes next.
  ended.catch(() => {})
  try {
    await write(async (text) => {
      if (!stream.write(`${text}\n`))
        await Promise.race([ended, new Promise<void>((resolve) => stream.once('drain', resolve))])
    })
    stream.end()
    await ended
    await rename(partial, path)
  } catch (error) {
    stream.destroy()
    await rm(partial, { force: true })
    if (isNoFile(error)) throw new CommandError(`There is no folder for ${path}.`)
    throw error
  }
}

/** `halfkey audit export` */
export const auditExport: Command = {
  name: 'audit export',
  summary: "Write a tenant's audit log as JSON Lines, with its signed head",
  usage: '--tenant ID [--out FILE]',
  details: [
    'The first line says whose log it is and by which key it is signed, the last one is the signed head. What is exported',
    'is the log as it is at one moment; nothing is checked: halfkey audit verify --file FILE does that, on any machine.',
    'The file holds addresses of people. Those of users who were deleted before are not in it.',
  ],
  async run(args, context) {
    const options = readOptions(auditExport, args, { tenant: { type: 'string' }, out: { type: 'string' } })
    const wanted = required(auditExport, 'tenant', options.tenant)
    const { out } = options
    const watcher = watch(context, 'Exporting entries')
    const { tenantId, entries } = await withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, wanted)
      let entries = 0
      const write = async (line: (text: string) => Promise<void>) => {
        entries = await readLog(deps, tenantId, line, watcher)
      }
      if (out === undefined) await write(async (text) => context.out(text))
      else await writeWhole(out, write)
      return { tenantId, entries }
    }).finally(watcher.end)
    // Where the log itself goes to standard output nothing else does.
    if (out === undefined) return { data: { tenantId, entries }, lines: [] }
    return { data: { tenantId, entries, file: out }, lines: [`${entries} entries of ${tenantId} are in ${out}.`] }
  },
}

function readHead(text: string | undefined): ChainPlace | null {
  if (text === undefined) return null
  const match = /^([1-9]\d{0,15}):([0-9a-f]{64})$/.exec(text.toLowerCase())
  if (match === null) throw new UsageError('--head must be SEQ:HASH, as audit verify prints it.')
  return { seq: Number(match[1]), hash: match[2] as string }
}

function readSigner(text: string | undefined): string | null {
  if (text === undefined) return null
  const signer = text.slice(text.lastIndexOf(':') + 1).toLowerCase()
  if (!/^1220[0-9a-f]{64}$/.test(signer))
    throw new UsageError("--signer must be a key's fingerprint: 1220 and 64 more hexadecimal digits.")
  return signer
}

function tell(log: WholeLog, prefix: string): string[] {
  const head = log.head === null ? 'no head yet' : `head ${log.head.seq}:${log.head.hash}`
  return [`${prefix}${log.entries} entries, ${head}`]
}

async function verifyExported(context: CliContext, path: string, expected: Parameters<typeof verifyFile>[1]) {
  const watcher = watch(context, 'Verifying bytes')
  try {
    watcher.begin((await stat(path)).size)
    return await verifyFile(path, expected, watcher)
  } catch (error) {
    if (isNoFile(error)) throw new CommandError(`There is no file ${path}.`)
    throw error
  } finally {
    watcher.end()
  }
}

/** Every log that was asked for. @throws CommandError that names the first fault of each that has one */
function verifyStored(context: CliContext, wanted: string | undefined, noted: ChainPlace | null): Promise<WholeLog[]> {
  return withDeps(context, async (deps) => {
    const tenantIds: Id<'ten'>[] =
      wanted === undefined
        ? (await listTenants(deps.db, TENANTS_MAX)).map(({ id }) => id)
        : [await findTenant(deps, wanted)]
    const [logs, faults]: [WholeLog[], string[]] = [[], []]
    for (const tenantId of tenantIds) {
      const watcher = watch(context, `Verifying ${tenantId}`)
      try {
        logs.push(await verifyLog(deps, tenantId, noted, watcher))
      } catch (error) {
        if (!(error instanceof AuditFault)) throw error
        faults.push(`${tenantId}: ${error.message}`)
      } finally {
        watcher.end()
      }
    }
    if (faults.length > 0) throw new CommandError(`The audit log does not hold. ${faults.join('\n  ')}`)
    return logs
  })
}

/** `halfkey audit verify` */
export const auditVerify: Command = {
  name: 'audit verify',
  summary: 'Prove that audit logs are as they were written',
  usage: '[--tenant ID | --file FILE [--signer FINGERPRINT]] [--head SEQ:HASH]',
  details: [
    'Recomputes every hash and checks the order, the gaps and the signature of the end. Prints the head, or the first entry',
    'that is altered, missing or inserted, and then ends with 1.',
    'Without --file it reads the database and changes nothing in it; without --tenant the logs of all tenants.',
    '--file checks an export, with nothing but the file. --signer is the fingerprint that the log must be signed by: what',
    "the ids of the tenant's parties end with.",
    '--head is a head that an earlier run printed: it shows whether what stood in the log then still does. Keep heads where',
    'nobody who can write to the database can.',
  ],
  async run(args, context) {
    const text = { type: 'string' } as const
    const options = readOptions(auditVerify, args, { tenant: text, file: text, head: text, signer: text })
    const { tenant, file } = options
    const [noted, signer] = [readHead(options.head), readSigner(options.signer)]
    if (file !== undefined && tenant !== undefined)
      throw new UsageError('Give either --tenant or --file: a file is of one tenant.')
    if (file === undefined && signer !== null)
      throw new UsageError('--signer is for --file: the database is checked by the key itself.')
    if (file === undefined && tenant === undefined && noted !== null)
      throw new UsageError("--head needs --tenant or --file: it is one log's.")
    const logs =
      file === undefined
        ? await verifyStored(context, tenant, noted)
        : [await verifyExported(context, file, { noted, signer })]
    const [first] = logs
    const lines = logs.flatMap((log) => tell(log, logs.length > 1 ? `${log.tenantId}: ` : ''))
    if (file !== undefined && first !== undefined)
      lines.push(`The file says that it is the log of ${first.tenantId}. It is signed by ${first.signer}.`)
    return { data: { logs }, lines }
  },
}
