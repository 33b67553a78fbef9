import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { Option } from '@commander-js/extra-typings'
import { type ImportFormat, KNOWN_COLUMNS, type Problem } from '../../../identity/users/import/file.ts'
import { type ImportReport, type ImportRequest, importUsers } from '../../../identity/users/import/import.ts'
import type { Deps } from '../../../platform/deps.ts'
import type { Id } from '../../../platform/ids.ts'
import { defaultApp, lockAppForShare } from '../../../tenancy/apps/service.ts'
import { CommandError, defineCommand, EXIT, findTenant, runAlone, UsageError, withDeps } from '../command.ts'

const FORMATS: readonly ImportFormat[] = ['csv', 'jsonl']
const FORMAT_OF: Record<string, ImportFormat> = { '.csv': 'csv', '.tsv': 'csv', '.jsonl': 'jsonl', '.ndjson': 'jsonl' }

function formatOf(path: string, given: ImportFormat | undefined): ImportFormat {
  const format = given ?? FORMAT_OF[extname(path).toLowerCase()]
  if (format !== undefined) return format
  throw new UsageError("--format must be csv or jsonl, because the file's name does not say which it is.")
}

function readDelimiter(text: string): string {
  if (text === '\\t' || text === 'tab') return '\t'
  if ([...text].length === 1) return text
  throw new UsageError('--delimiter must be one character, or tab.')
}

async function appOf(deps: Deps, tenantId: Id<'ten'>, appId: string | undefined): Promise<Id<'app'>> {
  if (appId === undefined) return defaultApp(deps, tenantId)
  if (await deps.db.tx((tx) => lockAppForShare(tx, tenantId, appId))) return appId as Id<'app'>
  throw new CommandError(`Tenant ${tenantId} has no app ${appId}.`)
}

/** One import into an app at a time: what one writes would be another one's conflict. */
function aloneIn({ tenantId, appId }: ImportRequest) {
  const lock = createHash('sha256').update(`users import ${tenantId} ${appId}`).digest().readUIntBE(0, 6)
  return { lock, what: '`halfkey users import` into this app is running' }
}

const told = ({ line, field, message }: Problem) => `  line ${line}${field === '' ? '' : `, ${field}`}: ${message}`

function listOf({ problems, moreProblems }: ImportReport): string[] {
  return [...problems.map(told), ...(moreProblems > 0 ? [`  … and ${moreProblems} more`] : [])]
}

const others = ({ skipped, invalid }: ImportReport) =>
  `${skipped > 0 ? `, ${skipped} skipped because their email or external id is taken` : ''}${invalid > 0 ? `, ${invalid} not valid` : ''}`

function describe(request: ImportRequest, report: ImportReport): string[] {
  const { records, imported, importedNow, seconds, resumedAt, refused } = report
  const where = `the app ${request.appId} of tenant ${request.tenantId}`
  if (refused)
    return [
      `Nothing was imported into ${where}. Of ${records} records, these have problems:`,
      ...listOf(report),
      'Fix them and run this again. --skip-invalid skips lines that are not valid. --on-conflict skip skips lines whose email or',
      'external id is taken.',
    ]
  if (request.dryRun)
    return [
      `Of ${records} records ${imported} would be imported into ${where}${others(report)}. Nothing was written.`,
      ...listOf(report),
    ]
  if (seconds === 0)
    return [
      `This file was already imported into ${where}: ${imported} users${others(report)}. To import it again, add --again.`,
    ]
  const resumed = resumedAt > 0 ? ` It continued after record ${resumedAt}, where an earlier run had stopped.` : ''
  return [
    `Imported ${imported} users into ${where}${others(report)}.${resumed}`,
    ...listOf(report),
    `${importedNow} in ${seconds.toFixed(1)} s: ${Math.round(importedNow / seconds)} per second.`,
  ]
}

function dataOf({ tenantId, appId, dryRun }: ImportRequest, report: ImportReport): Record<string, unknown> {
  return { tenantId, appId, dryRun, ...report, seconds: Number(report.seconds.toFixed(3)) }
}

/** `halfkey users import` */
export const usersImport = defineCommand({
  name: 'users import',
  summary: 'Create users from a CSV or JSONL file',
  details: `Columns of CSV, or keys of JSONL: ${KNOWN_COLUMNS.join(', ')}; in CSV also metadata.<key>. None is required.
The whole file is checked first. Nothing is imported if any line is not valid, or if its email or external id is taken.
If an import is interrupted, run it again with the same file: it continues where it stopped. A file that was imported completely is skipped.`,
  options: (command) =>
    command
      .requiredOption('--file <file>', 'the file')
      .option('--tenant <id>', 'the tenant (default: the only one)')
      .option('--app <id>', "the app (default: the tenant's default app)")
      .option('--dry-run', 'check everything, including conflicts with existing users, and write nothing')
      .option('--events', 'emit user.created for every user; otherwise, only analytics and usage count them')
      .addOption(
        new Option('--on-conflict <action>', 'when an email or external id is taken')
          .choices(['fail', 'skip'])
          .default('fail' as const),
      )
      .option('--skip-invalid', 'skip lines that are not valid')
      .option('--again', 'import a file that was imported before')
      .addOption(new Option('--format <format>', "the file's format (default: by its name)").choices(FORMATS))
      .option('--delimiter <character>', 'the delimiter of CSV: one character, or tab', readDelimiter),
  async run(
    { file: path, tenant, app, dryRun = false, events = false, skipInvalid = false, again = false, ...rest },
    context,
  ) {
    const format = formatOf(path, rest.format)
    const options = {
      path,
      format,
      delimiter: rest.delimiter,
      onConflict: rest.onConflict,
      dryRun,
      events,
      skipInvalid,
      again,
    }
    return withDeps(context, async (deps, progress) => {
      const tenantId = await findTenant(deps, tenant)
      const request = { ...options, tenantId, appId: await appOf(deps, tenantId, app) }
      const report = await runAlone(deps, aloneIn(request), () => importUsers(deps, request, progress))
      return {
        data: dataOf(request, report),
        lines: describe(request, report),
        ...(report.refused ? { exitCode: EXIT.failed } : {}),
      }
    })
  },
})
