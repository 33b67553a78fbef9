import type { Db, Sql } from '../../platform/db/db.ts'
import type { Id } from '../../platform/ids.ts'
import { waitingNotes } from './notes.ts'
import * as store from './store.ts'

/** Kinds of records, by the action that ends one. What is ended so is never alive again, except for wallets and users. */
const ENDS: Readonly<Record<string, { kind: string; alive(tenantId: Id<'ten'>, waiting: store.Waiting): Sql }>> = {
  'api_key.revoked': { kind: 'api_key', alive: store.aliveKey },
  'delegated_session.revoked': { kind: 'delegated_session', alive: store.aliveDelegatedSession },
  'session.revoked': { kind: 'session', alive: store.aliveSession },
  'session.reuse_detected': { kind: 'session', alive: store.aliveSession },
  'app.deleted': { kind: 'app', alive: store.kept('apps') },
  'passkey.removed': { kind: 'passkey', alive: store.kept('passkeys') },
  'identity.unlinked': { kind: 'identity', alive: store.kept('identities') },
  'recipient.removed': { kind: 'wallet_recipient', alive: store.kept('wallet_recipients') },
  'issuer.deleted': { kind: 'issuer', alive: store.kept('app_issuers') },
  'provider.deleted': { kind: 'provider', alive: store.kept('app_providers') },
  'member.removed': { kind: 'member', alive: store.presentMember },
  'user.suspended': { kind: 'user', alive: store.activeUser },
  'wallet.frozen': { kind: 'wallet', alive: store.unfrozenWallet },
}

/** A record that the log says was ended, and whose table says that it was not. */
export interface Returned {
  kind: string
  id: string
}

/** What acts that are not in the log yet are about: those that somebody else inserted do not count. */
async function readWaiting(db: Db, tenantId: Id<'ten'>): Promise<store.Waiting> {
  const waiting = new Map<string, string[]>()
  for await (const notes of waitingNotes(db, tenantId))
    for (const { action, target } of notes.genuine) waiting.set(action, [...(waiting.get(action) ?? []), target])
  return waiting
}

/**
 * Holds a tenant's records against the log: a row that was put back as it was before its end, with its MAC, differs from it. The log must
 * be whole itself: see `verifyLog`. Yields, portion by portion, how many entries it looked at and what came back.
 */
export async function* findReturned(db: Db, tenantId: Id<'ten'>): AsyncGenerator<{ seen: number; found: Returned[] }> {
  const waiting = await readWaiting(db, tenantId)
  for (const [action, { kind, alive }] of Object.entries(ENDS)) {
    for (let after = 0; ; ) {
      const { seen, last, ids } = await store.returnedAmong(db, tenantId, {
        action,
        after,
        alive: alive(tenantId, waiting),
      })
      yield { seen, found: ids.map((id) => ({ kind, id })) }
      if (last === null) break
      after = last
    }
  }
}
