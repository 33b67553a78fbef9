import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import type { Deps } from '../../platform/deps.ts'

/** What commands get from the process: the services, opened on demand, and where lines go. */
export interface CliContext {
  /**
   * Opens the database, its schema brought up to this release, and what stands on it. Not called by commands that need
   * neither. `migrated` names the migrations that this applied.
   */
  openDeps(): Promise<{ deps: Deps; close(): Promise<void>; migrated?: string[] }>
  /** Writes a line to standard output: the result. */
  out(line: string): void
  /** Writes a line to standard error: everything else. */
  err(line: string): void
  /** Replaces the last line that it drew on standard error; absent where that is not a terminal. '' takes it away. */
  redraw?(text: string): void
  /** Whether a program reads the output: what goes on for long then writes each thing that happens as a line of JSON. */
  json?: boolean
}

/** How a command ends: sysexits.h for a bad configuration, the shell's custom for the rest. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const

/** The command line can't be understood. The message says what to do. */
export class UsageError extends Error {}

/** The command can't be carried out as things are. The message says what to do. */
export class CommandError extends Error {}

/** A command's result: for programs (`--json`), and as lines for people. */
export interface Result {
  /** Null where the command has written all there is to say, line by line. */
  data: Record<string, unknown> | null
  lines: string[]
  /** How it ends where it was carried out and found what is not right; `EXIT.done` when absent. */
  exitCode?: number
}

/** One command of the command line. */
export interface Command {
  /** As it is typed, e.g. `keys create`. */
  name: string
  summary: string
  /** Its options as they are typed; empty for none. */
  usage: string
  /** Said by `halfkey help <command>` after the usage. */
  details?: string[]
  run(args: string[], context: CliContext): Promise<Result>
}

/** Reads a command's options; what is not one of them is an error. @throws UsageError */
export function readOptions<T extends ParseArgsOptionsConfig>(command: Command, args: string[], options: T) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values
  } catch (error) {
    throw new UsageError(
      `${(error as Error).message.split('. ', 1)[0]?.replace(/\.?$/, '.')} Usage: halfkey ${command.name} ${command.usage}`.trimEnd(),
    )
  }
}

/** An option's value that must be there and not empty. @throws UsageError */
export function required(command: Command, option: string, value: string | undefined): string {
  if (value === undefined || value.trim() === '')
    throw new UsageError(`--${option} is missing. Usage: halfkey ${command.name} ${command.usage}`)
  return value
}

/** Runs with the services and closes them, whatever happens. */
export async function withDeps<T>(context: CliContext, body: (deps: Deps) => Promise<T>): Promise<T> {
  const { deps, close } = await context.openDeps()
  try {
    return await body(deps)
  } finally {
    await close()
  }
}
