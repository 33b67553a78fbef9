import type { User } from '../models.ts'
import type { KeyValueStore } from './platform.ts'

/** What the browser keeps of a session. */
export interface HeldSession {
  accessToken: string
  refreshToken: string
  /** When the access token runs out, by the browser's clock, in milliseconds of the epoch. */
  expiresAtMs: number
  sessionId: string
  userId: string
  /** As the sign-in answered it; null for a guest. */
  user: User | null
  /** Of a guest who has not been converted; null for users. */
  guestId: string | null
}

/** Where it is kept: one entry, in the given store or in memory. */
export interface SessionKeeper {
  /** The same object as long as nothing has changed it. */
  read(): HeldSession | null
  write(session: HeldSession | null): void
}

function parsed(text: string | null): HeldSession | null {
  if (text === null) return null
  try {
    const session = JSON.parse(text) as HeldSession
    const texts = [session.accessToken, session.refreshToken, session.sessionId, session.userId]
    return texts.every((one) => typeof one === 'string') && Number.isFinite(session.expiresAtMs) ? session : null
  } catch {
    // Somebody else's entry, or half of one: as good as none.
    return null
  }
}

/** Keeps a session in `store` under `key`; without a store, or when it fails, in memory. */
export function keepSession(store: KeyValueStore | undefined, key: string): SessionKeeper {
  let text: string | null = null
  let session: HeldSession | null = null
  let inMemory = store === undefined
  function stored(): string | null {
    try {
      return inMemory ? text : (store?.getItem(key) ?? null)
    } catch {
      inMemory = true
      return text
    }
  }
  return {
    read() {
      const now = stored()
      if (now !== text) [text, session] = [now, parsed(now)]
      return session
    },
    write(next) {
      session = next
      text = next === null ? null : JSON.stringify(next)
      try {
        if (text === null) store?.removeItem(key)
        else if (!inMemory) store?.setItem(key, text)
      } catch {
        // No room, or no permission any more: this page still goes on.
        inMemory = true
      }
    },
  }
}
