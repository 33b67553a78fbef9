import { stat } from 'node:fs/promises'
import { writeWhole } from '../../../../platform/files.ts'
import type { Id } from '../../../../platform/ids.ts'
import { listTenants } from '../../../../tenancy/tenant/service.ts'
import {
  exportLedger,
  LedgerFault,
  type NotedPlace,
  verifyLedger,
  verifyLedgerFile,
  type Watcher,
  type WholeLedger,
} from '../../../../wallets/ledger/proof/service.ts'
import { type CliContext, CommandError, defineCommand, findTenant, UsageError, withDeps } from '../../command.ts'
import type { Progress } from '../../progress.ts'
import { readHead, readSigner } from './head-options.ts'
import { recordExport } from './record-export.ts'

const TENANTS_MAX = 100_000

const watch = (progress: Progress, what: string): Watcher => ({
  begin: (total) => progress.begin(what, total),
  add: progress.add,
})

/** `halfkey ledger export` */
export const ledgerExport = defineCommand({
  name: 'ledger export',
  summary: "Write the proof of a tenant's embedded ledger as JSON Lines",
  details: `The file has every transaction's bytes and signatures, the chain of updates and its signed head. It checks nothing: halfkey ledger verify --offline FILE does that, on any machine. The file shows what every wallet of the tenant did.`,
  options: (command) =>
    command.requiredOption('--tenant <id>', 'the tenant').requiredOption('--out <file>', 'a new file to write'),
  async run({ tenant, out }, context) {
    const data = await withDeps(context, async (deps, progress) => {
      const tenantId = await findTenant(deps, tenant)
      const updates = await writeWhole(out, (file) =>
        exportLedger(deps, tenantId, (line) => file.appendFile(`${line}\n`), watch(progress, 'Exporting updates')),
      )
      await recordExport(deps, tenantId, 'ledger.exported')
      return { tenantId, updates, file: out }
    })
    return { data, lines: [`${data.updates} updates of ${data.tenantId} are in ${out}.`] }
  },
})

function describe({ updates, pending, active, head }: WholeLedger): string {
  const waiting = pending === 0 ? '' : `, ${pending} of them not chained yet`
  const end = head === null ? 'no head yet' : `head ${head.seq}:${head.hash}`
  return `${updates} updates${waiting}, ${active} active contracts, ${end}`
}

async function verifyOffline(
  { progress }: CliContext,
  path: string,
  expected: Parameters<typeof verifyLedgerFile>[1],
): Promise<WholeLedger> {
  try {
    progress.begin('Verifying bytes', (await stat(path)).size)
    return await verifyLedgerFile(path, expected, progress.add)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new CommandError(`There is no file ${path}.`)
    if (error instanceof LedgerFault) throw new CommandError(`The ledger is not intact. ${error.message}`)
    throw error
  }
}

/** Every ledger that was asked for. @throws CommandError that names the first fault of each that has one */
function verifyStored(context: CliContext, wanted: string | undefined, noted: NotedPlace | null) {
  return withDeps(context, async (deps, progress) => {
    const tenantIds: Id<'ten'>[] =
      wanted === undefined
        ? (await listTenants(deps.db, TENANTS_MAX)).map(({ id }) => id)
        : [await findTenant(deps, wanted)]
    const [ledgers, faults]: [WholeLedger[], string[]] = [[], []]
    for (const tenantId of tenantIds) {
      try {
        ledgers.push(await verifyLedger(deps, tenantId, noted, watch(progress, `Verifying ${tenantId}`)))
      } catch (error) {
        if (!(error instanceof LedgerFault)) throw error
        faults.push(`${tenantId}: ${error.message}`)
      }
    }
    if (faults.length > 0) throw new CommandError(`The ledger is not intact. ${faults.join('\n  ')}`)
    return ledgers
  })
}

/** `halfkey ledger verify` */
export const ledgerVerify = defineCommand({
  name: 'ledger verify',
  summary: 'Prove that the embedded ledger was not changed',
  details: `Executes every transaction again, from its bytes and signatures alone, and compares the result with the tables. Checks that the chain of updates is whole up to its signed head. Prints the head. At a fault, it names the first one and exits with 1.
Reads the database and changes nothing. With --offline, it checks an export and needs nothing but the file.
--head checks that the chain still contains everything that it contained at an earlier run. Store heads where nobody who can write to the database can change them.`,
  options: (command) =>
    command
      .option('--tenant <id>', 'only the ledger of this tenant (default: all tenants)')
      .option('--offline <file>', 'check an export instead of the database')
      .option('--signer <fingerprint>', "whose the file must be: the last part of the tenant's party ids", readSigner)
      .option('--head <seq:hash>', 'a head that an earlier run printed', readHead),
  async run({ tenant, offline, signer = null, head: noted = null }, context) {
    if (offline !== undefined && tenant !== undefined)
      throw new UsageError('Give either --tenant or --offline: a file contains the ledger of one tenant.')
    if (offline === undefined && signer !== null)
      throw new UsageError('--signer needs --offline: the database is checked with the key itself.')
    if (offline === undefined && tenant === undefined && noted !== null)
      throw new UsageError('--head needs --tenant or --offline: a head belongs to one ledger.')
    if (offline !== undefined) {
      const ledger = await verifyOffline(context, offline, { noted, signer })
      const origin = `The file says that it is the ledger of ${ledger.tenantId}. Its node is ${ledger.signer}.`
      return { data: { ledgers: [ledger] }, lines: [describe(ledger), origin] }
    }
    const ledgers = await verifyStored(context, tenant, noted)
    const lines = ledgers.map((each) => `${ledgers.length > 1 ? `${each.tenantId}: ` : ''}${describe(each)}`)
    return { data: { ledgers }, lines }
  },
})
