import { availableParallelism } from 'node:os'
import ipaddr from 'ipaddr.js'
import pLimit from 'p-limit'
import { z } from 'zod'
import { createKeyedMutex } from '../concurrency/keyed-mutex.ts'
import type { Deps } from '../deps.ts'
import { signTokens } from '../security/access-token.ts'
import { allows } from '../security/api-key.ts'
import type { KeyHolder } from '../security/authenticator.ts'
import { resolveActor, type UserHeaders } from '../security/current-user.ts'
import { permitting } from '../security/permits/session-permit.ts'
import { authoriseMember, isDeep } from '../security/roles/member-calls.ts'
import { isAllowedOrigin } from '../security/web-origin.ts'
import { streamCsv, wantsCsv } from './csv.ts'
import { type ErrorDetail, fail, HttpError, invalid } from './errors.ts'
import { checkIdempotencyKey, isKept, type KeyedRequest, runOnce, runOnceInSteps } from './idempotency.ts'
import type { Callers, Delegate, Input, Origin, Page, PageQuery, Route } from './route.ts'
import { serialiser, validator } from './schema.ts'

/** A request as the web framework passes it on. Nothing in it is checked yet. */
export interface Incoming {
  holder: KeyHolder
  origin: Origin
  params: Record<string, string>
  /** The path as received, without the query. */
  path: string
  queryText: string
  body: unknown
  bodyBytes: number
  /** base64url of SHA-256 of the body as received, where a proof came with it; null without a body. */
  bodyHash: string | null
  headers: UserHeaders & { 'idempotency-key'?: string | string[] | undefined; accept?: string | undefined }
}

export interface Outgoing {
  status: number
  /** JSON; or lines of CSV. */
  body: string | AsyncGenerator<string, void>
  replayed: boolean
}

/** Parses a query string strictly: a repeated parameter is an error. */
export function parseQuery(text: string): Record<string, string> {
  const query: Record<string, string> = {}
  if (text === '') return query
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const cut = pair.indexOf('=')
    let name: string
    let value: string
    try {
      name = decodeURIComponent((cut === -1 ? pair : pair.slice(0, cut)).replaceAll('+', ' '))
      value = cut === -1 ? '' : decodeURIComponent(pair.slice(cut + 1).replaceAll('+', ' '))
    } catch {
      throw invalid('', 'The query string is not valid percent-encoded UTF-8.', 'malformed_query')
    }
    if (value.includes('\0')) throw invalid(name, 'Must not contain a NUL character.', 'nul_character')
    if (Object.hasOwn(query, name)) throw invalid(name, 'Must be given only once.', 'repeated')
    Object.defineProperty(query, name, { value, enumerable: true, writable: true, configurable: true })
  }
  return query
}

/** Whether an address is in a list of addresses and CIDRs. Invalid entries match nothing. */
export function addressIn(address: string, entries: readonly string[]): boolean {
  if (!ipaddr.isValid(address)) return false
  const parsed = ipaddr.process(address)
  return entries.some((entry) => {
    const [base, bits] = entry.includes('/') ? ipaddr.parseCIDR(entry) : [ipaddr.process(entry), undefined]
    if (base.kind() !== parsed.kind()) return false
    return parsed.match(base, bits ?? (base.kind() === 'ipv4' ? 32 : 128))
  })
}

/** Key type, then scope, then origin: the fourth step of the order of checks. @throws 403 */
function authorise(deps: Deps, callers: Callers, holder: KeyHolder, webOrigin: string | null): void {
  const isPortal = holder.subscriberId !== undefined
  // Each entrance has its routes. If one had another's by mistake, it would still refuse.
  if (isPortal !== (callers.kind === 'subscriber')) throw fail('key_type_not_allowed')
  if (callers.kind === 'subscriber') return
  if (callers.kind === 'secret' && holder.keyType !== 'secret') throw fail('key_type_not_allowed')
  if (callers.kind !== 'any' && holder.keyType === 'secret' && !allows(holder.scopes, callers.scope))
    throw fail('insufficient_scope', [
      { code: 'missing_scope', message: `This call needs the scope ${callers.scope}.`, scope: callers.scope },
    ])
  if (callers.kind === 'secret' && callers.tenantWide && holder.appId !== null)
    throw fail('insufficient_scope', [
      { code: 'tenant_wide_key_required', message: 'This call needs a key that is not bound to an app.' },
    ])
  if (holder.keyType === 'publishable' && webOrigin !== null && !isAllowedOrigin(deps.config, holder, webOrigin))
    throw fail('origin_not_allowed')
}

/**
 * The role of a member, then what holds for every caller. @param query it is valid @returns whether a whole list is asked for as CSV
 * @throws 403
 */
function admit(deps: Deps, route: Route, { holder, origin, headers }: Incoming, query: PageQuery): boolean {
  // Whole lists are not for strangers: they pay for one call, and would go on after their link was revoked.
  const asCsv = route.reply.kind === 'list' && route.callers.kind !== 'subscriber' && wantsCsv(headers.accept)
  if (holder.member !== undefined) {
    const isExport = asCsv || (route.reply.kind === 'list' && isDeep(query))
    authoriseMember(route, holder.member, { headers, isExport, now: deps.now() })
  }
  authorise(deps, route.callers, holder, origin.webOrigin)
  return asCsv
}

const NOTHING = z.strictObject({})

/** Calls that take turns write a lot. At most this many run at once, for each core. */
const SLOTS_A_CORE = 3

/** The largest response of a call that only reads that is kept for a repeat. Otherwise a repeat reads again. */
const READ_BYTES_MAX = 64 * 1024

/** @param fieldOf how a field is named, from its keys with dots between them; '' is the whole */
function refuse(details: ErrorDetail[], fieldOf: (keys: string) => string): void {
  if (details.length === 0) return
  throw fail(
    'validation_failed',
    details.map((detail) => ({ ...detail, field: fieldOf(detail.field ?? '') })),
  )
}

/** Reads from the replica where it has caught up; from the primary otherwise, and if the replica fails. */
async function read(deps: Deps, route: Route, input: Input<never, never, never, never, never>): Promise<unknown> {
  const { replica } = deps
  const db = route.replica === true ? await replica?.caughtUp() : undefined
  if (db === undefined) return route.handler(deps, input)
  const { replicaReads } = deps.metrics
  if (db !== null)
    try {
      const result = await route.handler({ ...deps, db }, input)
      replicaReads.labels('replica').inc()
      return result
    } catch (error) {
      if (error instanceof HttpError) throw error
      replica?.failed(error)
    }
  replicaReads.labels('primary').inc()
  return route.handler(deps, input)
}

/** Whose a kept response is: that of a call with a proof is not for whoever has the token alone. */
const subjectOf = ({ tokenHash, jkt }: Delegate): string => `${tokenHash.toString('hex')}${jkt ?? ''}`

/** An endpoint, ready to answer: its validators and serialiser compiled, its checks in the contract's order. */
export function endpoint(deps: Deps, route: Route): (incoming: Incoming) => Promise<Outgoing> {
  const respond = responder(deps, route)
  if (route.secret !== true) return respond
  return async (incoming) => {
    const outgoing = await respond(incoming)
    // Here no transaction is open any more.
    return typeof outgoing.body === 'string' ? { ...outgoing, body: await signTokens(deps, outgoing.body) } : outgoing
  }
}

/** The same, with access tokens that may still wait for their signature. */
function responder(deps: Deps, route: Route): (incoming: Incoming) => Promise<Outgoing> {
  const checkQuery = validator(route.query ?? NOTHING)
  const checkBody = validator(route.body ?? NOTHING)
  const bodyField = (keys: string) => (keys === '' ? 'body' : (route.bodyField?.(keys) ?? keys))
  const write = serialiser(route.reply.schema)
  const status = route.status ?? 200
  const takesBody = route.method !== 'GET'
  const keepsAnswers = route.method === 'POST' || route.method === 'PATCH'

  const answer = (result: unknown) => {
    if (route.reply.kind !== 'list')
      return { status, body: write(route.reply.kind === 'one' ? { data: result } : result) }
    const { items, total, page, pageSize } = result as Page<unknown>
    return { status, body: write({ data: items, total, page, pageSize, hasMore: page * pageSize < total }) }
  }

  const { steps } = route
  const mutex = createKeyedMutex()
  const inSlot = pLimit(SLOTS_A_CORE * availableParallelism())
  const inTurn = async <T>(input: Input<never, never, never, never, never>, work: () => Promise<T>): Promise<T> => {
    if (route.turn === undefined) return work()
    const done = await mutex.run(route.turn(input), () => inSlot(work))
    if (done === null) throw fail('rate_limited', [], { 'retry-after': '1' })
    return done
  }

  return async (incoming) => {
    const query = parseQuery(incoming.queryText)
    refuse(checkQuery(query, 0), (keys) => keys)
    // A missing body means {}. A body of `null` does not.
    const body = takesBody && incoming.body !== undefined ? incoming.body : {}
    if (takesBody) refuse(checkBody(body, incoming.bodyBytes), bodyField)
    const asCsv = admit(deps, route, incoming, query)
    const { user, delegate } =
      route.callers.kind === 'both'
        ? await resolveActor(deps, incoming.holder, route.callers.user, { ...incoming, method: route.method })
        : { user: null, delegate: null }
    const input = {
      caller: incoming.holder,
      origin: user === null ? incoming.origin : { ...incoming.origin, actor: user.id },
      user,
      delegate,
      params: incoming.params,
      query,
      body,
    } as unknown as Input<never, never, never, never, never>
    if (asCsv) {
      const readPage = async (of: object) =>
        answer(await read(deps, route, { ...input, query: { ...query, ...of } as never })).body
      return { status, body: await streamCsv(route, query, readPage), replayed: false }
    }
    const key = keepsAnswers ? checkIdempotencyKey(incoming.headers['idempotency-key']) : null
    // Everybody shares a publishable key. Without a user or delegate, a kept response could reach somebody else.
    if (key === null || (incoming.holder.keyType === 'publishable' && user === null && delegate === null)) {
      await route.before?.(deps, input)
      const result =
        steps === undefined
          ? await permitting(deps, (permitted) => inTurn(input, () => read(permitted, route, input)))
          : await steps.finish(deps, input, await inTurn(input, () => steps.effect(deps, input)), false)
      return { ...answer(result), replayed: false }
    }
    const request: KeyedRequest = {
      caller: incoming.holder,
      key,
      method: route.method,
      path: incoming.path,
      content: { query, body },
      // Per session: another session of the same user may not be allowed to see this response.
      subject: user?.sessionId ?? user?.id ?? (delegate === null ? null : subjectOf(delegate)),
      secret: route.secret ?? false,
      keptBytesMax: route.reads === true ? READ_BYTES_MAX : Number.POSITIVE_INFINITY,
    }
    // A repeat of a completed call gets its response, even if the check would fail now.
    if (route.before !== undefined && !(await isKept(deps, request))) await route.before(deps, input)
    if (steps === undefined)
      return permitting(deps, (permitted) =>
        inTurn(input, () => runOnce(permitted, request, async (inTx) => answer(await route.handler(inTx, input)))),
      )
    return runOnceInSteps(deps, request, {
      // A call that waits for its turn holds no database connection. A call that waits for the network holds no turn.
      around: (work) => inTurn(input, work),
      effect: (inTx) => steps.effect(inTx, input),
      finish: async (recovery, replayed) => {
        const result = await steps.finish(deps, input, recovery, replayed)
        return { ...answer(result), isFinal: steps.isFinal?.(result) ?? true }
      },
    })
  }
}
