import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { fail } from './errors.ts'
import * as store from './store.ts'

/** Whether a wrap belongs to a passkey. Compares bytes: base64url can write the same bytes in several ways. */
export const hasCredential = ({ credentialId }: store.Wrap, id: Buffer): boolean =>
  credentialId !== undefined && Buffer.from(credentialId, 'base64url').equals(id)

/**
 * Removes the wraps of a passkey that is being removed from its user's shares, in the transaction that holds the user.
 * @throws share_would_be_lost if one is a share's last
 */
export async function removeWrapsOf(
  tx: Db,
  deps: Deps,
  of: { tenantId: Id<'ten'>; userId: Id<'usr'>; credentialId: Buffer },
): Promise<void> {
  for (const row of await store.clientSharesOf(tx, of.tenantId, of.userId)) {
    const ciphertext = row.client_ciphertext
    if (ciphertext === null) continue
    const wraps = ciphertext.wraps.filter((wrap) => !hasCredential(wrap, of.credentialId))
    if (wraps.length === ciphertext.wraps.length) continue
    if (wraps.length === 0) {
      const message = `Only this passkey opens share ${row.index} of generation ${row.generation}. Add another passkey to the share first (PATCH /mpc/shares/${row.wallet_id}), or delete the share.`
      throw fail('share_would_be_lost', [{ code: 'share_would_be_lost', message }])
    }
    await store.setCiphertext(tx, { ...row, client_ciphertext: { ...ciphertext, wraps }, updated_at: deps.now() })
  }
}
