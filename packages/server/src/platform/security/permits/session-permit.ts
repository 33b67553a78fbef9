import type { Deps } from '../../deps.ts'
import type { Id } from '../../ids.ts'

/** The session that a permit is for. */
export interface PermitSubject {
  tenantId: Id<'ten'>
  appId: Id<'app'>
  /** Null if the sign-in creates the user. */
  userId: Id<'usr'> | null
  method: string
}

/** The app's server lets this one session begin. It counts within the call that obtained it, and nowhere else. */
export class SessionPermit {
  readonly #subject: PermitSubject

  constructor(subject: PermitSubject) {
    this.#subject = subject
  }

  covers(subject: PermitSubject): boolean {
    const { tenantId, appId, userId, method } = this.#subject
    return (
      tenantId === subject.tenantId && appId === subject.appId && userId === subject.userId && method === subject.method
    )
  }
}

/** Thrown where a session would begin without the permit that its app asks for. What was written so far is rolled back. */
export class SessionNeedsPermit extends Error {
  /** Asks over the network: never call it in a transaction. @throws the refusal */
  readonly obtain: (deps: Deps) => Promise<SessionPermit>

  constructor(obtain: (deps: Deps) => Promise<SessionPermit>) {
    super('a session needs a permit of its app')
    this.obtain = obtain
  }
}

/** The user can change between two runs, for example if another call creates them: the permit for the first is none for the second. */
const ASKS_MAX = 2

/**
 * Runs what may begin a session. If that needs a permit, `body` has changed nothing: the permit is obtained outside of any
 * transaction, and `body` runs once more. Within a transaction, whoever opened it does this. Put it around what the sign-in
 * can repeat, behind what it uses up for good.
 */
export async function permitting<T>(deps: Deps, body: (deps: Deps) => Promise<T>): Promise<T> {
  let permitted = deps
  for (let asks = 0; ; asks += 1)
    try {
      return await body(permitted)
    } catch (error) {
      if (!(error instanceof SessionNeedsPermit) || deps.db.inTransaction || asks === ASKS_MAX) throw error
      permitted = { ...deps, permit: await error.obtain(deps) }
    }
}
