import { setFlagsFromString } from 'node:v8'
import { preamble, readyLines } from './banner.ts'
import { ConfigError, loadConfig, programName } from './config.ts'
import { runCli } from './operations/cli/cli.ts'
import type { Config } from './platform/config.ts'
import { EmbeddedDatabaseError } from './platform/db/embedded/embedded.ts'
import { InstallationError } from './platform/db/installation.ts'
import { MigrationError } from './platform/db/migrate.ts'
import { ReachError } from './platform/db/reach.ts'
import { NoWritableServerError } from './platform/db/servers.ts'
import { type OpenLog, openLog, openTerminalLog } from './platform/observability/log.ts'
import { LedgerSettingsError } from './platform/ports/ledger-settings-error.ts'
import { KeyFileError } from './platform/security/key-provider.ts'
import type { Running, StartOptions } from './start.ts'

/** sysexits.h: something is wrong with the configuration; a supervisor need not try again. */
const EX_CONFIG = 78
const EX_FAILURE = 1
/** Past this a stop is cut short: an orchestrator kills after ten seconds or more. */
const STOP_MS = 9_500
const SAME_SIGNAL_MS = 500
/** By how much the heap may grow, in percent, before it is looked through again. By itself, V8 waits for several times what is in use. */
const HEAP_GROWTH = 50

const say = (text: string) => process.stdout.write(`${text}\n`)
const complain = (text: string) => process.stderr.write(`${text}\n`)

function readConfig(): Config {
  try {
    return loadConfig()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    complain(
      `Halfkey cannot start: the configuration is not valid.\n${error.problems.map((problem) => `  - ${problem}`).join('\n')}`,
    )
    process.exit(EX_CONFIG)
  }
}

/** Errors whose message is written for the operator; the others show their stack. */
function explain(error: unknown, log: OpenLog): never {
  log.flush()
  const known = [
    KeyFileError,
    EmbeddedDatabaseError,
    MigrationError,
    InstallationError,
    ReachError,
    LedgerSettingsError,
  ]
  if (known.some((kind) => error instanceof kind)) {
    complain(`Halfkey cannot start: ${(error as Error).message}`)
    process.exit(EX_CONFIG)
  }
  const { code, message, port } = error as NodeJS.ErrnoException & { port?: number }
  if (code === 'EADDRINUSE')
    complain(
      `Halfkey cannot start: port ${port} is already in use. Stop the program that uses it, or set another port, for example PORT=${Number(port) + 10}.`,
    )
  else if (code === 'ECONNREFUSED' || code === 'ENOTFOUND')
    complain(
      `Halfkey cannot start: the database does not respond (${message || code}). Check that it is running, and that DATABASE_URL is right, and DATABASE_DIRECT_URL if it is set.`,
    )
  else if (error instanceof NoWritableServerError)
    complain(`Halfkey cannot start: ${message}. Check that the primary of DATABASE_URL is running.`)
  else complain(`Halfkey cannot start: ${error instanceof Error ? error.stack : String(error)}`)
  process.exit(EX_FAILURE)
}

/** Ends the process once what runs has stopped; a signal that comes while starting waits for the start to be over. */
function createStopper(starting: Promise<Running>, log: OpenLog) {
  let since = 0
  const end = (code: number) => {
    log.flush()
    process.exit(code)
  }
  const stop = (signal: string) => {
    // A second Ctrl-C means now; but npm passes on the first one, which the terminal has sent here too.
    if (since > 0 && performance.now() - since > SAME_SIGNAL_MS) end(EX_FAILURE)
    if (since > 0) return
    since = performance.now()
    log.log.info({ signal }, 'stopping')
    setTimeout(() => {
      log.log.warn({}, 'stop interrupted')
      end(EX_FAILURE)
    }, STOP_MS).unref()
    starting
      .then((running) => running.stop())
      .then(
        () => {
          log.log.info({}, 'stopped')
          end(0)
        },
        (error: unknown) => {
          log.log.error({ err: error }, 'stop failed')
          end(EX_FAILURE)
        },
      )
  }
  return { stop, stopping: () => since > 0 }
}

async function serve(): Promise<void> {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH}`)
  const config = readConfig()
  const isForPeople = process.stderr.isTTY && config.env === 'development'
  const log = isForPeople ? openTerminalLog(config.logLevel, complain) : openLog(config.logLevel)
  const { start } = await import('./start.ts')
  const prepared: StartOptions['prepared'] = (database, first, pin) => say(preamble(config, database, first, pin))
  const starting = start(config, log, { prepared })
  const stopper = createStopper(starting, log)
  process.on('SIGTERM', stopper.stop)
  process.on('SIGINT', stopper.stop)
  const fault = (kind: string) => (error: unknown) => {
    log.log.error({ err: error }, kind)
    // While stopping it is told and no more: it must not cut short what is being finished, as a second Ctrl-C would.
    if (!stopper.stopping()) stopper.stop(kind)
  }
  process.on('uncaughtException', fault('uncaught exception'))
  process.on('unhandledRejection', fault('unhandled rejection'))
  const running = await starting.catch((error: unknown) => explain(error, log))
  say(readyLines(config, running))
  log.log.info({ role: config.role, port: running.address?.port }, 'started')
}

/** Draws a line of standard error again and again, within the terminal's width, which some do not tell. */
function redraw(text: string): void {
  process.stderr.write(`\r${text.slice(0, (process.stderr.columns || 80) - 1)}\x1b[K`)
}

async function command(args: string[]): Promise<void> {
  // The reader of the output has closed it, as `| head` does.
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : EX_FAILURE))
  const code = await runCli(args, {
    async openDeps(options) {
      const config = { ...readConfig(), ...options }
      const log = openLog('warn')
      // Most commands never need the service: loading it takes longer than they do.
      const { openParts } = await import('./start.ts')
      const parts = await openParts(config, 'tool', log).catch((error: unknown) => explain(error, log))
      return {
        deps: parts.deps,
        migrated: parts.database.migrated,
        async close() {
          await parts.deps.egress.close()
          await parts.close()
          log.flush()
        },
      }
    },
    out: say,
    err: complain,
    program: programName(),
    ...(process.stderr.isTTY ? { redraw } : {}),
  })
  process.exit(code)
}

const args = process.argv.slice(2)
// With anything behind it, `serve` is the command line's: it answers --help and refuses the rest.
if (args.length === 0 || args.join(' ') === 'serve') await serve()
else await command(args)
