import { setTimeout as delay } from 'node:timers/promises'
import { CommandError } from '../cli/command.ts'
import { exchange, type Outgoing } from '../cli/exchange.ts'

const ANSWER_MS = 30_000
const ANSWER_BYTES_MAX = 16 * 1024 * 1024
/** At 429: a seed may reach the limit of sign-ups. */
const TRIES_MAX = 30
const RETRY_SECONDS_MAX = 10
const PAGE_SIZE = 100
const PAGES_MAX = 1_000

/** The service refused a call. */
export class CallError extends CommandError {
  readonly status: number
  /** From the envelope, e.g. `not_found`. */
  readonly code: string

  constructor(call: string, status: number, code: string, message: string) {
    super(`${call}: ${status} ${code}: ${message}`)
    this.status = status
    this.code = code
  }
}

type Headers = Readonly<Record<string, string>>

/** The API with one key, for one caller. Methods return the unwrapped `data`. @throws CallError for a refusal */
export interface Api {
  get<T>(path: string): Promise<T>
  post<T>(path: string, body?: object): Promise<T>
  patch<T>(path: string, body: object): Promise<T>
  delete<T>(path: string): Promise<T>
  /** All records of a list. */
  all<T>(path: string): Promise<T[]>
  /** How many records a list has. */
  count(path: string): Promise<number>
  /** The same service for another caller: these headers are added, or replace those of before. */
  as(headers: Headers): Api
}

interface Envelope {
  data?: unknown
  hasMore?: boolean
  total?: number
  code?: string
  error?: string
  details?: { message?: string }[]
}

async function send(base: URL, method: Outgoing['method'], path: string, headers: Headers, body?: object) {
  const answered = await exchange(new URL(`/v1${path}`, base), {
    method,
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
    timeoutMs: ANSWER_MS,
    bytesMax: ANSWER_BYTES_MAX,
  }).catch((error: unknown): never => {
    const cause = (error instanceof AggregateError ? error.errors[0] : error) as Error
    throw new CommandError(
      `No service answers at ${base.origin} (${cause.message}). Start it with: npm start. If it is elsewhere, set HALFKEY_URL.`,
    )
  })
  try {
    return { ...answered, envelope: JSON.parse(answered.body) as Envelope }
  } catch {
    throw new CommandError(
      'What answered is not JSON. Is HALFKEY_URL the address of a Halfkey service, without a path?',
    )
  }
}

async function ask(base: URL, method: Outgoing['method'], path: string, headers: Headers, body?: object) {
  for (let tries = 1; ; tries += 1) {
    const { status, envelope, headers: answered } = await send(base, method, path, headers, body)
    if (status < 300) return envelope
    if (status !== 429 || tries === TRIES_MAX) {
      const told = [envelope.error, ...(envelope.details ?? []).map(({ message }) => message)].join(' ').trim()
      throw new CallError(`${method} ${path.split('?')[0]}`, status, envelope.code ?? '', told)
    }
    await delay(Math.min(RETRY_SECONDS_MAX, Math.max(1, Number(answered['retry-after']) || 1)) * 1_000)
  }
}

const withQuery = (path: string, query: string) => `${path}${path.includes('?') ? '&' : '?'}${query}`

function apiOf(base: URL, headers: Headers): Api {
  const data = async <T>(method: Outgoing['method'], path: string, body?: object) =>
    (await ask(base, method, path, headers, body)).data as T
  return {
    get: (path) => data('GET', path),
    post: (path, body) => data('POST', path, body),
    patch: (path, body) => data('PATCH', path, body),
    delete: (path) => data('DELETE', path),
    async all<T>(path: string) {
      const found: T[] = []
      for (let page = 1; page <= PAGES_MAX; page += 1) {
        const answer = await ask(base, 'GET', withQuery(path, `page=${page}&page_size=${PAGE_SIZE}`), headers)
        found.push(...(answer.data as T[]))
        if (answer.hasMore !== true) break
      }
      return found
    },
    async count(path) {
      return (await ask(base, 'GET', withQuery(path, 'page_size=1'), headers)).total ?? 0
    },
    as: (more) => apiOf(base, { ...headers, ...more }),
  }
}

/** Makes calls to the service at `url`. @throws CommandError where that is no address */
export function openApi(url: string, headers: Headers): Api {
  const base = URL.parse(url)
  if (base === null || !/^https?:$/.test(base.protocol))
    throw new CommandError(`HALFKEY_URL must be the service's address, such as http://127.0.0.1:8080, not "${url}".`)
  return apiOf(base, headers)
}
