import { createClient, type HalfkeyClient, type Member } from '@halfkey/sdk'
import { askForPasskey, createPasskey } from './passkeys.ts'

const BASE = '/dashboard/api'

/** What a member may do: see the guide. */
export type Role = Member['role']

/** The session as the server describes it. */
export interface DashboardSession {
  /** `link`: the operator, with all rights in every tenant. `key`: the holder of an API key, with its rights. */
  via: 'link' | 'key' | 'member'
  /** The member who is signed in; null for the operator and a key. */
  member: { id: string; name: string; email: string; role: Role } | null
  /** The apps that a member with some apps may change to; null for all. */
  apps: { id: string; name: string }[] | null
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

const state: {
  csrfToken: string | null
  tenantId: string | null
  appId: string | null
  isMember: boolean
  onEnd: () => void
} = {
  csrfToken: null,
  tenantId: null,
  appId: null,
  isMember: false,
  onEnd: () => {},
}

function ownHeaders(): Record<string, string> {
  return {
    ...(state.csrfToken === null ? {} : { 'x-halfkey-csrf': state.csrfToken }),
    ...(state.tenantId === null ? {} : { 'x-halfkey-tenant': state.tenantId }),
    ...(state.appId === null ? {} : { 'x-halfkey-app': state.appId }),
  }
}

/** The SDK's `fetch`: authenticated by the session cookie instead of an API key. */
const send: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('x-api-key')
  for (const [name, value] of Object.entries(ownHeaders())) headers.set(name, value)
  const once = () => fetch(input, { ...init, headers, credentials: 'same-origin' })
  const answer = await once()
  if (answer.status === 401) void endIfOver()
  return (await needsStepUp(answer)) && (await stepUp()) ? once() : answer
}

/** Whether a member may repeat the call once they have shown their passkey again. */
async function needsStepUp(answer: Response): Promise<boolean> {
  if (answer.status !== 403 || !state.isMember) return false
  const { code } = (await answer
    .clone()
    .json()
    .catch(() => ({}))) as { code?: string }
  return code === 'reauthentication_required'
}

let steppingUp: Promise<boolean> | undefined

/** Asks for the passkey again, once for all calls that wait for it. @returns whether it was shown */
function stepUp(): Promise<boolean> {
  steppingUp ??= proof()
    .then((shown) => sessionCall('POST', shown, '/step-up'))
    .then(
      () => true,
      () => false,
    )
    .finally(() => {
      steppingUp = undefined
    })
  return steppingUp
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

/** The app that a member chose in this tab. It outlives a reload, and ends with the tab or at the sign-out. */
const CHOSEN_APP = 'halfkey.app'

/** Sets the app of all later calls of a member who has some apps; null for their first. This tab remembers it. */
export function setApp(appId: string | null): void {
  state.appId = appId
  if (appId === null) sessionStorage.removeItem(CHOSEN_APP)
  else sessionStorage.setItem(CHOSEN_APP, appId)
}

/** Takes up the app that was chosen before a reload. @returns whether there was one */
export function takeUpApp(): boolean {
  state.appId = sessionStorage.getItem(CHOSEN_APP)
  return state.appId !== null
}

/** Sets the listener that is called when the session has ended. */
export function onSessionEnd(listener: () => void): void {
  state.onEnd = listener
}

/** A call about the session itself: its `data`. @throws SessionError */
async function callSession<T>(method: 'GET' | 'POST' | 'DELETE', body?: object, path = ''): Promise<T> {
  const answer = await fetch(`${BASE}/session${path}`, {
    method,
    credentials: 'same-origin',
    headers: { ...ownHeaders(), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const parsed = (await answer.json().catch(() => ({}))) as {
    data?: T
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
  return parsed.data as T
}

async function sessionCall(method: 'GET' | 'POST' | 'DELETE', body?: object, path = ''): Promise<DashboardSession> {
  const session = await callSession<DashboardSession>(method, body, path)
  state.csrfToken = session.csrfToken ?? null
  state.isMember = session.via === 'member'
  return session
}

/** The answer of one of the person's passkeys. @throws SessionError, or the browser's error */
async function proof(): Promise<{ challengeId: string; credential: object }> {
  const { challengeId, publicKey } = await callSession<{ challengeId: string; publicKey: object }>(
    'POST',
    {},
    '/passkey-options',
  )
  return { challengeId, credential: await askForPasskey(publicKey) }
}

/** Signs a member in with one of their passkeys. @throws SessionError, or the browser's error */
export async function signInWithPasskey(): Promise<DashboardSession> {
  state.tenantId = null
  setApp(null)
  return sessionCall('POST', { passkey: await proof() })
}

/** The tenant whose members the page signs in; without one it is the only tenant of the installation. */
const tenantOfPage = () => new URLSearchParams(location.search).get('tenant')

export interface Ways {
  emailCode: boolean
  /** The login of the organisation. */
  /** `host`: of the login, which its owner cannot choose as freely as its name. */
  oidc: { name: string; host: string } | null
}

/** What the sign-in page offers beside passkeys, links and keys. @throws SessionError */
export function readWays(): Promise<Ways> {
  const tenant = tenantOfPage()
  return callSession('GET', undefined, `/ways${tenant === null ? '' : `?tenant=${encodeURIComponent(tenant)}`}`)
}

/** Has a code mailed to a member. @returns its challenge, also for an address that is no member's. @throws SessionError */
export async function askForCode(email: string): Promise<string> {
  const tenantId = tenantOfPage()
  const body = { email, ...(tenantId === null ? {} : { tenantId }) }
  return (await callSession<{ challengeId: string }>('POST', body, '/email-code')).challengeId
}

/** Where a sign-in at the login of the organisation begins. @throws SessionError */
export async function urlOfLogin(): Promise<string> {
  const tenantId = tenantOfPage()
  return (await callSession<{ url: string }>('POST', tenantId === null ? {} : { tenantId }, '/login')).url
}

/** The member's account at the login of their organisation. Connecting and disconnecting ask for a passkey. */
export const ownLogin = {
  read: () => callSession<{ name: string; connected: boolean } | null>('GET', undefined, '/login'),
  /** @returns where to send the browser */
  connect: async () => (await fresh(() => callSession<{ url: string }>('POST', {}, '/login/connect'))).url,
  disconnect: () => fresh(() => callSession('POST', {}, '/login/disconnect')),
}

/** Signs a member in with a code that was mailed to them. @throws SessionError */
export function signInWithCode(challengeId: string, code: string): Promise<DashboardSession> {
  state.tenantId = null
  setApp(null)
  return sessionCall('POST', { emailCode: { challengeId, code } })
}

/** A passkey of the member who is signed in. */
export interface OwnPasskey {
  id: string
  name: string
  lastUsedAt: string | null
  createdAt: string
}

/** The member's own passkeys. Adding and removing one asks for one that is there, if the last proof is some minutes old. */
export const ownPasskeys = {
  list: () => callSession<OwnPasskey[]>('GET', undefined, '/passkeys'),
  async add(deviceName: string): Promise<void> {
    type Options = { challengeId: string; publicKey: object }
    const { challengeId, publicKey } = await fresh(() => callSession<Options>('POST', {}, '/passkeys/options'))
    await callSession('POST', { challengeId, credential: await createPasskey(publicKey), deviceName }, '/passkeys')
  },
  remove: (id: string) => fresh(() => callSession('POST', { id }, '/passkeys/remove')),
}

/** Makes a call, and once more after a step-up if it asks for one. @throws SessionError */
async function fresh<T>(make: () => Promise<T>): Promise<T> {
  try {
    return await make()
  } catch (error) {
    const asks = error instanceof SessionError && error.code === 'reauthentication_required'
    if (!asks || !(await stepUp())) throw error
    return make()
  }
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
  setApp(null)
  return sessionCall('POST', by)
}

/** Ends the session, here and on the server. @throws SessionError */
export async function signOut(): Promise<void> {
  await sessionCall('DELETE')
  state.csrfToken = null
  state.tenantId = null
  setApp(null)
}

/** Whether the session may take whole lists away. */
export const mayExport = ({ member }: DashboardSession): boolean =>
  member === null || (member.role !== 'viewer' && member.role !== 'support')

/** What members can let keys do, and never do themselves: act for users, sign them in, execute, settle. */
const NOT_OF_MEMBERS = ['users:act_as', 'auth:write', 'delegated_sessions:execute', 'payments:settle']

/** Whether the session has a scope. The server checks it in any case. */
export function allows(session: DashboardSession, scope: string): boolean {
  if (session.member !== null && NOT_OF_MEMBERS.includes(scope)) return false
  const [resource, verb] = scope.split(':')
  return (
    session.scopes.includes('*') ||
    session.scopes.includes(scope) ||
    (verb === 'read' && session.scopes.includes(`${resource}:write`))
  )
}
