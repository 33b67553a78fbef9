import { stat } from 'node:fs/promises'
import { AuditFault, type ChainPlace, type WholeLog } from '../../../insight/audit/chain.ts'
import { checkpointOf, type Noted, readCheckpoints } from '../../../insight/audit/checkpoint.ts'
import { verifyFile, type Watcher } from '../../../insight/audit/log-file.ts'
import { readLog, verifyLog } from '../../../insight/audit/verify.ts'
import type { Deps } from '../../../platform/deps.ts'
import { writeWhole } from '../../../platform/files.ts'
import type { Id } from '../../../platform/ids.ts'
import { listTenants } from '../../../tenancy/tenant/service.ts'
import { type CliContext, CommandError, counted, defineCommand, findTenant, UsageError, withDeps } from '../command.ts'
import type { Progress } from '../progress.ts'
import { readHead, readSigner } from './proof/head-options.ts'
import { recordExport } from './proof/record-export.ts'

const TENANTS_MAX = 100_000

/** Shows one stage of work. */
const watch = (progress: Progress, what: string): Watcher => ({
  begin: (total) => progress.begin(what, total),
  add: progress.add,
})

const isNoFile = (error: unknown) => (error as NodeJS.ErrnoException).code === 'ENOENT'

/** The tenants of a command: the named one, or all. */
const tenantsOf = async (deps: Deps, wanted: string | undefined): Promise<Id<'ten'>[]> =>
  wanted === undefined
    ? (await listTenants(deps.db, TENANTS_MAX)).map(({ id }) => id)
    : [await findTenant(deps, wanted)]

/** Does the same for logs, one after the other. @throws CommandError that names the first fault of each that has one */
async function forEach<T>(tenantIds: readonly Id<'ten'>[], work: (tenantId: Id<'ten'>) => Promise<T>): Promise<T[]> {
  const [results, faults]: [T[], string[]] = [[], []]
  for (const tenantId of tenantIds) {
    try {
      results.push(await work(tenantId))
    } catch (error) {
      if (!(error instanceof AuditFault)) throw error
      faults.push(`${tenantId}: ${error.message}`)
    }
  }
  if (faults.length > 0) throw new CommandError(`The audit log is not intact. ${faults.join('\n  ')}`)
  return results
}

/** `halfkey audit export` */
export const auditExport = defineCommand({
  name: 'audit export',
  summary: "Write a tenant's audit log as JSON Lines, with its signed head",
  details: `The first line names the tenant and the signing key. The last line is the signed head. The export is a snapshot of the log and checks nothing: halfkey audit verify --file FILE does that, on any machine.
The file contains people's network addresses, except those of deleted users.`,
  options: (command) =>
    command
      .requiredOption('--tenant <id>', 'the tenant')
      .option('--out <file>', 'a new file to write (default: standard output)'),
  async run({ tenant, out }, context) {
    const data = await withDeps(context, async (deps, progress) => {
      const tenantId = await findTenant(deps, tenant)
      const write = (put: (line: string) => Promise<void>) =>
        readLog(deps, tenantId, put, watch(progress, 'Exporting entries'))
      const print = async (line: string) => context.out(line)
      const entries =
        out === undefined
          ? await write(print)
          : await writeWhole(out, (file) => write((line) => file.appendFile(`${line}\n`)))
      await recordExport(deps, tenantId, 'audit_log.exported')
      return { tenantId, entries }
    })
    // Where the log itself goes to standard output nothing else does.
    if (out === undefined) return { data, lines: [] }
    return { data: { ...data, file: out }, lines: [`${data.entries} entries of ${data.tenantId} are in ${out}.`] }
  },
})

function describe(log: WholeLog): string {
  return `${log.entries} entries, ${log.head === null ? 'no head yet' : `head ${log.head.seq}:${log.head.hash}`}`
}

/** What logs are held against. */
interface Expectation {
  /** Heads that were noted. */
  places: readonly ChainPlace[]
  /** By tenant. */
  checkpoints: ReadonlyMap<string, Noted> | null
}

async function verifyExported(
  { progress }: CliContext,
  path: string,
  { places, checkpoints }: Expectation,
  signer: string | null,
): Promise<WholeLog> {
  try {
    const watcher = watch(progress, 'Verifying bytes')
    watcher.begin((await stat(path)).size)
    const expected = (tenantId: string) => [...places, ...(checkpoints?.get(tenantId)?.places ?? [])]
    const log = await verifyFile(path, { noted: expected, signer }, watcher)
    if (checkpoints?.has(log.tenantId) === false)
      throw new CommandError(`The checkpoint file has no checkpoint of ${log.tenantId}.`)
    return requireSigner(log, checkpoints?.get(log.tenantId))
  } catch (error) {
    if (isNoFile(error)) throw new CommandError(`There is no file ${path}.`)
    throw error
  }
}

/** What a checkpoint says of a log, held against it. @throws AuditFault */
function requireSigner(log: WholeLog, noted: Noted | undefined): WholeLog {
  if (noted === undefined || noted.signer === log.signer) return log
  throw new AuditFault(
    `The checkpoint is signed in the name of ${noted.signer}, and the log in the name of ${log.signer}: one of them was exchanged.`,
  )
}

/** Every log that was asked for, and every one that a checkpoint names. @throws CommandError */
function verifyStored(
  context: CliContext,
  wanted: string | undefined,
  { places, checkpoints }: Expectation,
): Promise<WholeLog[]> {
  return withDeps(context, async (deps, progress) => {
    const tenantIds = await tenantsOf(deps, wanted)
    if (wanted !== undefined && checkpoints?.has(wanted) === false)
      throw new UsageError(`The checkpoint file has no checkpoint of ${wanted}.`)
    const lost =
      wanted === undefined ? [...(checkpoints?.keys() ?? [])].filter((id) => !tenantIds.includes(id as Id<'ten'>)) : []
    return forEach([...tenantIds, ...(lost as Id<'ten'>[])], async (tenantId) => {
      const noted = checkpoints?.get(tenantId)
      if (lost.includes(tenantId))
        throw new AuditFault(`The database has no such tenant, although its log was there at ${noted?.at}.`)
      const all = [...places, ...(noted?.places ?? [])]
      return requireSigner(await verifyLog(deps, tenantId, all, watch(progress, `Verifying ${tenantId}`)), noted)
    })
  })
}

/** @throws UsageError */
function readModuleKey(text: string): string {
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new UsageError('--module-key must be a raw Ed25519 key: 64 hexadecimal digits.')
  return text.toLowerCase()
}

/** Reads the checkpoints of a file, if one is named. @throws CommandError; UsageError */
async function checkpointsIn(
  path: string | undefined,
  moduleKeys: readonly string[],
): Promise<Map<string, Noted> | null> {
  if (path === undefined && moduleKeys.length > 0) throw new UsageError('--module-key needs --checkpoint.')
  if (path === undefined) return null
  return readCheckpoints(path, moduleKeys).catch((error: unknown): never => {
    if (isNoFile(error)) throw new CommandError(`There is no file ${path}.`)
    if (error instanceof AuditFault) throw new CommandError(error.message)
    throw error
  })
}

/** `halfkey audit checkpoint` */
export const auditCheckpoint = defineCommand({
  name: 'audit checkpoint',
  summary: 'Write signed checkpoints, which say how far audit logs have come',
  details: `Writes a line of JSON for each tenant: the number and hash of the last entry, signed by the key that signs the log's head. Send it to a place where nobody who can write to the database can change it. halfkey audit verify --checkpoint FILE later shows whether everything up to it is still there.
If HALFKEY_SIGNERS names a key for checkpoints, the hardware module signs each of them, too.
It does not verify the entries. It refuses a log whose head is missing or was altered.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only the log of this tenant (default: all tenants)')
      .option('--out <file>', 'a new file to write (default: standard output)'),
  async run({ tenant, out }, context) {
    const found = await withDeps(context, async (deps) =>
      forEach(await tenantsOf(deps, tenant), (tenantId) => checkpointOf(deps, tenantId)),
    )
    const checkpoints = found.filter((line) => line !== null)
    const data = { checkpoints: checkpoints.length }
    if (out === undefined) {
      for (const line of checkpoints) context.out(line)
      return { data: null, lines: [] }
    }
    await writeWhole(out, (file) => file.appendFile(checkpoints.map((line) => `${line}\n`).join('')))
    return { data: { ...data, file: out }, lines: [`${counted(checkpoints.length, 'checkpoint')} in ${out}.`] }
  },
})

/** `halfkey audit verify` */
export const auditVerify = defineCommand({
  name: 'audit verify',
  summary: 'Prove that audit logs were not changed',
  details: `Recomputes every hash, and checks the order, gaps and the signature of the head. Prints the head. If an entry was altered, removed or inserted, it prints the first such entry and exits with 1.
Reads the database and changes nothing. With --file, it checks an export and needs nothing but the file.
--head checks that the log still contains everything that it contained at an earlier run, and --checkpoint that all logs contain what they contained when halfkey audit checkpoint ran. Store heads and checkpoints where nobody who can write to the database can change them.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only the log of this tenant (default: all tenants)')
      .option('--file <file>', 'check an export instead of the database')
      .option(
        '--signer <fingerprint>',
        "who must have signed the file: the last part of the tenant's party ids",
        readSigner,
      )
      .option('--head <seq:hash>', 'a head that an earlier run printed', readHead)
      .option('--checkpoint <file>', 'checkpoints that halfkey audit checkpoint wrote')
      .option(
        '--module-key <hex...>',
        'refuse checkpoints that none of these keys in a hardware module signed, as halfkey doctor prints them',
      ),
  async run({ tenant, file, signer = null, head, checkpoint, moduleKey = [] }, context) {
    if (file !== undefined && tenant !== undefined)
      throw new UsageError('Give either --tenant or --file: a file contains the log of one tenant.')
    if (file === undefined && signer !== null)
      throw new UsageError('--signer needs --file: the database is checked with the key itself.')
    if (file === undefined && tenant === undefined && head !== undefined)
      throw new UsageError('--head needs --tenant or --file: a head belongs to one log.')
    const places = head === undefined ? [] : [head]
    const checkpoints = await checkpointsIn(checkpoint, moduleKey.map(readModuleKey))
    if (file !== undefined) {
      const log = await verifyExported(context, file, { places, checkpoints }, signer)
      const origin = `The file says that it is the log of ${log.tenantId}. It is signed by ${log.signer}.`
      return { data: { logs: [log] }, lines: [describe(log), origin] }
    }
    const logs = await verifyStored(context, tenant, { places, checkpoints })
    return { data: { logs }, lines: logs.map((log) => `${logs.length > 1 ? `${log.tenantId}: ` : ''}${describe(log)}`) }
  },
})
