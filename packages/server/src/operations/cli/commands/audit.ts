import { stat } from 'node:fs/promises'
import { AuditFault, type ChainPlace, type WholeLog } from '../../../insight/audit/chain.ts'
import { verifyFile, type Watcher } from '../../../insight/audit/log-file.ts'
import { readLog, verifyLog } from '../../../insight/audit/verify.ts'
import { writeWhole } from '../../../platform/files.ts'
import type { Id } from '../../../platform/ids.ts'
import { listTenants } from '../../../tenancy/tenant/service.ts'
import { type CliContext, CommandError, defineCommand, findTenant, UsageError, withDeps } from '../command.ts'
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

async function verifyExported(
  { progress }: CliContext,
  path: string,
  expected: Parameters<typeof verifyFile>[1],
): Promise<WholeLog> {
  try {
    const watcher = watch(progress, 'Verifying bytes')
    watcher.begin((await stat(path)).size)
    return await verifyFile(path, expected, watcher)
  } catch (error) {
    if (isNoFile(error)) throw new CommandError(`There is no file ${path}.`)
    throw error
  }
}

/** Every log that was asked for. @throws CommandError that names the first fault of each that has one */
function verifyStored(context: CliContext, wanted: string | undefined, noted: ChainPlace | null): Promise<WholeLog[]> {
  return withDeps(context, async (deps, progress) => {
    const tenantIds: Id<'ten'>[] =
      wanted === undefined
        ? (await listTenants(deps.db, TENANTS_MAX)).map(({ id }) => id)
        : [await findTenant(deps, wanted)]
    const [logs, faults]: [WholeLog[], string[]] = [[], []]
    for (const tenantId of tenantIds) {
      try {
        logs.push(await verifyLog(deps, tenantId, noted, watch(progress, `Verifying ${tenantId}`)))
      } catch (error) {
        if (!(error instanceof AuditFault)) throw error
        faults.push(`${tenantId}: ${error.message}`)
      }
    }
    if (faults.length > 0) throw new CommandError(`The audit log is not intact. ${faults.join('\n  ')}`)
    return logs
  })
}

/** `halfkey audit verify` */
export const auditVerify = defineCommand({
  name: 'audit verify',
  summary: 'Prove that audit logs were not changed',
  details: `Recomputes every hash, and checks the order, gaps and the signature of the head. Prints the head. If an entry was altered, removed or inserted, it prints the first such entry and exits with 1.
Reads the database and changes nothing. With --file, it checks an export and needs nothing but the file.
--head checks that the log still contains everything that it contained at an earlier run. Store heads where nobody who can write to the database can change them.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only the log of this tenant (default: all tenants)')
      .option('--file <file>', 'check an export instead of the database')
      .option(
        '--signer <fingerprint>',
        "who must have signed the file: the last part of the tenant's party ids",
        readSigner,
      )
      .option('--head <seq:hash>', 'a head that an earlier run printed', readHead),
  async run({ tenant, file, signer = null, head: noted = null }, context) {
    if (file !== undefined && tenant !== undefined)
      throw new UsageError('Give either --tenant or --file: a file contains the log of one tenant.')
    if (file === undefined && signer !== null)
      throw new UsageError('--signer needs --file: the database is checked with the key itself.')
    if (file === undefined && tenant === undefined && noted !== null)
      throw new UsageError('--head needs --tenant or --file: a head belongs to one log.')
    if (file !== undefined) {
      const log = await verifyExported(context, file, { noted, signer })
      const origin = `The file says that it is the log of ${log.tenantId}. It is signed by ${log.signer}.`
      return { data: { logs: [log] }, lines: [describe(log), origin] }
    }
    const logs = await verifyStored(context, tenant, noted)
    return { data: { logs }, lines: logs.map((log) => `${logs.length > 1 ? `${log.tenantId}: ` : ''}${describe(log)}`) }
  },
})
