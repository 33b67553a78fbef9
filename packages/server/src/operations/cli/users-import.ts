import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { type ImportReport, type ImportRequest, importUsers } from '../../identity/users/import.ts'
import { type ImportFormat, KNOWN_COLUMNS, type Problem } from '../../identity/users/import-file.ts'
import { withTryLock } from '../../platform/db/installation.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { defaultApp, lockAppForShare } from '../../tenancy/apps/service.ts'
import {
  type Command,
  CommandError,
  EXIT,
  type Result,
  readOptions,
  required,
  UsageError,
  withDeps,
} from './command.ts'
import { findTenant } from './keys.ts'
import { createProgress } from './progress.ts'

const OPTIONS = {
  tenant: { type: 'string' },
  app: { type: 'string' },
  file: { type: 'string' },
  format: { type: 'string' },
  delimiter: { type: 'string' },
  'dry-run': { type: 'boolean' },
  events: { type: 'boolean' },
  'on-conflict': { type: 'string' },
  'skip-invalid': { type: 'boolean' },
  again: { type: 'boolean' },
} as const

const FORMATS: Record<string, ImportFormat> = { '.csv': 'csv', '.tsv': 'csv', '.jsonl': 'jsonl', '.ndjson': 'jsonl' }

function formatOf(path: string, given: string | undefined): ImportFormat {
  const format = given ?? FORMATS[extname(path).toLowerCase()]
  if (format === 'csv' || format === 'jsonl') return format
  throw new UsageError('--format must be csv or jsonl where the name of the file does not say it.')
}

function delimiterOf(text: string | undefined): string | undefined {
  if (text === undefined || [...text].length === 1) return text
  if (text === '\\t' || text === 'tab') return '\t'
  throw new UsageError('--delimiter must be one character, or tab.')
}

async function appOf(deps: Deps, tenantId: Id<'ten'>, appId: string | undefined): Promise<Id<'app'>> {
  if (appId === undefined) return defaultApp(deps, tenantId)
  if (await deps.db.tx((tx) => lockAppForShare(tx, tenantId, appId))) return appId as Id<'app'>
  throw new CommandError(`Tenant ${tenantId} has no app ${appId}.`)
}

/** One import into an app at a time: what one writes would be another one's conflict. */
async function alone<T>(deps: Deps, { tenantId, appId }: ImportRequest, work: () => Promise<T>): Promise<T> {
  const lock = createHash('sha256').update(`users import ${tenantId} ${appId}`).digest().readUIntBE(0, 6)
  // By the pool that has a connection to spare for as long as it takes.
  const done = await withTryLock(deps.probeDb, lock, async () => ({ value: await work() }))
  if (done !== undefined) return done.value
  throw new CommandError(
    'Another `halfkey users import` into this app is at work. Wait for its end, and run this again.',
  )
}

const told = ({ line, field, message }: Problem) => `  line ${line}${field === '' ? '' : `, ${field}`}: ${message}`

function listOf({ problems, moreProblems }: ImportReport): string[] {
  return [...problems.map(told), ...(moreProblems > 0 ? [`  … and ${moreProblems} more`] : [])]
}

const others = ({ skipped, invalid }: ImportReport) =>
  `${skipped > 0 ? `, ${skipped} skipped because somebody has their email or external id` : ''}${invalid > 0 ? `, ${invalid} not valid` : ''}`

function tell(request: ImportRequest, report: ImportReport): string[] {
  const { records, imported, importedNow, seconds, resumedAt, refused } = report
  const where = `the app ${request.appId} of tenant ${request.tenantId}`
  if (refused)
    return [
      `Nothing was imported into ${where}: of ${records} records, these are not right.`,
      ...listOf(report),
      'Mend them and run this again. --skip-invalid leaves lines out that are not valid, --on-conflict skip those whose email or',
      'external id somebody has.',
    ]
  if (request.dryRun)
    return [
      `Of ${records} records ${imported} would be imported into ${where}${others(report)}. Nothing was written.`,
      ...listOf(report),
    ]
  if (seconds === 0)
    return [
      `This file was imported into ${where} before: ${imported} users${others(report)}. To import it again: --again`,
    ]
  const resumed = resumedAt > 0 ? ` It went on after record ${resumedAt}, where an earlier run had stopped.` : ''
  return [
    `Imported ${imported} users into ${where}${others(report)}.${resumed}`,
    ...listOf(report),
    `${importedNow} in ${seconds.toFixed(1)} s: ${Math.round(importedNow / seconds)} a second.`,
  ]
}

function dataOf({ tenantId, appId, dryRun }: ImportRequest, report: ImportReport): Record<string, unknown> {
  return { tenantId, appId, dryRun, ...report, seconds: Number(report.seconds.toFixed(3)) }
}

function readRequest(args: string[]): {
  tenant: string | undefined
  app: string | undefined
  request: Omit<ImportRequest, 'tenantId' | 'appId'>
} {
  const options = readOptions(usersImport, args, OPTIONS)
  const path = required(usersImport, 'file', options.file)
  const onConflict = options['on-conflict'] ?? 'fail'
  if (onConflict !== 'skip' && onConflict !== 'fail') throw new UsageError('--on-conflict must be skip or fail.')
  return {
    tenant: options.tenant,
    app: options.app,
    request: {
      path,
      format: formatOf(path, options.format),
      delimiter: delimiterOf(options.delimiter),
      dryRun: options['dry-run'] ?? false,
      events: options.events ?? false,
      onConflict,
      skipInvalid: options['skip-invalid'] ?? false,
      again: options.again ?? false,
    },
  }
}

/** `halfkey users import` */
export const usersImport: Command = {
  name: 'users import',
  summary: 'Create users out of a CSV or JSONL file',
  usage:
    '--file FILE [--tenant ID] [--app ID] [--dry-run] [--events] [--on-conflict fail|skip] [--skip-invalid] [--again] [--format csv|jsonl] [--delimiter ;]',
  details: [
    `Columns of CSV, or keys of JSONL: ${KNOWN_COLUMNS.join(', ')}; in CSV also metadata.<key>. None is required.`,
    'The whole file is checked first; nothing is imported while a line is not valid (--skip-invalid leaves such lines out), or',
    'somebody has an email or external id of it (--on-conflict skip leaves those out).',
    'Ended at any point and run again with the same file, it goes on where it stopped. A file that was imported is not imported',
    'twice, unless by --again.',
    '--dry-run checks everything, also against the users that are there, and writes nothing.',
    '--events emits user.created for every user. Without it webhooks are told of none of them; analytics and usage count them all',
    'the same.',
    'Without --tenant it is for the only tenant there is, without --app for its default app.',
  ],
  async run(args, context): Promise<Result> {
    const { tenant, app, request: asked } = readRequest(args)
    return withDeps(context, async (deps) => {
      const tenantId = await findTenant(deps, tenant)
      const request = { ...asked, tenantId, appId: await appOf(deps, tenantId, app) }
      const report = await alone(deps, request, () => importUsers(deps, request, createProgress(context)))
      return {
        data: dataOf(request, report),
        lines: tell(request, report),
        ...(report.refused ? { exitCode: EXIT.failed } : {}),
      }
    })
  },
}
