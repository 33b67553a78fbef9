import type { HalfkeyClient } from '../client.ts'
import { HalfkeyError, isHalfkeyError } from '../errors.ts'
import type { ConvertedGuest, GuestWithTokens, SignedIn, Tokens, User } from '../models.ts'
import type { HeldSession, SessionStore } from './held-session.ts'
import { platform } from './platform.ts'

/** Who is signed in. `loading` is for rendering on a server, which cannot know. */
export type SessionState =
  | { readonly status: 'loading' }
  | {
      readonly status: 'signed_out'
      /** Whether the session ended without a sign-out here: it expired, or was ended elsewhere. */
      readonly ended: boolean
    }
  | {
      readonly status: 'signed_in'
      readonly sessionId: string
      readonly userId: string
      /** As the sign-in returned it; null for a guest. */
      readonly user: User | null
      /** The guest's id until conversion; null for users. */
      readonly guestId: string | null
    }

/** A result that signs a user in. */
export type SignInResult = SignedIn | GuestWithTokens | ConvertedGuest

/** A session that is renewed automatically and notifies of changes. */
export interface LiveSession {
  read(): HeldSession | null
  getState(): SessionState
  subscribe(listener: () => void): () => void
  /** Replaces the session; `ended` says that it ended without a sign-out here. */
  put(next: HeldSession | null, ended?: boolean): void
  /** Ends the session here, unless it already has another token. */
  end(accessToken: string): void
  /** An access token that is valid for some time; null if nobody is signed in. @throws HalfkeyError */
  accessToken(): Promise<string | null>
  /** The access token after this one; concurrent calls share one renewal. Null if the session has ended. @throws HalfkeyError */
  renew(used: string): Promise<string | null>
}

const LOADING: SessionState = { status: 'loading' }
/** The state on a server, which cannot read the browser's storage. */
export const serverSession = (): SessionState => LOADING

/** How long before its expiry an access token is renewed. */
const RENEWAL_MARGIN_MS = 30_000
/** All attempts of a renewal end within the 30 s in which the service returns the same tokens again: a later repeat ends the session. */
const REFRESH_ATTEMPTS = 3
const REFRESH_TIMEOUT_MS = 8_000
const SESSION_OVER_CODES = [
  'session_revoked',
  'session_invalid',
  'session_expired',
  'guest_expired',
  'user_suspended',
] as const

const isOver = (error: unknown) => SESSION_OVER_CODES.some((code) => isHalfkeyError(error, code))

function stateOf(held: HeldSession | null, ended: boolean): SessionState {
  if (held === null) return { status: 'signed_out', ended }
  const { sessionId, userId, user, guestId } = held
  return { status: 'signed_in', sessionId, userId, user, guestId }
}

/** The part of a sign-in that is stored. */
export function heldOf(result: SignInResult): HeldSession {
  const { accessToken, refreshToken, sessionId } = result
  const user = 'user' in result ? result.user : null
  const userId = 'user' in result ? result.user.id : result.userId
  const guestId = 'user' in result ? null : result.id
  return { accessToken, refreshToken, expiresAtMs: endOf(result), sessionId, userId, user, guestId }
}

/** When the access token of this result expires, in milliseconds since the epoch. */
export const endOf = ({ expiresInSeconds }: { expiresInSeconds: number }) => Date.now() + expiresInSeconds * 1000

/** Runs in one tab of this origin at a time, if the browser has locks; otherwise the service's grace period for repeats protects the session. */
function withLock<T>(name: string, run: () => Promise<T>): Promise<T> {
  return platform.navigator?.locks?.request(name, run) ?? run()
}

/** Repeats a renewal without a response: the service returns the same tokens again. */
async function nextTokens(plain: HalfkeyClient, refreshToken: string): Promise<Tokens> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await plain.auth.refresh(refreshToken, { timeoutMs: REFRESH_TIMEOUT_MS, maxRetries: 0 })
    } catch (error) {
      const transient = error instanceof HalfkeyError && (error.status === 0 || error.status >= 500)
      if (!transient || attempt === REFRESH_ATTEMPTS) throw error
    }
  }
}

/** Notifies listeners, also of changes in other tabs. Listens to the window only while it has listeners. */
function newListeners(key: string) {
  const listeners = new Set<() => void>()
  const notify = () => {
    for (const listener of [...listeners]) listener()
  }
  const onStorage = (event: { key: string | null }) => {
    if (event.key === key || event.key === null) notify()
  }
  return {
    notify,
    subscribe(listener: () => void) {
      // A function that subscribes twice has two subscriptions.
      const own = () => listener()
      if (listeners.size === 0) platform.addEventListener?.('storage', onStorage)
      listeners.add(own)
      return () => {
        listeners.delete(own)
        if (listeners.size === 0) platform.removeEventListener?.('storage', onStorage)
      }
    },
  }
}

/**
 * @param plain sends calls without a user, for renewals
 * @param key the storage key of the session, and the name of the lock for its renewal
 */
export function openSession(store: SessionStore, plain: HalfkeyClient, key: string): LiveSession {
  const { notify, subscribe } = newListeners(key)
  let snapshot: { held: HeldSession | null; state: SessionState } | undefined
  let ended = false
  let renewing: Promise<string | null> | undefined

  function put(next: HeldSession | null, byItself = false): void {
    ended = byItself
    snapshot = undefined
    store.write(next)
    notify()
  }

  async function renewOnce(used: string): Promise<string | null> {
    const held = store.read()
    // Another tab was faster, or the user has signed out or in.
    if (held === null || held.accessToken !== used) return held?.accessToken ?? null
    try {
      const next = await nextTokens(plain, held.refreshToken)
      const now = store.read()
      if (now?.refreshToken !== held.refreshToken) return now?.accessToken ?? null
      put({ ...now, accessToken: next.accessToken, refreshToken: next.refreshToken, expiresAtMs: endOf(next) })
      return next.accessToken
    } catch (error) {
      if (!isOver(error)) throw error
      if (store.read()?.refreshToken === held.refreshToken) put(null, true)
      return null
    }
  }

  function renew(used: string): Promise<string | null> {
    renewing ??= withLock(key, () => renewOnce(used)).finally(() => {
      renewing = undefined
    })
    return renewing
  }

  return {
    read: store.read,
    put,
    renew,
    subscribe,
    getState() {
      const held = store.read()
      if (snapshot?.held !== held) snapshot = { held, state: stateOf(held, ended) }
      return snapshot.state
    },
    end(accessToken) {
      if (store.read()?.accessToken === accessToken) put(null, true)
    },
    async accessToken() {
      const held = store.read()
      if (held === null) return null
      const leftMs = held.expiresAtMs - Date.now()
      if (leftMs > RENEWAL_MARGIN_MS) return held.accessToken
      // A token that is valid for another moment is better than none.
      const next = await renew(held.accessToken).catch((error: unknown) => {
        if (leftMs > 0 && store.read()?.accessToken === held.accessToken) return held.accessToken
        throw error
      })
      // Another user has signed in, who did not make this call.
      return store.read()?.userId === held.userId ? next : null
    },
  }
}
