import { withTryLock } from '../../platform/db/installation.ts'
import type { Deps } from '../../platform/deps.ts'
import { reconcileSubscriptions } from '../../tenancy/billing/processor-events.ts'
import { discardImport, type Imported, importTenant } from '../transfer/import.ts'
import { type Command, CommandError, type Result, readOptions, required, UsageError, withDeps } from './command.ts'
import { createProgress } from './progress.ts'

const LOCK = 4_812_570_353

const OPTIONS = {
  file: { type: 'string' },
  'key-file': { type: 'string' },
  'dry-run': { type: 'boolean' },
  discard: { type: 'string' },
} as const

async function alone<T>(deps: Deps, work: (goOn: () => void) => Promise<T>): Promise<T> {
  let done: { value: T } | undefined
  // By the pool that has a connection to spare for as long as it takes.
  await withTryLock(deps.probeDb, LOCK, async (goOn) => {
    done = { value: await work(goOn) }
  })
  if (done !== undefined) return done.value
  throw new CommandError('Another `halfkey import` is at work on this database. Wait for its end, and run this again.')
}

function tell({ tenantId, rows, resumedAt, dryRun }: Imported): string[] {
  if (dryRun) return [`The export of tenant ${tenantId} fits: ${rows} rows. Nothing was written.`]
  const resumed = resumedAt === 0 ? '' : `, ${resumedAt} of which an earlier run had staged`
  return [`Tenant ${tenantId} is live here: ${rows} rows${resumed}.`, 'Delete the export and its key file now.']
}

async function discard(args: string[], exportId: string, context: Parameters<Command['run']>[1]): Promise<Result> {
  if (args.some((arg) => /^--(file|key-file|dry-run)/.test(arg)))
    throw new UsageError('--discard stands alone. Usage: halfkey import --discard EXPORT-ID')
  const done = await withDeps(context, (deps) => alone(deps, () => discardImport(deps, exportId)))
  return {
    data: { ...done, discarded: true },
    lines: [`What the import of ${exportId} (tenant ${done.tenantId}) had staged is gone.`],
  }
}

/** `halfkey import` */
export const importCommand: Command = {
  name: 'import',
  summary: 'Bring a tenant that another installation exported into this one',
  usage: '--file FILE --key-file FILE [--dry-run] | --discard EXPORT-ID',
  details: [
    'Ended at any point and run again, it goes on where it stopped. Nobody can use the tenant before the last step, which makes',
    'everything of it live at once.',
    '--dry-run checks the file, its key and what is here already, and writes nothing.',
    '--discard takes away what an import that is given up has staged.',
  ],
  async run(args, context) {
    const options = readOptions(importCommand, args, OPTIONS)
    if (options.discard !== undefined)
      return discard(args, required(importCommand, 'discard', options.discard), context)
    const file = required(importCommand, 'file', options.file)
    const keyFile = required(importCommand, 'key-file', options['key-file'])
    const dryRun = options['dry-run'] ?? false
    const progress = createProgress(context)
    const done = await withDeps(context, (deps) =>
      alone(deps, async (goOn) => {
        const imported = await importTenant(deps, { file, keyFile, dryRun, progress, goOn })
        // So that what is paid for counts at once; else a worker asks within the hour.
        if (!dryRun) await reconcileSubscriptions(deps)
        return imported
      }),
    )
    return { data: { ...done }, lines: tell(done) }
  },
}
