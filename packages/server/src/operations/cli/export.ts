import { exportTenant } from '../transfer/export.ts'
import { defineCommand, withDeps } from './command.ts'

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
