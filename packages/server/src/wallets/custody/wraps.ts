import type { Db } from '../../platform/db/db.ts'
import type { Deps } from '../../platform/deps.ts'
import { failures } from '../../platform/http/errors.ts'
import type { Id } from '../../platform/ids.ts'
import { CUSTODY_ERRORS } from './errors.ts'
import * as store from './store.ts'

const fail = failures(CUSTODY_ERRORS)

/** Whether a wrap is for a passkey. Ids are compared as bytes: base64url writes some bytes in more than one way. */
export const hasCredential = ({ credentialId }: store.Wrap, id: Buffer): boolean =>
  credentialId !== undefined && Buffer.from(credentialId, 'base64url').equals(id)

/**
 * Takes the wraps of a passkey that is being removed off its user's shares, in the transaction that holds the user: so what
 * is left of them is what still opens the share. @throws share_would_be_lost where one is a share's last
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
      const message = `Share ${row.index} of generation ${row.generation} opens by this passkey alone. Add another one to it first (PATCH /mpc/shares/${row.wallet_id}), or delete it.`
      throw fail('share_would_be_lost', [{ code: 'share_would_be_lost', message }])
    }
    await store.updateShare(tx, { ...row, client_ciphertext: { ...ciphertext, wraps }, updated_at: deps.now() })
  }
}
