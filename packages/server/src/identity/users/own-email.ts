import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { eventOf, publish } from '../../platform/events/events.ts'
import { existing } from '../../platform/http/errors.ts'
import type { Call } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { parseEmail } from './email.ts'
import { searchText } from './new-user.ts'
import * as store from './store.ts'

async function setEmail(tx: Db, deps: Deps, call: Call, id: Id<'usr'>, email: string | null): Promise<void> {
  const scope = { tenantId: call.caller.tenantId, appId: null }
  const before = existing(await store.lockUser(tx, scope, id))
  const parsed = email === null ? null : parseEmail(email)
  const row: store.UserRow = {
    ...before,
    email: parsed?.shown ?? null,
    email_key: parsed?.key ?? null,
    email_verified: parsed !== null,
    updated_at: deps.now(),
  }
  row.search_text = searchText(row)
  const changed = [
    ...(row.email === before.email ? [] : ['email']),
    ...(row.email_verified === before.email_verified ? [] : ['emailVerified']),
  ]
  if (changed.length === 0) return
  await store.updateUser(tx, row)
  if (row.email_key !== before.email_key && store.mayRecover(before)) {
    const of = { tenantId: row.tenant_id, userId: id, by: 'email_changed', cause: call } as const
    await deps.hooks.recoveryRefuted(tx, deps, of)
  }
  await publish(tx, deps, eventOf(row, 'user.updated', { userId: id, changed }, call))
}

/** Stores an email that its user has shown to be theirs. The key of the email is free, or the user's. */
export function confirmEmail(tx: Db, deps: Deps, call: Call, id: Id<'usr'>, email: string): Promise<void> {
  return setEmail(tx, deps, call, id, email)
}

/** Takes an email from a user who has not shown that it is theirs, for somebody who has. */
export function releaseEmail(tx: Db, deps: Deps, call: Call, id: Id<'usr'>): Promise<void> {
  return setEmail(tx, deps, call, id, null)
}
