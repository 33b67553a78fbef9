import { Command, type OptionValues } from '@commander-js/extra-typings'
import type { Command as ParsedCommand } from 'commander'
import { withTryLock } from '../../platform/db/installation.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { isTenant, listTenants } from '../../tenancy/tenant/service.ts'
import type { Progress } from './progress.ts'

/** What the command line gets from the process: the services, opened on demand, and where lines go. */
export interface Terminal {
  /**
   * Opens the database, its schema brought up to this release, and what stands on it. Not called by commands that need
   * neither. `migrate` applies missing migrations even if HALFKEY_MIGRATE is off. `migrated` names those that were applied.
   */
  openDeps(options?: { migrate: true }): Promise<{ deps: Deps; close(): Promise<void>; migrated?: string[] }>
  /** Writes a line to standard output: the result. */
  out(line: string): void
  /** Writes a line to standard error: everything else. */
  err(line: string): void
  /** How the program is run here (default: `halfkey`). Messages that name a command use it. */
  program?: string
  /** Replaces the last line that it drew on standard error; '' removes it. Absent if standard error is not a terminal. */
  redraw?(text: string): void
}

/** What commands get. */
export interface CliContext extends Omit<Terminal, 'redraw' | 'program'> {
  /** Whether a program reads the output. Long-running commands then write each thing that happens as a line of JSON. */
  json: boolean
  /** Ended with the command. */
  progress: Progress
}

const TENANTS_SHOWN_MAX = 20

/** How a command ends: sysexits.h for a bad configuration, the shell's custom for the rest. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const

/** The command line can't be understood. The message says what to do. */
export class UsageError extends Error {}

/** The command can't be carried out as things are. The message says what to do. */
export class CommandError extends Error {}

/** A command's result: for programs (`--json`), and as lines for people. */
export interface Result {
  /** Null if the command has already written everything, line by line. */
  data: Record<string, unknown> | null
  lines: string[]
  /** Set where the command ran but found something wrong; `EXIT.done` when absent. */
  exitCode?: number
}

/** What a command does once its options are read. */
export type Work = (context: CliContext) => Promise<Result>

/** One command of the command line. */
export interface CliCommand {
  /** As it is typed, e.g. `keys create`. */
  name: string
  /** Its parser, which gives `found` what there is to do. */
  parser(found: (work: Work) => void): ParsedCommand
}

interface Definition<Options extends OptionValues> {
  name: string
  summary: string
  /** Shown by `halfkey help <command>` after the summary; wrapped to the terminal's width. */
  details?: string
  /** Lines to copy, shown after the options. */
  examples?: string[]
  /** Adds the options. A parser of a value that is wrong throws a `UsageError`. */
  options?(command: Command): Command<[], Options>
  run(options: Options, context: CliContext): Promise<Result>
}

/** Describes a command. The type of `options` follows from what is added. */
export function defineCommand<Options extends OptionValues>(definition: Definition<Options>): CliCommand {
  const { name, summary, details = '', examples = [], options, run } = definition
  return {
    name,
    parser(found) {
      const bare = new Command(name.split(' ').at(-1)).summary(summary).description(`${summary}. ${details}`.trimEnd())
      if (examples.length > 0) bare.addHelpText('after', `\nExamples:\n  ${examples.join('\n  ')}`)
      // Without options there is nothing to read: `Options` is empty.
      const command = options?.(bare) ?? (bare as unknown as Command<[], Options>)
      command.action((values) => found((context) => run(values, context)))
      // The same class: `commander` types it without its options.
      return command as unknown as ParsedCommand
    },
  }
}

/** Runs with the services, and closes them, whatever happens. */
export async function withDeps<T>(
  { openDeps, progress }: CliContext,
  body: (deps: Deps, progress: Progress) => Promise<T>,
): Promise<T> {
  const { deps, close } = await openDeps()
  try {
    return await body(deps, progress)
  } finally {
    progress.end()
    await close()
  }
}

/** The tenant of a command: the named one, or the only one. */
export async function findTenant(deps: Deps, wanted: string | undefined): Promise<Id<'ten'>> {
  if (wanted !== undefined && (await isTenant(deps.db, wanted))) return wanted as Id<'ten'>
  const tenants = await listTenants(deps.db, TENANTS_SHOWN_MAX)
  const [first, second] = tenants
  if (first === undefined)
    throw new CommandError(
      'There is no tenant yet. Start the service once (halfkey serve), or run: halfkey tenants create --name NAME',
    )
  if (wanted === undefined && second === undefined) return first.id
  const shown = tenants.map((tenant) => `\n  ${tenant.id}  ${tenant.name}`).join('')
  const more = tenants.length === TENANTS_SHOWN_MAX ? '\n  …' : ''
  if (wanted === undefined) throw new UsageError(`There are several tenants. Name one with --tenant.${shown}${more}`)
  throw new CommandError(`There is no tenant ${wanted}. Tenants:${shown}${more}`)
}

/** Holds `lock` in the database during the work. @throws CommandError where another process holds it, described by `what` */
export async function runAlone<T>(
  deps: Deps,
  { lock, what }: { lock: number; what: string },
  work: (goOn: () => void) => Promise<T>,
): Promise<T> {
  const done = await withTryLock(deps, lock, async (goOn) => ({ value: await work(goOn) }))
  if (done !== undefined) return done.value
  throw new CommandError(`Another ${what}. Wait until it has ended, then run this again.`)
}

/** A number with its noun, e.g. `1 link`, `2 links`. */
export const counted = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`

/** A parser of option values that takes whole numbers in a range. */
export function wholeNumber(option: string, least: number, most: number) {
  return (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= least && value <= most))
      throw new UsageError(`${option} must be a whole number from ${least} to ${most}, not "${text}".`)
    return value
  }
}

/** A parser of option values that takes names. */
export function shortText(option: string, charsMax = 200) {
  return (text: string): string => {
    if (text.length > charsMax) throw new UsageError(`${option} must have at most ${charsMax} characters.`)
    return text
  }
}
