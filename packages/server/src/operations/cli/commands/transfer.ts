import type { Id } from '../../../platform/ids.ts'
import { reconcileSubscriptions } from '../../../tenancy/billing/processor-events.ts'
import { exportTenant } from '../../transfer/export.ts'
import { discardImport, type Imported, importTenant } from '../../transfer/import.ts'
import { defineCommand, type Result, runAlone, UsageError, withDeps } from '../command.ts'
import { recordExport } from './proof/record-export.ts'

/** `halfkey export` */
export const exportCommand = defineCommand({
  name: 'export',
  summary: "Write all of a tenant's data into an encrypted file, for another installation",
  details: `You can run it while the service runs: the file is a snapshot of the tenant. If it is interrupted, run it again: it starts from the beginning.
The key file holds a separate key, not the one of HALFKEY_KEK_FILE. Create it with: (umask 077; halfkey keys generate-kek > transfer.key)
Both files together give access to all of the tenant's data. Send them separately, and delete both after the tenant has moved. docs/moving.md says what moves, and in which order.`,
  options: (command) =>
    command
      .requiredOption('--tenant <id>', 'the tenant to export')
      .requiredOption('--out <file>', 'the encrypted file to write')
      .requiredOption('--key-file <file>', 'the file with the key to encrypt with'),
  async run({ tenant: tenantId, out, keyFile }, context) {
    const done = await withDeps(context, async (deps, progress) => {
      const exported = await exportTenant(deps, { tenantId, out, keyFile, progress })
      await recordExport(deps, tenantId as Id<'ten'>, 'tenant.exported')
      return exported
    })
    return {
      data: { ...done, file: out },
      lines: [
        `Tenant ${tenantId} is in ${out}: export ${done.exportId}, ${done.rows} rows, ${done.bytes} bytes.`,
        'Import it into the new installation with: halfkey import --file FILE --key-file FILE',
      ],
    }
  },
})

const ALONE = { lock: 4_812_570_353, what: '`halfkey import` is running on this database' }

function linesOf({ tenantId, rows, resumedAt, dryRun }: Imported): string[] {
  if (dryRun) return [`The export of tenant ${tenantId} can be imported: ${rows} rows. Nothing was written.`]
  const resumed = resumedAt === 0 ? '' : `, ${resumedAt} of which an earlier run had staged`
  return [`Tenant ${tenantId} is live here: ${rows} rows${resumed}.`, 'Delete the export and its key file now.']
}

/** `halfkey import` */
export const importCommand = defineCommand({
  name: 'import',
  summary: 'Import a tenant that another installation exported',
  details:
    'If an import is interrupted, run it again: it continues where it stopped. Nobody can use the tenant before the last step, which makes all of its data live at once.',
  options: (command) =>
    command
      .option('--file <file>', 'the export; required unless --discard is given')
      .option('--key-file <file>', 'the file with the key that the export was encrypted with')
      .option('--dry-run', 'check the file, its key and conflicts with existing data; write nothing')
      .option('--discard <export-id>', 'remove what an abandoned import has staged'),
  async run({ file = '', keyFile = '', dryRun = false, discard }, context): Promise<Result> {
    if (discard !== undefined) {
      if (file !== '' || keyFile !== '' || dryRun)
        throw new UsageError(
          '--discard cannot be combined with other options. Usage: halfkey import --discard EXPORT-ID',
        )
      const done = await withDeps(context, (deps) => runAlone(deps, ALONE, () => discardImport(deps, discard)))
      return {
        data: { ...done, discarded: true },
        lines: [`Deleted what the import of ${discard} (tenant ${done.tenantId}) had staged.`],
      }
    }
    for (const [option, value] of Object.entries({ '--file': file, '--key-file': keyFile }))
      if (value.trim() === '')
        throw new UsageError(`${option} is missing. Usage: halfkey import --file FILE --key-file FILE [--dry-run]`)
    const done = await withDeps(context, (deps, progress) =>
      runAlone(deps, ALONE, async (goOn) => {
        const imported = await importTenant(deps, { file, keyFile, dryRun, progress, goOn })
        // So that what is paid for counts at once; else a worker asks within the hour.
        if (!dryRun) await reconcileSubscriptions(deps)
        return imported
      }),
    )
    return { data: { ...done }, lines: linesOf(done) }
  },
})
