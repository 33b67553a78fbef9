import type { Fetch } from '../attempt.ts'
import { createClient, type HalfkeyClient } from '../client.ts'
import { isHalfkeyError } from '../errors.ts'
import { checkedBase } from '../http.ts'
import type { MfaVerification } from '../models.ts'
import { openSessionStore } from './held-session.ts'
import { browserStorage, type KeyValueStore, platform } from './platform.ts'
import { endOf, heldOf, type LiveSession, openSession, type SessionState, type SignInResult } from './session.ts'

/** Where to send calls, and where to keep the session. */
export interface BrowserClientOptions {
  /** The service's address, as in `ClientOptions`. */
  baseUrl: string
  /** `hk_pk_…`, of the app. The page's origin must be in the app's `allowedOrigins`. */
  publishableKey: string
  /**
   * Where the session is kept between pages: `localStorage` by default, which all tabs share. `sessionStorage` keeps it in
   * one tab, null in the memory of one page. Every script of the page can read a storage: load only scripts that you trust.
   */
  storage?: KeyValueStore | null | undefined
  /** As in `ClientOptions`. */
  pin?: string | undefined
  /** As in `ClientOptions`. */
  trustOnFirstUse?: boolean | undefined
  /** As in `ClientOptions`. */
  fetch?: Fetch | undefined
  /** As in `ClientOptions`. */
  timeoutMs?: number | undefined
  /** As in `ClientOptions`. */
  maxRetries?: number | undefined
}

/** A page's client: sends calls for the signed-in user and renews their session. */
export interface BrowserClient {
  /** The API with the publishable key, for the current user if there is one. Access tokens are renewed automatically. */
  readonly api: HalfkeyClient
  /** The service's origin and the path before `/v1`, for addresses beside the API. */
  readonly serviceUrl: string
  /** Names what this client keeps in storages; the key in it is public. */
  readonly storageName: string
  /** Who is signed in now; the same object until that changes. */
  getSession(): SessionState
  /** Calls the listener when `getSession` has changed, also in another tab; returns the function that unsubscribes. */
  subscribe(listener: () => void): () => void
  /** Signs in with the result of `auth`, `guests.create` or `guests.convert`. Ends the previous session. */
  adopt(result: SignInResult): void
  /** Continues with the access token of a verified second factor, or of a passkey that was shown. */
  raise(verification: Pick<MfaVerification, 'accessToken' | 'expiresInSeconds'>): void
  /** Renews the access token now; returns whether a user is still signed in. @throws HalfkeyError if the server did not answer */
  refresh(): Promise<boolean>
  /**
   * Ends the session on the server, and then here; with `everywhere` all of the user's.
   * @throws HalfkeyError if the server did not answer: the session stays, because one that is only forgotten here would stay valid
   */
  signOut(options?: { everywhere?: boolean }): Promise<void>
  /** Deletes the session here only. */
  forget(): void
}

function checked({ publishableKey, storage }: BrowserClientOptions) {
  if (typeof publishableKey !== 'string' || !publishableKey.startsWith('hk_pk_'))
    throw new TypeError('publishableKey must be a publishable key (hk_pk_…): every visitor can read the keys of a page')
  return storage === undefined ? browserStorage('localStorage') : (storage ?? undefined)
}

/** The code of a response that may be about the session; empty for all others. The body can still be read. */
async function codeOf(response: Response): Promise<string> {
  if (![401, 403, 410].includes(response.status)) return ''
  const body = (await response
    .clone()
    .json()
    .catch(() => null)) as { code?: unknown } | null
  return typeof body?.code === 'string' ? body.code : ''
}

/** Where the service is, without the API's version. */
function serviceUrlOf(baseUrl: string): string {
  const url = checkedBase(baseUrl).replace(/\/v1$/, '')
  return url.startsWith('/') || url === '' ? `${platform.location?.origin ?? ''}${url}` : url
}

/** Sends a call for the signed-in user, and again if its token expired in the meantime. */
function sendingFor(session: () => LiveSession, send: Fetch): Fetch {
  return async (url, init) => {
    const before = session().read()
    const response = await send(url, init)
    const headers = init.headers as Record<string, string>
    const used = headers.authorization?.replace(/^Bearer /, '')
    if (used === undefined) return response
    const code = await codeOf(response)
    if (code === 'session_expired') {
      const next = await session().renew(used)
      // Another user has signed in, who did not make this call.
      const isTheirs = before?.accessToken === used && session().read()?.userId === before.userId
      return next === null || !isTheirs
        ? response
        : send(url, { ...init, headers: { ...headers, authorization: `Bearer ${next}` } })
    }
    if (code === 'session_revoked' || code === 'session_invalid' || code === 'guest_expired') session().end(used)
    return response
  }
}

const isGone = (error: unknown) => isHalfkeyError(error) && (error.status === 401 || error.status === 410)

/**
 * Creates a page's client. It holds no connection. On a server nobody is signed in, so that a client created at the top of
 * a module can serve every render.
 * @throws TypeError for invalid options, or a key that is not publishable
 */
export function createBrowserClient(options: BrowserClientOptions): BrowserClient {
  const store = checked(options)
  const { baseUrl, publishableKey: apiKey, timeoutMs, maxRetries, pin, trustOnFirstUse } = options
  const send: Fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init))
  const common = { baseUrl, apiKey, timeoutMs, maxRetries, pin, trustOnFirstUse }
  const plain = createClient({ ...common, fetch: send })
  const storageName = `halfkey.${apiKey}`
  const session: LiveSession = openSession(
    openSessionStore(store, `${storageName}.session`),
    plain,
    `${storageName}.session`,
  )
  const api = createClient({ ...common, accessToken: session.accessToken, fetch: sendingFor(() => session, send) })
  return {
    api,
    serviceUrl: serviceUrlOf(baseUrl),
    storageName,
    getSession: session.getState,
    subscribe: session.subscribe,
    adopt(result) {
      const before = session.read()
      session.put(heldOf(result))
      if (before === null || before.sessionId === result.sessionId) return
      // Best effort: nobody has its tokens any more.
      createClient({ ...common, accessToken: before.accessToken, fetch: send })
        .auth.logOut()
        .catch(() => undefined)
    },
    raise({ accessToken, expiresInSeconds }) {
      const held = session.read()
      // Only servers, which act for users without their tokens, get none.
      if (held === null || accessToken === null || expiresInSeconds === null) return
      session.put({ ...held, accessToken, expiresAtMs: endOf({ expiresInSeconds }) })
    },
    async refresh() {
      const held = session.read()
      return held !== null && (await session.renew(held.accessToken)) !== null
    },
    async signOut({ everywhere = false } = {}) {
      if (session.read() === null) return
      await api.auth.logOut(everywhere ? { everywhere } : {}).catch((error: unknown) => {
        if (!isGone(error)) throw error
      })
      session.put(null)
    },
    forget: () => session.put(null),
  }
}
