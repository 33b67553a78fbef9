import { exportTenant } from '../transfer/export.ts'
import { type Command, readOptions, required, withDeps } from './command.ts'
import { createProgress } from './progress.ts'

const OPTIONS = { tenant: { type: 'string' }, out: { type: 'string' }, 'key-file': { type: 'string' } } as const

/** `halfkey export` */
export const exportCommand: Command = {
  name: 'export',
  summary: 'Write everything of a tenant into an encrypted file, for another installation',
  usage: '--tenant ID --out FILE --key-file FILE',
  details: [
    'While the service runs: the file holds the tenant as it is at one moment. Interrupted, it begins anew.',
    'The key file holds a key of its own, not the one of HALFKEY_KEK_FILE. Make it with:',
    '(umask 077; halfkey keys generate-kek > transfer.key)',
    'Whoever has both files has all of the tenant: send them apart, and delete both once the tenant has moved.',
    'What moves, and in which order to go about it: docs/moving.md',
  ],
  async run(args, context) {
    const options = readOptions(exportCommand, args, OPTIONS)
    const tenantId = required(exportCommand, 'tenant', options.tenant)
    const out = required(exportCommand, 'out', options.out)
    const keyFile = required(exportCommand, 'key-file', options['key-file'])
    const progress = createProgress(context)
    const done = await withDeps(context, (deps) => exportTenant(deps, { tenantId, out, keyFile, progress }))
    return {
      data: { ...done, file: out },
      lines: [
        `Tenant ${tenantId} is in ${out}: export ${done.exportId}, ${done.rows} rows, ${done.bytes} bytes.`,
        'Bring it into the new installation with: halfkey import --file FILE --key-file FILE',
      ],
    }
  },
}
