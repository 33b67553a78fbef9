import { z } from 'zod'
import type { Db } from '../db/db.ts'
import type { Deps } from '../deps.ts'
import type { Id } from '../ids.ts'
import type { Scope } from '../security/api-key.ts'
import type { KeyHolder } from '../security/authenticator.ts'
import type { Role } from '../security/roles/roles.ts'

/** The member of a dashboard session. */
export interface CallingMember {
  id: Id<'mem'>
  role: Role
  /** When they last proved who they are, Unix milliseconds. */
  verifiedAtMs: number | null
}

/** Who calls: the API key, resolved. */
export interface Caller {
  tenantId: Id<'ten'>
  keyId: Id<'key'>
  keyType: 'secret' | 'publishable'
  scopes: readonly string[]
  /** The app the key is bound to; null for a tenant-wide key. */
  appId: Id<'app'> | null
  /** Set for a call from a subscriber's portal, which sees and changes nothing but that subscriber's webhooks. */
  subscriberId?: Id<'sub'>
  /** Set for a call from the dashboard of a member, whose role decides: see `platform/security/roles/roles.ts`. */
  member?: CallingMember
  allowedIps: readonly string[]
  /** When the key ends, Unix milliseconds; null for never. */
  expiresAtMs: number | null
}

/** The end user that a call acts for. */
export interface CurrentUser {
  id: Id<'usr'>
  appId: Id<'app'>
  /** Null when a secret key acts for the user by `x-user-id`. */
  sessionId: Id<'ses'> | null
  /** The user is a guest whose session has ended. Only met where `callers` say `own_guest`. */
  ended: boolean
}

/** A delegated session that calls by its token. Which one it is, the endpoint finds out. */
export interface Delegate {
  tokenHash: Buffer
  /** Thumbprint of the key that the call proved to have (RFC 9449); null for a bearer. Whether it is the right one, too. */
  jkt: string | null
}

/**
 * Which keys an endpoint takes, and for whom: the caller matrix, one entry a route. A current user is `required` (401
 * without), `optional`, or `own_guest`: asked of publishable keys only, and told even if its session has ended.
 * `delegate` takes a delegated session's token, which a publishable key needs (401 without); `delegate_only` asks every key
 * for it; `owner_or_delegate` takes either that or a current user, asked of publishable keys only.
 */
export type Callers =
  | { kind: 'secret'; scope: Scope; tenantWide: boolean }
  | { kind: 'both'; scope: Scope; user: UserUse }
  | { kind: 'any' }
  | { kind: 'subscriber' }
export type UserUse =
  | 'required'
  | 'optional'
  | 'own_guest'
  | 'ignored'
  | 'delegate'
  | 'delegate_only'
  | 'owner_or_delegate'

/** Secret keys with this scope; with `tenantWide`, only those not bound to an app. */
export function secretKey(scope: Scope, options: { tenantWide?: boolean } = {}): Callers {
  return { kind: 'secret', scope, tenantWide: options.tenantWide ?? false }
}

/** Publishable keys, and secret keys with this scope. */
export function eitherKey<U extends UserUse>(scope: Scope, user: U): { kind: 'both'; scope: Scope; user: U } {
  return { kind: 'both', scope, user }
}

/** What acts for the current user: a publishable key with a session, or a secret key with `users:act_as`. */
export function currentUser(): { kind: 'both'; scope: Scope; user: 'required' } {
  return { kind: 'both', scope: 'users:act_as', user: 'required' }
}

/** Any valid key, of either type. */
export function anyKey(): Callers {
  return { kind: 'any' }
}

/** No key, but the token of a link to a subscriber's portal. */
export function portalToken(): Callers {
  return { kind: 'subscriber' }
}

/** The origin of a request, for the audit log of an event. */
export interface Origin {
  /** With what looks like a secret taken out. */
  requestId: string
  /** The client's address, behind trusted proxies the one they report. */
  address: string
  /** The `User-Agent`, cut to 300 characters, with what looks like a secret taken out. */
  userAgent: string | null
  /** The `Origin` that a browser sent. */
  webOrigin: string | null
  /** The user that the call acts for; null if the key acts for itself. */
  actor: Id<'usr'> | null
  /** The trace that the request is part of (W3C Trace Context), if one is known. */
  traceparent?: string
}

/** Who calls and from where: what a change needs for its rules and for the audit log. */
export interface Call {
  caller: Caller
  origin: Origin
}

/** A call that may be for a current user. */
export interface MaybeUserCall extends Call {
  user: CurrentUser | null
}

/** A call for the current user. */
export interface UserCall extends Call {
  user: CurrentUser
}

export interface Page<T> {
  items: T[]
  total: number
  page: number
  pageSize: number
}

export interface Input<P, Q, B, U = CurrentUser | null, D = Delegate | null> {
  caller: Caller
  origin: Origin
  user: U
  delegate: D
  params: P
  query: Q
  body: B
}

type Shape = z.ZodObject
type Out<T extends Shape | undefined> = T extends Shape ? z.output<T> : Record<string, never>
/** The current user as a handler meets it. */
type UserOf<C extends Callers> = C extends { user: 'required' } ? CurrentUser : CurrentUser | null
/** The delegated session in the same way. */
type DelegateOf<C extends Callers> = C extends { user: 'delegate_only' } ? Delegate : Delegate | null

/** What a caller can meet at an endpoint: everything that the docs, the tests and the server need to know of it. */
export interface RouteSpec<
  P extends Shape | undefined,
  Q extends Shape | undefined,
  B extends Shape | undefined,
  R,
  C extends Callers,
> {
  summary: string
  /** More than the summary: side effects, limits, what to do next. Markdown. */
  description?: string
  callers: C
  params?: P
  query?: Q
  body?: B
  reply: Reply<R>
  /** 201 where something is created, 200 otherwise. */
  status?: 200 | 201
  /** Codes beyond the common ones. */
  errors?: readonly string[]
  /** The response contains a secret: it is never cached, and sealed if it is kept for a repeat. */
  secret?: boolean
  /** For endpoints where secrets could be guessed: the policy of this name limits each address, besides the key's limit. */
  limit?: 'sign_in'
  /**
   * Calls with the same value run one after the other within a process, because they would only conflict. For a
   * two-step call, this applies to the first step only.
   */
  turn?: (input: Input<Out<P>, Out<Q>, Out<B>, UserOf<C>, DelegateOf<C>>) => string
  /** The call changes nothing. Large responses are not kept for a repeat, which reads again. */
  reads?: boolean
  /**
   * A read replica may answer, if it shows all that was committed before the call. Never for what decides who may do what:
   * who calls is looked up in the primary, whatever this says.
   */
  replica?: boolean
  /** Not one of the specification's endpoints. */
  extension?: boolean
  /** How errors name a field of the body, from its keys with dots between them; without it, as they are. */
  bodyField?: (keys: string) => string
  /** Runs before the handler and outside its transaction. Use it for a check that needs the network. */
  before?: (deps: Deps, input: Input<Out<P>, Out<Q>, Out<B>, UserOf<C>, DelegateOf<C>>) => Promise<void>
}

export type Reply<R> = { kind: 'one' | 'list' | 'bare'; schema: z.ZodType; name?: string; readonly _result?: R }

/** `{data}` with one record. */
export function one<T extends z.ZodType>(schema: T): Reply<z.input<T>> {
  return { kind: 'one', schema: z.object({ data: schema }) }
}

/** The paginated envelope of the specification's section 2. */
export function list<T extends z.ZodType>(schema: T): Reply<Page<z.input<T>>> {
  return {
    kind: 'list',
    schema: z.object({ data: z.array(schema), total: z.int(), page: z.int(), pageSize: z.int(), hasMore: z.boolean() }),
  }
}

/** A handler in two steps, for a call whose response needs the network. */
export interface TwoStep<I, R> {
  effect(deps: Deps & { db: Db }, input: I): Promise<Record<string, unknown>>
  /** `replayed`: a repeat with the same Idempotency-Key finishes what another request began and may still be doing. */
  finish(deps: Deps, input: I, recovery: Record<string, unknown>, replayed: boolean): Promise<R>
  /** Whether a response is final. Only a final response is kept; otherwise a repeat finishes again. By default all are final. */
  isFinal?(result: R): boolean
}

/** A route without its specific types, as the server, the docs and the tests use it. */
export interface Route extends Omit<RouteSpec<Shape, Shape, Shape, unknown, Callers>, 'before' | 'turn'> {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  bodyField?: (keys: string) => string
  before?: (deps: Deps, input: Input<never, never, never, never, never>) => Promise<void>
  turn?: (input: Input<never, never, never, never, never>) => string
  handler: (deps: Deps, input: Input<never, never, never, never, never>) => Promise<unknown>
  steps?: TwoStep<Input<never, never, never, never, never>, unknown>
}

/**
 * One entry of a slice's endpoint table. If the request has an Idempotency-Key, `deps.db` is the request's
 * transaction, so that the effect and the kept response commit together.
 */
export function route<
  R,
  P extends Shape | undefined = undefined,
  Q extends Shape | undefined = undefined,
  B extends Shape | undefined = undefined,
  C extends Callers = Callers,
>(
  endpoint: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`,
  spec: RouteSpec<P, Q, B, R, C>,
  handler:
    | ((deps: Deps, input: Input<Out<P>, Out<Q>, Out<B>, UserOf<C>, DelegateOf<C>>) => Promise<R>)
    | TwoStep<Input<Out<P>, Out<Q>, Out<B>, UserOf<C>, DelegateOf<C>>, R>,
): Route {
  const [method, path] = endpoint.split(' ') as [Route['method'], string]
  if (typeof handler === 'function') return { ...spec, method, path, handler } as unknown as Route
  const steps = handler
  return {
    ...spec,
    method,
    path,
    steps,
    handler: async (deps: Deps, input: Input<Out<P>, Out<Q>, Out<B>, UserOf<C>, DelegateOf<C>>) =>
      steps.finish(deps, input, await steps.effect(deps, input), false),
  } as unknown as Route
}

const expected = (text: string) => ({ 'x-expected': text })

/** `page` and `page_size`, as every list takes them. */
export const Paging = {
  page: z
    .string()
    .regex(/^[1-9]\d{0,6}$/)
    .meta({ description: 'The page number, from 1.', ...expected('a whole number from 1 to 9999999'), example: '1' })
    .optional(),
  page_size: z
    .string()
    .regex(/^([1-9]\d?|100)$/)
    .meta({
      description: 'Records per page, 1 to 100 (default 20).',
      ...expected('a whole number from 1 to 100'),
      example: '20',
    })
    .optional(),
}

/** `sort`, for a list that an index can read in the order of these fields. `ordering` turns it into SQL. */
export const sortedBy = <Field extends string>(...fields: [Field, ...Field[]]) => ({
  sort: z
    .enum(fields.flatMap((field): (Field | `-${Field}`)[] => [field, `-${field}`]))
    .meta({
      description: `The order: a field, with \`-\` before it descending. Default: \`-${fields[0]}\`, newest first.`,
      example: `-${fields[0]}`,
    })
    .optional(),
})

/** A validated query of a list. */
export interface PageQuery {
  page?: string | undefined
  page_size?: string | undefined
  sort?: string | undefined
}

/** A query's page as numbers. */
export function paging(query: PageQuery): { page: number; pageSize: number; offset: number } {
  const page = Number(query.page ?? 1)
  const pageSize = Number(query.page_size ?? 20)
  return { page, pageSize, offset: (page - 1) * pageSize }
}

/** An id in a path: any text, because an unknown id is a 404 in any form. */
export const IdParam = z.object({ id: z.string() })

/** Strings by key that a developer may store with a record. */
export const Metadata = z.record(z.string().max(200), z.string()).meta({
  description: 'Your own strings, by key: at most 50 keys and 16 KiB.',
  maxProperties: 50,
  example: { plan: 'gold' },
})

/** A time on the wire: ISO 8601 UTC with milliseconds. */
export const Time = z.string().meta({ format: 'date-time', example: '2026-11-21T08:30:00.000Z' })

/** When a record was created and last changed. */
export const Times = { createdAt: Time, updatedAt: Time }

/** An endpoint outside `/v1` that needs no key: probes, metrics, the API description, and events of other services. */
export interface PlainRoute {
  /** GET by default. */
  method?: 'GET' | 'POST' | 'DELETE'
  path: string
  /** Accepts any Host in development too, because its response is public (see host-check.ts). */
  anyHost?: boolean
  /** Answers while the database is behind its floor, because it depends on nothing there: probes, docs, files of pages. */
  believesNothing?: boolean
  handler(deps: Deps, request: PlainRequest): Promise<PlainAnswer>
}

export interface PlainRequest {
  method: string
  /** As received, without the query. */
  path: string
  origin: Origin
  authorization: string | undefined
  host: string | undefined
  address: string
  queryText: string
  headers: Readonly<Record<string, string | string[] | undefined>>
  /** As received; empty for a GET. At most 1 MiB. */
  body: Buffer
  /** Calls an endpoint of this process from the same address, by all the checks of a call from outside. */
  ask(request: InsideRequest): Promise<{ status: number; headers: Readonly<Record<string, string>>; body: string }>
}

/** A request that this process answers for one of its own handlers. */
export interface InsideRequest {
  method: string
  /** With the query. */
  path: string
  headers: Readonly<Record<string, string>>
  body?: string | undefined
}

export interface PlainAnswer {
  status: number
  contentType: string
  headers?: Record<string, string | string[]>
  body: string | Buffer
}

/** A request at an entrance. Nothing in it is checked yet. */
export interface EntranceRequest {
  method: string
  /** The client's address; behind trusted proxies, the address that they report. */
  address: string
  headers: Readonly<Record<string, string | string[] | undefined>>
}

/** A way to call endpoints without an API key under `/v1`, for Halfkey's own pages. */
export interface Entrance {
  /** The prefix of the routes' paths. */
  base: string
  routes: readonly Route[]
  /** The rate limit of its calls, counted for each client address. */
  limit: 'publishable' | 'secret'
  /** Identifies the caller. @throws HttpError */
  enter(deps: Deps, request: EntranceRequest): Promise<KeyHolder>
}
