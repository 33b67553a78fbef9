import { ConfigError } from '../../config.ts'
import { HttpError } from '../../platform/http/errors.ts'
import { redact } from '../../platform/observability/log.ts'
import { KeyFileError } from '../../platform/security/key-provider.ts'
import { KeyServiceAddressError, KeyServiceError } from '../../platform/security/key-services/key-service.ts'
import { type CliCommand, CommandError, EXIT, type Terminal, UsageError } from './command.ts'
import { analyticsBackfill } from './commands/analytics.ts'
import { auditCheckpoint, auditExport, auditVerify } from './commands/audit.ts'
import { config } from './commands/config.ts'
import { dashboardLink, dashboardSignOutEveryone } from './commands/dashboard.ts'
import { deliveriesList, deliveriesRetry } from './commands/deliveries.ts'
import { denials } from './commands/denials.ts'
import { doctor } from './commands/doctor.ts'
import { eventsPublish, eventsShow, eventsTail } from './commands/events.ts'
import { keysPin, keysRotateIdentity } from './commands/keys/identity.ts'
import { keysGenerateKek, keysMigrate, keysRotateKek } from './commands/keys/kek.ts'
import { keysCreate, keysGenerate, keysRotateSigning } from './commands/keys/keys.ts'
import { listen } from './commands/listen.ts'
import { membersInvite, membersLink } from './commands/members.ts'
import { migrate } from './commands/migrate.ts'
import { ledgerExport, ledgerVerify } from './commands/proof/ledger.ts'
import { recordsEnforce, recordsVerify } from './commands/records/records.ts'
import { restoreAccept, restoreShow } from './commands/restore.ts'
import { seed } from './commands/seed.ts'
import { tenantsCreate } from './commands/tenants.ts'
import { exportCommand, importCommand } from './commands/transfer.ts'
import { usersImport } from './commands/users-import.ts'
import { readCommandLine } from './program.ts'
import { createProgress } from './progress.ts'

const COMMANDS: readonly CliCommand[] = [
  config,
  doctor,
  migrate,
  tenantsCreate,
  usersImport,
  keysCreate,
  keysGenerate,
  keysRotateSigning,
  keysPin,
  keysRotateIdentity,
  keysGenerateKek,
  keysRotateKek,
  keysMigrate,
  dashboardLink,
  dashboardSignOutEveryone,
  membersInvite,
  membersLink,
  listen,
  eventsTail,
  eventsShow,
  eventsPublish,
  deliveriesList,
  deliveriesRetry,
  denials,
  seed,
  exportCommand,
  importCommand,
  auditExport,
  auditCheckpoint,
  auditVerify,
  ledgerExport,
  ledgerVerify,
  restoreShow,
  restoreAccept,
  recordsEnforce,
  recordsVerify,
  analyticsBackfill,
]

/** `halfkey` before one of its commands, in a line that says what to run. */
const COMMAND_LINE = new RegExp(
  `(?<![\\w-])halfkey (?=(?:serve|help|completion|${[...new Set(COMMANDS.map(({ name }) => name.split(' ')[0]))].join('|')})\\b)`,
  'g',
)

const NO_SUCH_TABLE = '42P01'
const NOT_REACHABLE = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'ENOENT'])
/** An open connection was closed: the operating system's codes, and PostgreSQL's (class 57P, operator intervention). */
const CUT = new Set(['ECONNRESET', 'EPIPE', '57P01', '57P02'])

/** An error message that says what to do, and the exit code of the process. */
function explain(error: unknown): { exitCode: number; message: string } {
  if (error instanceof UsageError) return { exitCode: EXIT.usage, message: error.message }
  if (error instanceof ConfigError)
    return {
      exitCode: EXIT.configuration,
      message: ['The configuration is not valid:', ...error.problems].join('\n  '),
    }
  if (error instanceof KeyFileError || error instanceof KeyServiceError || error instanceof KeyServiceAddressError)
    return { exitCode: EXIT.configuration, message: error.message }
  if (error instanceof HttpError) {
    const details = error.details.map(
      (detail) => `${detail.field === undefined ? '' : `${detail.field}: `}${detail.message}`,
    )
    return { exitCode: error.status === 400 ? EXIT.usage : EXIT.failed, message: [error.message, ...details].join(' ') }
  }
  return { exitCode: EXIT.failed, message: explainFailure(error) }
}

function explainFailure(error: unknown): string {
  // Node's own error is empty if several addresses were tried, e.g. IPv4 and IPv6, and all failed.
  const cause = error instanceof AggregateError && error.message === '' ? error.errors[0] : error
  const { code, message } = cause as { code?: unknown; message?: unknown }
  const told = redact(typeof message === 'string' && message !== '' ? message : String(cause))
  if (error instanceof CommandError || typeof code !== 'string') return told
  if (code === NO_SUCH_TABLE) return 'The database lacks tables of this release. Run: halfkey migrate'
  if (NOT_REACHABLE.has(code))
    return `The database can't be reached (${told}). Check that it is running and that DATABASE_URL is right.`
  if (CUT.has(code))
    return `A connection was lost (${told}), most likely to the database. Run this again when the database is reachable.`
  return told
}

/** Terminals obey control characters, and names, URLs and messages come from other people. JSON keeps the text as it is. */
const CONTROLS = /[^\P{Cc}\n\t]/gu
const printable = (line: string): string =>
  line.replace(CONTROLS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

/**
 * Runs one command, except `serve`, and returns its exit code: 0 done, 1 failed, 2 wrong usage, 78 bad configuration.
 * The result goes to `out`, everything else to `err`. With `--json` the result or the error is one line of JSON, and no progress is
 * shown.
 */
export async function runCli(args: string[], terminal: Terminal): Promise<number> {
  const { openDeps, redraw, program = 'halfkey' } = terminal
  const typed = (line: string) => line.replace(COMMAND_LINE, `${program} `)
  const out = (line: string) => terminal.out(printable(line))
  const err = (line: string) => terminal.err(printable(typed(line)))
  const json = args.includes('--json')
  const words = args.filter((arg) => arg !== '--json')
  // Progress is for people: a program gets one line.
  const notes = json ? { err: () => {} } : { err, ...(redraw && { redraw }) }
  const progress = createProgress(notes)
  try {
    const work = readCommandLine(COMMANDS, words)
    const ended = await work({ openDeps, out, err: notes.err, json, progress }).finally(progress.end)
    const { data, lines, exitCode = EXIT.done } = ended
    // A completion script is for shells, where the program goes by its own name.
    const shown = words[0] === 'completion' ? lines : lines.map(typed)
    for (const line of json ? (data === null ? [] : [JSON.stringify(data)]) : shown) out(line)
    return exitCode
  } catch (error) {
    const { exitCode, message } = explain(error)
    err(json ? JSON.stringify({ error: message, exitCode }) : `halfkey: ${message}`)
    return exitCode
  }
}
