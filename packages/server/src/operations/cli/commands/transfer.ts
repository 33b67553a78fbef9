import { reconcileSubscriptions } from '../../../tenancy/billing/processor-events.ts'
import { exportTenant } from '../../transfer/export.ts'
import { discardImport, type Imported, importTenant } from '../../transfer/import.ts'
import { defineCommand, type Result, runAlone, UsageError, withDeps } from '../command.ts'

/** `halfkey export` */
export const exportCommand = defineCommand({
  name: 'export',
  summary: 'Write everything of a tenant into an encrypted file, for another installation',
  details: `Can run beside the service: the file holds the tenant as it is at one moment. An interrupted export starts again from the beginning.
The key file holds a separate key, not the one of HALFKEY_KEK_FILE. Make it with: (umask 077; halfkey keys generate-kek > transfer.key)
Both files together give access to everything of the tenant: send them separately, and delete both once the tenant has moved. What moves, and in which order: docs/moving.md`,
  options: (command) =>
    command
      .requiredOption('--tenant <id>', 'the tenant to export')
      .requiredOption('--out <file>', 'the encrypted file to write')
      .requiredOption('--key-file <file>', 'the file with the key to encrypt with'),
  async run({ tenant: tenantId, out, keyFile }, context) {
    const done = await withDeps(context, (deps, progress) => exportTenant(deps, { tenantId, out, keyFile, progress }))
    return {
      data: { ...done, file: out },
      lines: [
        `Tenant ${tenantId} is in ${out}: export ${done.exportId}, ${done.rows} rows, ${done.bytes} bytes.`,
        'Bring it into the new installation with: halfkey import --file FILE --key-file FILE',
      ],
    }
  },
})

const ALONE = { lock: 4_812_570_353, what: '`halfkey import` is at work on this database' }

function linesOf({ tenantId, rows, resumedAt, dryRun }: Imported): string[] {
  if (dryRun) return [`The export of tenant ${tenantId} fits: ${rows} rows. Nothing was written.`]
  const resumed = resumedAt === 0 ? '' : `, ${resumedAt} of which an earlier run had staged`
  return [`Tenant ${tenantId} is live here: ${rows} rows${resumed}.`, 'Delete the export and its key file now.']
}

/** `halfkey import` */
export const importCommand = defineCommand({
  name: 'import',
  summary: 'Bring a tenant that another installation exported into this one',
  details:
    'An interrupted import continues where it stopped when run again. Nobody can use the tenant before the last step, which makes everything of it live at once.',
  options: (command) =>
    command
      .option('--file <file>', 'the export; needed unless --discard is given')
      .option('--key-file <file>', 'the file with the key that the export was encrypted with')
      .option('--dry-run', 'check the file, its key and what is here already; write nothing')
      .option('--discard <export-id>', 'remove what an abandoned import has staged'),
  async run({ file = '', keyFile = '', dryRun = false, discard }, context): Promise<Result> {
    if (discard !== undefined) {
      if (file !== '' || keyFile !== '' || dryRun)
        throw new UsageError('--discard stands alone. Usage: halfkey import --discard EXPORT-ID')
      const done = await withDeps(context, (deps) => runAlone(deps, ALONE, () => discardImport(deps, discard)))
      return {
        data: { ...done, discarded: true },
        lines: [`What the import of ${discard} (tenant ${done.tenantId}) had staged is gone.`],
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
