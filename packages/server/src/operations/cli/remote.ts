import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from '@commander-js/extra-typings'
import {
  createClient,
  type Delivery,
  type HalfkeyClient,
  HalfkeyError,
  isHalfkeyError,
} from '../../../../sdk/src/index.ts'
import { CLIENT_VARIABLES, inspectConfig, readClientVariables } from '../../config.ts'
import { findRunningService } from '../../platform/running-service.ts'
import { apiKeyType } from '../../platform/security/api-key.ts'
import { type CliContext, CommandError, UsageError } from './command.ts'

const URL_DEFAULT = 'http://127.0.0.1:8080'

/** Where the service is: as `HALFKEY_URL` says, or else the one that runs in this folder, or on the default port. */
export function serviceUrl(): string {
  return readClientVariables().url ?? findRunningService(inspectConfig().config.dataDir) ?? URL_DEFAULT
}

const BACKOFF_FIRST_MS = 500
const BACKOFF_MAX_MS = 5_000

/** Adds the options of every command that calls a running service. */
export const remoteOptions = (command: Command) =>
  command
    .option(
      '--url <url>',
      `the address of the service (default: ${CLIENT_VARIABLES.url}, or the service that runs in this folder)`,
    )
    .option('--key-file <file>', `a file with the API key (default: the key in ${CLIENT_VARIABLES.key})`)

/** A running service, as an API key may use it. */
export interface Remote {
  client: HalfkeyClient
  url: string
  /** A failed call, in words that say what to do. */
  explain(error: HalfkeyError): string
}

/** The result of a call. @throws CommandError with `message` if the record does not exist */
export const orMissing = <T>(call: Promise<T>, message: string): Promise<T> =>
  call.catch((error: unknown) => {
    throw isHalfkeyError(error, 'not_found') ? new CommandError(message) : error
  })

/** How the last attempt of a delivery ended. */
export function lastAnswer({ attempts }: Delivery): string {
  const last = attempts.at(-1)
  if (last === undefined) return '-'
  return last.statusCode === null ? (last.error ?? '-') : String(last.statusCode)
}

function readKey(file: string | undefined): string {
  let key = readClientVariables().key
  if (file !== undefined) {
    try {
      key = readFileSync(file, 'utf8').trim()
    } catch (error) {
      throw new CommandError(`The key file can't be read: ${(error as Error).message}`)
    }
  }
  const where = file === undefined ? CLIENT_VARIABLES.key : file
  if (key === null)
    throw new UsageError(
      `There is no API key. Set ${where}: export ${where}=hk_sk_…   # the first start prints one; halfkey keys create creates others`,
    )
  if (apiKeyType(key) !== 'secret')
    throw new UsageError(
      `${where} does not contain a secret key of Halfkey (hk_sk_…). Check that you copied it completely.`,
    )
  return key
}

/** The address of a service, with or without the API's version at its end; null for an invalid address. */
export function addressOf(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '') return null
  return url.origin + url.pathname.replace(/\/+(v1\/?)?$/, '')
}

/** Why Halfkey did not respond to a call, and what to do; null if Halfkey refused the call. */
export function explainNoService({ status, code, message, cause }: HalfkeyError, url: string): string | null {
  if (code === 'invalid_response' || code === 'unexpected_redirect')
    return `The server at ${url} (status ${status}) is not Halfkey. Check ${CLIENT_VARIABLES.url}.`
  if (status > 0) return null
  // What `fetch` itself says is that it failed; several addresses tried: the first one's error says most.
  const failure = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause
  const first = failure instanceof AggregateError ? failure.errors[0] : failure
  const reason = first instanceof Error ? first.message : message
  return `No service responds at ${url} (${reason}). Start it with: halfkey serve, or set ${CLIENT_VARIABLES.url} to its address.`
}

/**
 * Works with the service that options and environment name.
 * @throws UsageError before anything is sent; CommandError for a call that failed
 */
export async function withRemote<T>(
  options: { url?: string | undefined; keyFile?: string | undefined },
  work: (remote: Remote) => Promise<T>,
): Promise<T> {
  const given = options.url ?? serviceUrl()
  const url = addressOf(given)
  if (url === null)
    throw new UsageError(
      `${options.url === undefined ? CLIENT_VARIABLES.url : '--url'} must be an http(s) URL such as ${URL_DEFAULT}, not "${given}".`,
    )
  const apiKey = readKey(options.keyFile)
  const refused = `The service rejected this key. Check that ${options.keyFile ?? CLIENT_VARIABLES.key} holds an active key of this service.`
  const explain = (error: HalfkeyError) =>
    explainNoService(error, url) ?? (error.status === 401 ? refused : error.message)
  try {
    // No retries: somebody waits, and what runs on says that it waits.
    return await work({ client: createClient({ baseUrl: `${url}/v1`, apiKey, maxRetries: 0 }), url, explain })
  } catch (error) {
    throw error instanceof HalfkeyError ? new CommandError(explain(error)) : error
  }
}

const isTransient = ({ status }: HalfkeyError) => status === 0 || status === 429 || status >= 500

/**
 * Retries a call while the service is unavailable; says once that it is, and once that it answers again.
 * @throws HalfkeyError for a refusal that is not transient, and the signal's reason
 */
export async function retryTransient<T>(
  { explain }: Remote,
  { err }: Pick<CliContext, 'err'>,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      const answer = await call()
      if (failures > 0) err('The service is reachable again.')
      return answer
    } catch (error) {
      if (!(error instanceof HalfkeyError) || !isTransient(error)) throw error
      if (failures === 0) err(`${explain(error)} Retrying.`)
      await delay(Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** failures), undefined, { signal })
    }
  }
}

/** npm passes on a Ctrl-C that the terminal has sent to both. */
const SAME_SIGNAL_MS = 500

/**
 * Works until it is done, or interrupted: the first Ctrl-C or SIGTERM aborts the signal, a second one, somewhat later, ends the
 * process at once. Answers whether it was interrupted; what the work threw because of that is not an error.
 */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const controller = new AbortController()
  const stop = () => {
    controller.abort(new Error('interrupted'))
    setTimeout(done, SAME_SIGNAL_MS).unref()
  }
  const done = () => {
    process.removeListener('SIGINT', stop)
    process.removeListener('SIGTERM', stop)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  try {
    await work(controller.signal)
  } catch (error) {
    if (!controller.signal.aborted) throw error
  } finally {
    done()
  }
  return controller.signal.aborted
}
