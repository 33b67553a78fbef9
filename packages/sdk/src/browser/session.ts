import type { HalfkeyClient } from '../client.ts'
import { HalfkeyError, isHalfkeyError } from '../errors.ts'
import type { ConvertedGuest, GuestWithTokens, SignedIn, Tokens, User } from '../models.ts'
import type { HeldSession, SessionKeeper } from './held-session.ts'
import { platform } from './platform.ts'

/** Who is signed in. `loading` is only told while a server renders the page: it cannot know. */
export type SessionState =
  | { readonly status: 'loading' }
  | {
      readonly status: 'signed_out'
      /** Whether a session has come to its end by itself: it expired, or was ended elsewhere. */
      readonly ended: boolean
    }
  | {
      readonly status: 'signed_in'
      readonly sessionId: string
      readonly userId: string
      /** As the sign-in answered it; null for a guest. */
      readonly user: User | null
      /** Of a guest who has not been converted; null for users. */
      readonly guestId: string | null
    }

/** What signs somebody in. */
export type SignInResult = SignedIn | GuestWithTokens | ConvertedGuest

/** A session that renews itself and says when it changes. */
export interface LiveSession {
  read(): HeldSession | null
  getState(): SessionState
  subscribe(listener: () => void): () => void
  /** Puts another session in place of the one there is; `ended` says that nobody here asked for its end. */
  put(next: HeldSession | null, ended?: boolean): void
  /** Ends it here, unless it has gone on to another token than this one. */
  end(accessToken: string): void
  /** An access token that holds for a while yet; null where nobody is signed in. @throws HalfkeyError */
  accessToken(): Promise<string | null>
  /** The access token after this one, renewed at most once however many ask; null where the session is over. @throws HalfkeyError */
  renew(used: string): Promise<string | null>
}

const LOADING: SessionState = { status: 'loading' }
/** What a server renders: it does not know the browser's storage. */
export const serverSession = (): SessionState => LOADING

/** An access token is renewed so long before it ends. */
const MARGIN_MS = 30_000
/** All attempts of a renewal end within the 30 s in which the service answers a repeat alike: after them it ends the session. */
const REFRESH_ATTEMPTS = 3
const REFRESH_TIMEOUT_MS = 8_000
const OVER = ['session_revoked', 'session_invalid', 'session_expired', 'guest_expired', 'user_suspended'] as const

const isOver = (error: unknown) => OVER.some((code) => isHalfkeyError(error, code))

function stateOf(held: HeldSession | null, ended: boolean): SessionState {
  if (held === null) return { status: 'signed_out', ended }
  const { sessionId, userId, user, guestId } = held
  return { status: 'signed_in', sessionId, userId, user, guestId }
}

/** What is kept of a sign-in. */
export function heldOf(result: SignInResult): HeldSession {
  const { accessToken, refreshToken, sessionId } = result
  const user = 'user' in result ? result.user : null
  const userId = 'user' in result ? result.user.id : result.userId
  const guestId = 'user' in result ? null : result.id
  return { accessToken, refreshToken, expiresAtMs: endOf(result), sessionId, userId, user, guestId }
}

/** When an access token of this answer runs out, in milliseconds of the epoch. */
export const endOf = ({ expiresInSeconds }: { expiresInSeconds: number }) => Date.now() + expiresInSeconds * 1000

/** Runs alone among the tabs of this origin, where browsers can say so; elsewhere the service's grace for repeats must do. */
function alone<T>(name: string, run: () => Promise<T>): Promise<T> {
  return platform.navigator?.locks?.request(name, run) ?? run()
}

/** Asks again where no answer came: the service gives the same successor to who asks twice. */
async function nextTokens(plain: HalfkeyClient, refreshToken: string): Promise<Tokens> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await plain.auth.refresh(refreshToken, { timeoutMs: REFRESH_TIMEOUT_MS, maxRetries: 0 })
    } catch (error) {
      const passing = error instanceof HalfkeyError && (error.status === 0 || error.status >= 500)
      if (!passing || attempt === REFRESH_ATTEMPTS) throw error
    }
  }
}

/** Tells listeners, also of what other tabs have changed. Holds on to the window only while there are listeners. */
function newListeners(key: string) {
  const listeners = new Set<() => void>()
  const tell = () => {
    for (const listener of [...listeners]) listener()
  }
  const onStorage = (event: { key: string | null }) => {
    if (event.key === key || event.key === null) tell()
  }
  return {
    tell,
    subscribe(listener: () => void) {
      // Each subscription is one of its own, even of a function that has one already.
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
 * @param plain calls as nobody, for renewals
 * @param key what the session is kept under; also the name of the lock for its renewal
 */
export function openSession(keeper: SessionKeeper, plain: HalfkeyClient, key: string): LiveSession {
  const { tell, subscribe } = newListeners(key)
  let told: { held: HeldSession | null; state: SessionState } | undefined
  let ended = false
  let renewing: Promise<string | null> | undefined

  function put(next: HeldSession | null, byItself = false): void {
    ended = byItself
    told = undefined
    keeper.write(next)
    tell()
  }

  async function renewOnce(used: string): Promise<string | null> {
    const held = keeper.read()
    // Another tab was faster, or the person has signed out or in.
    if (held === null || held.accessToken !== used) return held?.accessToken ?? null
    try {
      const next = await nextTokens(plain, held.refreshToken)
      const now = keeper.read()
      if (now?.refreshToken !== held.refreshToken) return now?.accessToken ?? null
      put({ ...now, accessToken: next.accessToken, refreshToken: next.refreshToken, expiresAtMs: endOf(next) })
      return next.accessToken
    } catch (error) {
      if (!isOver(error)) throw error
      if (keeper.read()?.refreshToken === held.refreshToken) put(null, true)
      return null
    }
  }

  function renew(used: string): Promise<string | null> {
    renewing ??= alone(key, () => renewOnce(used)).finally(() => {
      renewing = undefined
    })
    return renewing
  }

  return {
    read: keeper.read,
    put,
    renew,
    subscribe,
    getState() {
      const held = keeper.read()
      if (told?.held !== held) told = { held, state: stateOf(held, ended) }
      return told.state
    },
    end(accessToken) {
      if (keeper.read()?.accessToken === accessToken) put(null, true)
    },
    async accessToken() {
      const held = keeper.read()
      if (held === null) return null
      const leftMs = held.expiresAtMs - Date.now()
      if (leftMs > MARGIN_MS) return held.accessToken
      // One that still holds a moment is better than no answer.
      const next = await renew(held.accessToken).catch((error: unknown) => {
        if (leftMs > 0 && keeper.read()?.accessToken === held.accessToken) return held.accessToken
        throw error
      })
      // Whoever has signed in meanwhile did not ask for what this is for.
      return keeper.read()?.userId === held.userId ? next : null
    },
  }
}
