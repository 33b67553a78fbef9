import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Db } from '../../platform/db/db.ts'
import { existing, pathId } from '../../platform/http/errors.ts'
import type { Caller } from '../../platform/http/route.ts'
import * as store from './store.ts'

/** Locks a user that the caller can see until the transaction ends. Waits for running acts in the user's name. @throws not_found */
export async function lockOwn(tx: Db, caller: Caller, text: string): Promise<store.UserRow> {
  const id = pathId('usr', text)
  await lockOutActs(tx, id)
  return existing(await store.lockUser(tx, caller, id))
}
