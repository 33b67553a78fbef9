import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Command } from '@commander-js/extra-typings'
import { CLIENT_VARIABLES, readClientVariables } from '../../config.ts'
import { apiKeyType } from '../../platform/security/api-key.ts'
import { type CliContext, CommandError, UsageError } from './command.ts'
import { exchange } from './exchange.ts'

const URL_DEFAULT = 'http://127.0.0.1:8080'
const ANSWER_MS = 30_000
const ANSWER_BYTES_MAX = 64 * 1024 * 1024
const BACKOFF_FIRST_MS = 500
const BACKOFF_MAX_MS = 5_000

/** Adds the options of every command that calls a running service. */
export const remoteOptions = (command: Command) =>
  command
    .option('--url <url>', `the service; ${CLIENT_VARIABLES.url}, or ${URL_DEFAULT}, when not given`)
    .option('--key-file <file>', `a file with its API key; the key in ${CLIENT_VARIABLES.key} when not given`)

/** The answer of a call. @throws CommandError with `message` where there is no such thing */
export const orMissing = <T>(call: Promise<T>, message: string): Promise<T> =>
  call.catch((error: unknown) => {
    if (error instanceof RemoteError && error.status === 404) throw new CommandError(message)
    throw error
  })

/** The service refused a call, or was not there. */
class RemoteError extends CommandError {
  /** 0 where nobody answered. */
  readonly status: number
  /** As the envelope has it; `unreachable` where nobody answered. */
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }

  /** Whether the same call may succeed later. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500
  }
}

interface CallOptions {
  query?: Record<string, string | number | undefined>
  body?: object
  /** How long the service is asked to wait before it answers. */
  waitSeconds?: number
  signal?: AbortSignal | undefined
}

/** A running service, as an API key may use it. Answers are the unwrapped `data`. @throws RemoteError */
export interface Remote {
  url: string
  // biome-ignore lint/suspicious/noExplicitAny: answers are those of the API that this release describes
  get(path: string, options?: CallOptions): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  post(path: string, options?: CallOptions): Promise<any>
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
      `There is no API key. Set ${where}: export ${where}=hk_sk_…   # the first start prints one; halfkey keys create makes others`,
    )
  if (apiKeyType(key) !== 'secret')
    throw new UsageError(`What is in ${where} is not a secret key of Halfkey (hk_sk_…): was it copied whole?`)
  return key
}

function readBase(given: string | undefined): URL {
  const text = given ?? readClientVariables().url ?? URL_DEFAULT
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '')
    throw new UsageError(
      `${given === undefined ? CLIENT_VARIABLES.url : '--url'} must be an http(s) URL such as ${URL_DEFAULT}, not "${text}".`,
    )
  return new URL(`${url.pathname.replace(/\/(v1\/?)?$/, '')}/v1`, url.origin)
}

interface Envelope {
  data?: unknown
  error?: string
  code?: string
  details?: { field?: string; message?: string }[]
}

function refusal(status: number, { error = '', code = '', details = [] }: Envelope, key: string): RemoteError {
  if (status === 401)
    return new RemoteError(
      status,
      code,
      `The service does not take this key. Look at ${key}: is it this service's, and active?`,
    )
  const told = details.map(({ field, message = '' }) => (field ? `${field}: ${message}` : message)).join(' ')
  return new RemoteError(status, code, [error, told].join(' ').trim())
}

/** The service that options and environment name. Nothing is sent yet. @throws UsageError */
export function openRemote(options: { url?: string | undefined; keyFile?: string | undefined }): Remote {
  const base = readBase(options.url)
  const key = readKey(options.keyFile)
  const keyFrom = options.keyFile ?? CLIENT_VARIABLES.key
  const url = base.href.replace(/\/v1$/, '')

  async function call(method: 'GET' | 'POST', path: string, options: CallOptions = {}): Promise<unknown> {
    const target = new URL(base.href + path)
    for (const [name, value] of Object.entries(options.query ?? {}))
      if (value !== undefined) target.searchParams.set(name, String(value))
    const { signal, waitSeconds = 0 } = options
    const body = options.body === undefined ? undefined : JSON.stringify(options.body)
    const headers = { 'x-api-key': key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
    const timeoutMs = ANSWER_MS + waitSeconds * 1_000
    const outgoing = { method, headers, body, timeoutMs, bytesMax: ANSWER_BYTES_MAX, signal }
    const answered = await exchange(target, outgoing).catch((error: Error) => {
      signal?.throwIfAborted()
      throw new RemoteError(
        0,
        'unreachable',
        `No service answers at ${url} (${error.message}). Is it running? Start it with: halfkey serve, or name it in ${CLIENT_VARIABLES.url}.`,
      )
    })
    const { status } = answered
    let envelope: Envelope | null = null
    try {
      envelope = JSON.parse(answered.body) as Envelope
    } catch {}
    if (status >= 200 && status < 300 && envelope !== null && 'data' in envelope) return envelope.data
    if (envelope === null || typeof envelope.code !== 'string')
      throw new RemoteError(
        status >= 500 ? status : 404,
        'no_service',
        `What answers at ${url} (status ${status}) is not a Halfkey. Is ${CLIENT_VARIABLES.url} right?`,
      )
    throw refusal(status, envelope, keyFrom)
  }
  return {
    url,
    get: (path, options) => call('GET', path, options),
    post: (path, options) => call('POST', path, options),
  }
}

/**
 * Retries a call while the service is unavailable; says once that it is, and once that it answers again.
 * @throws RemoteError for a refusal that is not transient, and the signal's reason
 */
export async function retryTransient<T>(
  { err }: Pick<CliContext, 'err'>,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures += 1) {
    try {
      const answer = await call()
      if (failures > 0) err('The service answers again.')
      return answer
    } catch (error) {
      if (!(error instanceof RemoteError) || !error.isTransient) throw error
      if (failures === 0) err(`${error.message} Trying again.`)
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
