import { createClient, type HalfkeyClient } from '@halfkey/sdk'

const BASE = '/dashboard/api'

/** The session as the server describes it. */
export interface DashboardSession {
  /** `link`: the operator, with all rights in every tenant. `key`: the holder of an API key, with its rights. */
  via: 'link' | 'key'
  keyId: string | null
  keyName: string | null
  /** `['*']` for the operator. */
  scopes: string[]
  /** The app that the key is bound to. */
  appId: string | null
  tenant: { id: string; name: string }
  tenants: { id: string; name: string }[]
  defaultAppId: string
  csrfToken: string
  createdAt: string
  expiresAt: string
  environment: 'development' | 'production'
  publicUrl: string
  version: string
}

/** Why a sign-in failed, or the session could not be read. */
class SessionError extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const state: { csrfToken: string | null; tenantId: string | null; onEnd: () => void } = {
  csrfToken: null,
  tenantId: null,
  onEnd: () => {},
}

function ownHeaders(): Record<string, string> {
  return {
    ...(state.csrfToken === null ? {} : { 'x-halfkey-csrf': state.csrfToken }),
    ...(state.tenantId === null ? {} : { 'x-halfkey-tenant': state.tenantId }),
  }
}

/** The SDK's `fetch`: authenticated by the session cookie instead of an API key. */
const send: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('x-api-key')
  for (const [name, value] of Object.entries(ownHeaders())) headers.set(name, value)
  const answer = await fetch(input, { ...init, headers, credentials: 'same-origin' })
  if (answer.status === 401) void endIfOver()
  return answer
}

/** A call may also be refused for a delegated session's token: only the session itself says whether it has ended. */
async function endIfOver(): Promise<void> {
  const session = await readSession().catch(() => undefined)
  if (session === null) state.onEnd()
}

// The SDK requires a key. This placeholder is removed from every request.
const options = { baseUrl: BASE, apiKey: 'dashboard', fetch: send as never, maxRetries: 1 }

/** A call of the API that the SDK does not make, such as for a list as CSV. `path` begins behind the base. */
export function fetchApi(path: string, init: RequestInit): Promise<Response> {
  return send(BASE + path, init)
}

/**
 * The pin of this installation, to show. Not by the SDK, which would verify the answer: this page comes from the same
 * service, so it has nothing to verify it against.
 */
export async function readPin(signal: AbortSignal): Promise<string> {
  const answer = await fetchApi('/mpc/config', { signal })
  if (!answer.ok) throw new Error('The pin could not be read.')
  const { data } = (await answer.json()) as { data: { identity: { pin: string } } }
  return data.identity.pin
}

/** The API of the tenant that is shown. */
export const api: HalfkeyClient = createClient(options)

/** The same, acting for one of the tenant's users: needs the scope `users:act_as`. */
export function apiFor(userId: string): HalfkeyClient {
  return createClient({ ...options, userId })
}

/** The same, with a delegated session's token: executes and queries for that session. */
export function apiAs({ delegateToken }: { delegateToken: string }): HalfkeyClient {
  return createClient({ ...options, delegateToken })
}

/** Sets the tenant of all later calls; null for the session's first tenant. */
export function setTenant(tenantId: string | null): void {
  state.tenantId = tenantId
}

/** Sets the listener that is called when the session has ended. */
export function onSessionEnd(listener: () => void): void {
  state.onEnd = listener
}

async function sessionCall(method: 'GET' | 'POST' | 'DELETE', body?: object): Promise<DashboardSession> {
  const answer = await fetch(`${BASE}/session`, {
    method,
    credentials: 'same-origin',
    headers: { ...ownHeaders(), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const parsed = (await answer.json().catch(() => ({}))) as {
    data?: DashboardSession
    error?: string
    code?: string
    details?: { message: string }[]
  }
  if (!answer.ok)
    throw new SessionError(
      answer.status,
      parsed.code ?? 'unreachable',
      [
        ...new Set([
          parsed.error ?? 'The server did not respond.',
          ...(parsed.details ?? []).map(({ message }) => message),
        ]),
      ].join(' '),
    )
  const session = parsed.data as DashboardSession
  state.csrfToken = session.csrfToken ?? null
  return session
}

/** The session of the cookie; null if there is none. @throws SessionError for anything else */
export async function readSession(): Promise<DashboardSession | null> {
  try {
    return await sessionCall('GET')
  } catch (error) {
    if (error instanceof SessionError && error.status === 401) return null
    throw error
  }
}

/** Signs in by a one-time link's token or by a secret key. @throws SessionError */
export function signIn(by: { link: string } | { key: string }): Promise<DashboardSession> {
  // A key belongs to one tenant. The tenant in the URL does not apply.
  if ('key' in by) state.tenantId = null
  return sessionCall('POST', by)
}

/** Ends the session, here and on the server. @throws SessionError */
export async function signOut(): Promise<void> {
  await sessionCall('DELETE')
  state.csrfToken = null
  state.tenantId = null
}

/** Whether the session has a scope. The server checks it in any case. */
export function allows(session: DashboardSession, scope: string): boolean {
  const [resource, verb] = scope.split(':')
  return (
    session.scopes.includes('*') ||
    session.scopes.includes(scope) ||
    (verb === 'read' && session.scopes.includes(`${resource}:write`))
  )
}
