import type { User } from '../models.ts'
import type { KeyValueStore } from './platform.ts'

/** The part of a session that the browser stores. */
export interface HeldSession {
  accessToken: string
  refreshToken: string
  /** When the access token expires, by the browser's clock, in milliseconds since the epoch. */
  expiresAtMs: number
  sessionId: string
  userId: string
  /** As the sign-in returned it; null for a guest. */
  user: User | null
  /** The guest's id until conversion; null for users. */
  guestId: string | null
}

/** Stores one session, in the given storage or in memory. */
export interface SessionStore {
  /** The same object until the session changes. */
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
    // A foreign or incomplete entry counts as none.
    return null
  }
}

/** Keeps a session in `storage` under `key`; without a storage, or when it fails, in memory. */
export function openSessionStore(storage: KeyValueStore | undefined, key: string): SessionStore {
  let text: string | null = null
  let session: HeldSession | null = null
  let inMemory = storage === undefined
  function stored(): string | null {
    try {
      return inMemory ? text : (storage?.getItem(key) ?? null)
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
        if (text === null) storage?.removeItem(key)
        else if (!inMemory) storage?.setItem(key, text)
      } catch {
        // The storage is full, or no longer allowed: this page continues in memory.
        inMemory = true
      }
    },
  }
}
