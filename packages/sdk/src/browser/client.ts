import type { Fetch } from '../attempt.ts'
import { createClient, type HalfkeyClient } from '../client.ts'
import { isHalfkeyError } from '../errors.ts'
import { checkedBase } from '../http.ts'
import type { MfaVerification } from '../models.ts'
import { keepSession } from './held-session.ts'
import { browserStorage, type KeyValueStore, platform } from './platform.ts'
import { endOf, heldOf, type LiveSession, openSession, type SessionState, type SignInResult } from './session.ts'

/** Where to, and where to keep the session. */
export interface BrowserClientOptions {
  /** The service's address, as in `ClientOptions`. */
  baseUrl: string
  /** `hk_pk_…`, of the app. The page's origin must be in the app's `allowedOrigins`. */
  publishableKey: string
  /**
   * What keeps the session between pages: `localStorage` by default, so that tabs share it. `sessionStorage` keeps it to one
   * tab, null in memory, to one page. Scripts of the page can read what is in a storage: let none in that are not yours.
   */
  storage?: KeyValueStore | null | undefined
  /** As in `ClientOptions`. */
  fetch?: Fetch | undefined
  /** As in `ClientOptions`. */
  timeoutMs?: number | undefined
  /** As in `ClientOptions`. */
  maxRetries?: number | undefined
}

/** A page's client: calls as whoever is signed in, and keeps them signed in. */
export interface BrowserClient {
  /** The API by the publishable key, and as the current user if there is one. Access tokens renew themselves. */
  readonly api: HalfkeyClient
  /** Of the service, for what is addressed beside the API: the origin and path before `/v1`. */
  readonly serviceUrl: string
  /** Names what this client keeps in storages; the key in it is public. */
  readonly storageName: string
  /** Who is signed in now; the same object until that changes. */
  getSession(): SessionState
  /** Calls back when `getSession` has changed, by another tab too; answers what ends that. */
  subscribe(listener: () => void): () => void
  /** Signs in by what a call answered: of `auth`, `guests.create` or `guests.convert`. The session before it is ended. */
  adopt(result: SignInResult): void
  /** Goes on with the access token of a verified second factor. */
  raise(verification: Pick<MfaVerification, 'accessToken' | 'expiresInSeconds'>): void
  /** Renews the access token now; answers whether anybody is signed in still. @throws HalfkeyError where nobody could be asked */
  refresh(): Promise<boolean>
  /**
   * Ends the session on the server, and then here; with `everywhere` all of the user's.
   * @throws HalfkeyError where the server could not be asked: the session goes on, for one only forgotten would live on unseen
   */
  signOut(options?: { everywhere?: boolean }): Promise<void>
  /** Forgets the session here, whatever the server knows. */
  forget(): void
}

function checked({ publishableKey, storage }: BrowserClientOptions) {
  // A secret key in a page is everybody's.
  if (typeof publishableKey !== 'string' || !publishableKey.startsWith('hk_pk_'))
    throw new TypeError('publishableKey must be a publishable key (hk_pk_…): a page must hold no other')
  return storage === undefined ? browserStorage('localStorage') : (storage ?? undefined)
}

/** The code of an answer that may be about the session; empty for all others. The answer can still be read. */
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

/** Sends a call as whoever is signed in; once more when its token has run out on the way. */
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
      // Whoever has signed in meanwhile did not ask for this.
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
 * Makes a page's client. It holds nothing open, and on a server it is inert: there nobody is signed in, so that one made
 * at a module's top serves every render.
 * @throws TypeError on options that no request could be made with, or another key than a publishable one
 */
export function createBrowserClient(options: BrowserClientOptions): BrowserClient {
  const store = checked(options)
  const { baseUrl, publishableKey: apiKey, timeoutMs, maxRetries } = options
  const send: Fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init))
  const common = { baseUrl, apiKey, timeoutMs, maxRetries }
  const plain = createClient({ ...common, fetch: send })
  const storageName = `halfkey.${apiKey}`
  const session: LiveSession = openSession(
    keepSession(store, `${storageName}.session`),
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
      // Best effort: nobody holds its tokens any more.
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
