import type { Deps } from '../../platform/deps.ts'
import type { Call } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import type { KeyGeneration } from './schema.ts'
import { findOwn, isExpired, lockOwn, toKeyGeneration, withoutSecrets } from './state.ts'
import * as store from './store.ts'

/** How long an expired key generation can be read; a confirmation can be repeated. */
const KEPT_MS = 24 * 3_600_000
const BATCH = 500

/** The current user's key generation. @throws not_found, user_session_required */
export async function getKeyGeneration(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<KeyGeneration> {
  return toKeyGeneration(await findOwn(deps, call, id), deps.now())
}

/**
 * Cancels a key generation and destroys its secrets. One that has already ended is returned unchanged.
 * @throws not_found, user_session_required, dkg_conflict if it has made a wallet
 */
export async function cancelKeyGeneration(deps: Deps, call: Omit<Call, 'origin'>, id: string): Promise<KeyGeneration> {
  const found = await findOwn(deps, call, id)
  return deps.db.tx(async (tx) => {
    const before = await lockOwn(tx, call, found)
    if (before.status === 'confirmed')
      throw fail('dkg_conflict', [
        { code: 'confirmed', message: 'This key generation was confirmed and has created a wallet.' },
      ])
    const now = deps.now()
    if (before.status === 'canceled') return toKeyGeneration(before, now)
    const status = isExpired(before, now) ? before.status : ('canceled' as const)
    const row = { ...withoutSecrets(before), status, updated_at: now }
    await store.updateKeyGeneration(tx, row)
    return toKeyGeneration(row, now)
  })
}

/**
 * Destroys the secrets of one batch of expired key generations, and deletes one batch of those that expired a day ago; of
 * all tenants. @returns whether there may be more
 */
export async function sweepKeyGenerations(deps: Deps): Promise<boolean> {
  const now = deps.now()
  const wiped = await store.wipeExpired(deps.db, now, BATCH)
  const deleted = await store.deleteExpired(deps.db, new Date(now.getTime() - KEPT_MS), BATCH)
  return wiped === BATCH || deleted === BATCH
}
