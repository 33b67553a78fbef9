import { invalidateDecisions } from '../../delegation/service.ts'
import { credentialIdsOf } from '../../identity/passkeys/service.ts'
import { requireOwnStepUp } from '../../identity/sessions/service.ts'
import { lockOutActs } from '../../platform/concurrency/user-lock.ts'
import type { Deps } from '../../platform/deps.ts'
import { publish } from '../../platform/events/events.ts'
import { invalid, notFoundField } from '../../platform/http/errors.ts'
import type { KeyShare } from '../../wallets/custody/schema.ts'
import {
  cancelResharing,
  endShares,
  hasCredential,
  isLive,
  isStored,
  setCiphertext,
  sharesOf,
  toShare,
} from '../../wallets/custody/service.ts'
import { type Call, walletEvent } from '../../wallets/wallets/service.ts'
import { fail } from './errors.ts'
import { currentGeneration, findWallet, lockWallet, requireRoom } from './own-wallet.ts'
import type { DeletedShares, DeleteShares, ReplaceWraps, Wrap } from './schema.ts'
import { checkWraps } from './wraps.ts'

const ALG = 'prf-hkdf-sha256-aes256gcm'

const lost = (message: string) => fail('share_would_be_lost').about('wraps', message)

/**
 * Replaces the wraps of a share that passkeys protect. At least one must belong to a passkey that the user has here, or
 * was there before: a passkey that is removed concurrently does not become the only way to the share.
 * @throws not_found (names `index` where it is the share that is missing), custody_unsupported, user_session_required, what
 * `requireOwnStepUp` throws, validation_failed, share_would_be_lost, share_limit
 */
export async function replaceWraps(deps: Deps, call: Call, id: string, input: ReplaceWraps): Promise<KeyShare> {
  await findWallet(deps, call, id, 'path')
  await requireOwnStepUp(deps, call.caller, call.user)
  checkWraps(ALG, input.wraps, 'wraps')
  return deps.db.tx(async (tx) => {
    const wallet = await lockWallet(tx, deps, call, id, 'path')
    const rows = await sharesOf(tx, wallet.tenant_id, wallet.id)
    const generation = input.generation ?? currentGeneration(wallet, rows)
    const row = rows.find((each) => isLive(each) && each.generation === generation && each.index === input.index)
    if (row === undefined) throw notFoundField('index')
    const ciphertext = row.client_ciphertext
    if (ciphertext?.alg !== ALG)
      throw invalid('index', 'Must be a share that is stored here and protected by passkeys.')
    if (input.wraps.length === 0)
      throw lost('Must have at least one wrap. To give up the share, delete it (DELETE /mpc/shares/:walletId).')
    const passkeys = await credentialIdsOf(tx, wallet.tenant_id, wallet.user_id)
    const known = (wrap: Wrap) =>
      ciphertext.wraps.some((old) => hasCredential(old, Buffer.from(wrap.credentialId ?? '', 'base64url'))) ||
      passkeys.some((passkey) => hasCredential(wrap, passkey))
    if (!input.wraps.some(known))
      throw lost('Must have a wrap for a passkey that the user has here, or that already had a wrap.')
    const changed = { ...row, client_ciphertext: { ...ciphertext, wraps: input.wraps }, updated_at: deps.now() }
    requireRoom(
      rows.filter((each) => each !== row),
      changed.client_ciphertext,
    )
    await setCiphertext(tx, changed)
    const { holder, index } = row
    const data = { holder, index, generation: row.generation }
    await publish(tx, deps, walletEvent(wallet, 'key_share.stored', call, data))
    return toShare(changed)
  })
}

/**
 * Destroys what is stored of a generation's shares.
 * @throws not_found, custody_unsupported, user_session_required, what `requireOwnStepUp` throws
 */
export async function deleteShares(deps: Deps, call: Call, id: string, query: DeleteShares): Promise<DeletedShares> {
  await findWallet(deps, call, id, 'path')
  await requireOwnStepUp(deps, call.caller, call.user)
  return deps.db.tx(async (tx) => {
    await lockOutActs(tx, call.user.id)
    const wallet = await lockWallet(tx, deps, call, id, 'path')
    const { tenant_id: tenantId } = wallet
    const rows = await sharesOf(tx, tenantId, wallet.id)
    const generation = query.generation === undefined ? currentGeneration(wallet, rows) : Number(query.generation)
    const live = rows.filter((row) => isLive(row) && row.generation === generation)
    const [first] = live
    if (first === undefined) throw fail('not_found')
    const of = { tenantId, walletId: wallet.id, generations: [first.generation], status: 'deleted' as const }
    const deleted = (await endShares(tx, deps.now(), of)).length
    // A signature share that was just made with the deleted share is no longer sent.
    await invalidateDecisions(tx, of)
    // A resharing that was started before would restore a share.
    await cancelResharing(tx, deps.now(), of)
    await publish(tx, deps, walletEvent(wallet, 'key_share.deleted', call, { deleted }))
    const remainingKnown = live.filter((row) => !isStored(row)).length
    return { walletId: wallet.id, deleted, remainingKnown, threshold: first.threshold }
  })
}
