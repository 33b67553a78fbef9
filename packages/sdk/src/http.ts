import type { paths } from './api.gen.ts'
import { attempt, type Fetch } from './attempt.ts'
import { HalfkeyError } from './errors.ts'
import type { Body, Data, Item, ListPath, Method, PathIds, PathWith, Query } from './operations.ts'
import { type List, list, type Page } from './paging.ts'
import { retryDelayMs } from './retry.ts'
import type { DelegateKey, ProvenCall } from './trust/delegate-key.ts'

/** A random UUID (RFC 9562, section 5.4), also where `crypto.randomUUID` is missing: on pages served over http. */
export function newUuid(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID()
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = Array.from(bytes, (byte, at) =>
    (at === 6 ? (byte & 0x0f) | 0x40 : at === 8 ? (byte & 0x3f) | 0x80 : byte).toString(16).padStart(2, '0'),
  ).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

/** Where a client sends its calls, and for whom. */
export interface ClientOptions {
  /**
   * The service's origin, such as `https://wallets.example.com`; with `/v1` it means the same. For a service below a path,
   * give the whole base, with the version: `https://example.com/wallets/v1`. In a browser it may be a path only.
   */
  baseUrl: string
  /** `hk_sk_…` on servers; `hk_pk_…` in browsers. It is sent in the `x-api-key` header only. */
  apiKey: string
  /** The current user's access token, or a function that returns it before every attempt; null for no user. */
  accessToken?: string | (() => string | null | Promise<string | null>) | undefined
  /** Acts for this user with a secret key that has `users:act_as` (header `x-user-id`). */
  userId?: string | undefined
  /** A delegated session's token (`dst_…`), to execute and query. Give at most one of this, `accessToken` and `userId`. */
  delegateToken?: string | undefined
  /** The key that the delegated session is bound to (`createDelegateKey`): every attempt carries a new proof by it. */
  delegateKey?: Pick<DelegateKey, 'prove'> | undefined
  /**
   * The pin of the service, `hk_pin_…`: `halfkey keys pin` prints it. Needed for `mpc.config` and to create, reshare or store
   * shared keys: it keeps whoever relays the traffic from reading the shares. Write it into your app.
   */
  pin?: string | undefined
  /** Without a pin: trust the service that answers first, for as long as this client lives. A relay can pose as it. */
  trustOnFirstUse?: boolean | undefined
  /** Sends the requests instead of the global `fetch`. */
  fetch?: Fetch | undefined
  /** How often a failed attempt is repeated, 0 to 10 (default 3). */
  maxRetries?: number | undefined
  /** How long one attempt may take, including the body of the response, in milliseconds (default 30000). */
  timeoutMs?: number | undefined
}

/** Options of one call. */
export interface RequestOptions {
  /** Aborts the call, also while it waits between attempts; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** For POST and PATCH, 1 to 255 visible ASCII characters; a random one by default. All attempts of a call share it. */
  idempotencyKey?: string | undefined
  /** As in `ClientOptions`. */
  maxRetries?: number | undefined
  /** As in `ClientOptions`. */
  timeoutMs?: number | undefined
}

/** The parts of a request that depend on its operation. `query` has JavaScript's names and values. */
interface Input {
  path?: object | undefined
  query?: object | undefined
  body?: unknown
  /** A POST that changes nothing: it can be repeated without an idempotency key. */
  reads?: boolean | undefined
}

type OperationInput<P extends keyof paths, M extends Method> = {
  query?: Query<P, M> | undefined
  reads?: boolean | undefined
} & (keyof PathIds<P, M> extends never ? { path?: never } : { path: PathIds<P, M> }) &
  (Body<P, M> extends undefined ? { body?: never } : { body: Body<P, M> })

/** Calls by operation, with types from the API's description. */
export interface Calls {
  /** Returns an operation's `data`. @throws HalfkeyError */
  one<M extends Method, P extends PathWith<M>>(
    method: M,
    path: P,
    input: OperationInput<P, M>,
    options?: RequestOptions,
  ): Promise<Data<P, M>>
  /** Lists: see `List`. @throws HalfkeyError */
  list<P extends ListPath>(
    path: P,
    input: Pick<OperationInput<P, 'get'>, 'path'>,
    query?: Query<P, 'get'>,
    options?: RequestOptions,
  ): List<Item<P>>
}

const TIMEOUT_MS_MAX = 2 ** 31 - 1
const VISIBLE_ASCII = /^[\x21-\x7e]+$/

/** Refuses invalid values first: `fetch` would quote the value in its error, and a key must not get into an error. */
function headerValue(name: string, value: unknown): string {
  if (typeof value === 'string' && VISIBLE_ASCII.test(value)) return value
  throw new TypeError(`${name} must be a non-empty string of visible ASCII characters`)
}

function checkedInteger(name: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw new TypeError(`${name} must be a whole number from ${min} to ${max}`)
}

/** The base without a slash at its end. @throws TypeError for an invalid base */
export function checkedBase(baseUrl: string): string {
  const onPage = typeof baseUrl === 'string' && /^\/(?!\/)/.test(baseUrl)
  const text = onPage ? `http://page${baseUrl}` : baseUrl
  const url = URL.canParse(text) ? new URL(text) : undefined
  const bare = url !== undefined && `${url.search}${url.hash}${url.username}${url.password}` === ''
  if (!bare || !/^https?:$/.test(url.protocol))
    throw new TypeError(
      'baseUrl must be an http or https URL without credentials or query, such as https://wallets.example.com',
    )
  const pathname = url.pathname.replace(/\/+$/, '')
  return `${onPage ? '' : url.origin}${pathname === '' ? '/v1' : pathname}`
}

/** A base that is only a path means the page's origin. */
const absolute = (url: string) => new URL(url, (globalThis as { location?: { href: string } }).location?.href).href

function pathOf(template: string, ids: Record<string, unknown>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[name]
    // `.` and `..` would not stay one segment of the path: they would address another endpoint.
    if (typeof id !== 'string' || id === '' || id === '.' || id === '..')
      throw new TypeError(`${name} must be the id of a record`)
    return encodeURIComponent(id)
  })
}

function queryOf(query: object): string {
  const wire = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined)
      wire.set(
        name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
        String(value),
      )
  }
  const text = wire.toString()
  return text === '' ? '' : `?${text}`
}

/** Waits, or rejects when the signal aborts. @throws the signal's reason */
export function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      if (signal?.aborted) reject(signal.reason)
      else resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
  })
}

function checkedOptions(options: ClientOptions) {
  const { accessToken, userId, delegateToken, delegateKey } = options
  if ([accessToken, userId, delegateToken].filter((one) => one !== undefined).length > 1)
    throw new TypeError('Give at most one of accessToken, userId and delegateToken')
  if (delegateKey !== undefined && delegateToken === undefined) throw new TypeError('delegateKey needs delegateToken')
  const apiKey = headerValue('apiKey', options.apiKey)
  if (typeof accessToken === 'string') headerValue('accessToken', accessToken)
  if (delegateToken !== undefined) headerValue('delegateToken', delegateToken)
  return {
    base: checkedBase(options.baseUrl),
    // Looked up at each call, so that a later patch of the global one takes effect.
    send: options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init)),
    maxRetries: checkedInteger('maxRetries', options.maxRetries ?? 3, 0, 10),
    timeoutMs: checkedInteger('timeoutMs', options.timeoutMs ?? 30_000, 1, TIMEOUT_MS_MAX),
    /** Whether the server honours idempotency keys: not for a publishable key without a user or a delegated session. */
    keyed: (headers: Record<string, string>) => !apiKey.startsWith('hk_pk_') || headers.authorization !== undefined,
    async headers(call: Omit<ProvenCall, 'token'>): Promise<Record<string, string>> {
      const proof =
        delegateKey === undefined || delegateToken === undefined
          ? undefined
          : await delegateKey.prove({ ...call, url: absolute(call.url), token: delegateToken })
      const token = delegateToken ?? (typeof accessToken === 'function' ? await accessToken() : accessToken)
      return {
        accept: 'application/json',
        'x-api-key': apiKey,
        ...(token === undefined || token === null
          ? {}
          : { authorization: `${proof === undefined ? 'Bearer' : 'DPoP'} ${headerValue('accessToken', token)}` }),
        ...(proof === undefined ? {} : { dpop: proof }),
        ...(userId === undefined ? {} : { 'x-user-id': headerValue('userId', userId) }),
      }
    },
  }
}

/**
 * Opens no connection. The key stays in this closure: no returned object holds it.
 * @throws TypeError for invalid options; the message does not quote their values
 */
export function createCalls(options: ClientOptions): Calls & { base: string } {
  const client = checkedOptions(options)

  async function call(method: Method, template: string, input: Input, own: RequestOptions): Promise<{ data: unknown }> {
    const url = client.base + pathOf(template, { ...input.path }) + queryOf(input.query ?? {})
    const maxRetries = checkedInteger('maxRetries', own.maxRetries ?? client.maxRetries, 0, 10)
    const timeoutMs = checkedInteger('timeoutMs', own.timeoutMs ?? client.timeoutMs, 1, TIMEOUT_MS_MAX)
    const changes = (method === 'post' || method === 'patch') && input.reads !== true
    const extra: Record<string, string> = {}
    if (changes) extra['idempotency-key'] = headerValue('idempotencyKey', own.idempotencyKey ?? newUuid())
    if (input.body !== undefined) extra['content-type'] = 'application/json'
    // Serialised once, so that all attempts send the same bytes.
    const body = input.body === undefined ? {} : { body: JSON.stringify(input.body) }
    const sent = { method: method.toUpperCase(), ...body }
    for (let failures = 1; ; failures++) {
      let headers: Record<string, string> | undefined
      try {
        headers = { ...(await client.headers({ ...sent, url })), ...extra }
        const init: RequestInit = { ...sent, headers, redirect: 'manual' }
        return await attempt(client.send, url, init, { timeoutMs, signal: own.signal })
      } catch (error) {
        if (!(error instanceof HalfkeyError) || failures > maxRetries) throw error
        const delayMs = retryDelayMs(error, failures, !changes || headers === undefined || client.keyed(headers))
        if (delayMs === null) throw error
        await delay(delayMs, own.signal)
      }
    }
  }

  return {
    base: client.base,
    one: async (method, path, input, own = {}) => (await call(method, path, input as Input, own)).data as never,
    list: (path, input, query = {}, own = {}) =>
      list(async (page) => {
        const turned = page === undefined ? query : { ...query, page }
        return (await call('get', path, { ...(input as Input), query: turned }, own)) as Page<never>
      }),
  }
}
