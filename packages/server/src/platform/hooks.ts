import type { Db } from './db/db.ts'
import type { Deps } from './deps.ts'
import type { EventInput } from './events/events.ts'
import type { Id } from './ids.ts'

/** A user's record that something happened to, and who caused it. */
interface OfUser {
  tenantId: Id<'ten'>
  userId: Id<'usr'>
  cause?: EventInput['cause']
}

/**
 * What a lower slice lets the slices above it do in its own transactions, so that it does not import them. Each slice
 * hands in the hooks that it answers in its `slice.ts`.
 */
export interface Hooks {
  /** A guest's session ended; their user is locked. */
  guestEnded(tx: Db, deps: Deps, of: OfUser): Promise<void>
  /** A passkey is about to be removed; its user is locked. @throws to keep it */
  passkeyRemoved(tx: Db, deps: Deps, of: OfUser & { credentialId: Buffer }): Promise<void>
}
