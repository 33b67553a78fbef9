import type { Db, Sql } from './db/db.ts'
import type { Deps } from './deps.ts'
import type { EventInput } from './events/events.ts'
import type { Call } from './http/route.ts'
import type { Id } from './ids.ts'
import type { Proof } from './security/dpop/proof.ts'

/** A user's record that something happened to, and who caused it. */
interface OfUser {
  tenantId: Id<'ten'>
  userId: Id<'usr'>
  cause?: EventInput['cause']
}

/** Why a pending recovery by email ends without anybody's asking. */
type RecoveryRefutation = 'passkey' | 'second_factor' | 'email_changed' | 'suspended'

/** An app that is being deleted. */
export interface OfApp {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** A subscriber that is being deleted, and who deletes it. */
export interface OfSubscriber {
  tenantId: Id<'ten'>
  subscriberId: Id<'sub'>
  cause: Call
}

/** A proof of possession that came with the token of a delegated session: see `platform/security/dpop/proof.ts`. */
export interface SentProof extends Proof {
  tenantId: Id<'ten'>
  tokenHash: Buffer
}

/**
 * What a lower slice lets the slices above it do in its own transactions, so that it does not import them. Each slice
 * hands in the hooks that it answers in its `slice.ts`.
 */
export interface Hooks {
  /** An app is to be deleted with its users; called twice, before and after the creation of others is locked out. */
  appEmptied(tx: Db, deps: Deps, of: OfApp): Promise<void>
  /** An app that has no users is about to be deleted; answered by every slice that keeps records of apps. */
  appDeleted(tx: Db, deps: Deps, of: OfApp): Promise<void>
  /** The deletion of an app has committed. */
  appGone(deps: Deps, of: OfApp): Promise<void>
  /** A subscriber, who is locked, is about to be deleted. */
  subscriberDeleted(tx: Db, deps: Deps, of: OfSubscriber): Promise<void>
  /** A guest's session ended; their user is locked. */
  guestEnded(tx: Db, deps: Deps, of: OfUser): Promise<void>
  /** A passkey is about to be removed; its user is locked. @throws to keep it */
  passkeyRemoved(tx: Db, deps: Deps, of: OfUser & { credentialId: Buffer }): Promise<void>
  /**
   * A passkey was added to a user who was there already, and is locked. It completes the recovery that its challenge was made for,
   * and ends any other. @throws challenge_expired for a recovery that has ended
   */
  passkeyAdded(tx: Db, deps: Deps, of: OfUser & { passkeyId: Id<'pky'>; recoveryId: Id<'rcv'> | null }): Promise<void>
  /** A pending recovery of a user ends: they are there, or what it rests on has changed. */
  recoveryRefuted(tx: Db, deps: Deps, of: OfUser & { by: RecoveryRefutation }): Promise<void>
  /** A call has a valid proof: uses it up, outside of any transaction. @throws dpop_proof_invalid if it was used before */
  proofSent(deps: Deps, proof: SentProof): Promise<void>
  /**
   * A `with` part, `seen`, for the statement that begins a session: it marks the user as seen and is empty unless they are
   * active and the condition holds.
   */
  userSeen(of: { tenantId: Id<'ten'>; userId: Id<'usr'>; at: Date }, condition: Sql): Sql
}
