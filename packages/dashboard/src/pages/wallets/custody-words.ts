import type { Wallet, WalletCustody } from '@halfkey/sdk'

/** A kind of custody in a word or two. */
export const CUSTODY: Record<Wallet['custody'], string> = {
  embedded: 'Embedded',
  shared: 'Shared',
  self_custody: 'Self custody',
}

/** For filters. */
export const CUSTODY_OPTIONS = Object.entries(CUSTODY).map(([value, label]) => ({ value, label }))

/** The same as a sentence that claims no more than the records say. */
export function custodySentence({ custody, serviceAlone, userAlone, canSign }: WalletCustody): string {
  if (custody === 'embedded')
    return 'Halfkey signs for this wallet, so anyone who controls the Halfkey server controls its assets. The server, not cryptography, enforces the policies of delegated sessions.'
  if (canSign.length === 0) return 'No signer is recorded for this key.'
  if (custody === 'self_custody')
    return serviceAlone
      ? 'The user has the key. Halfkey can open enough key shares to sign too.'
      : 'Only the holder of the user’s key can sign. Halfkey has only the public key and cannot move assets.'
  if (serviceAlone) return 'The key is split into shares, but Halfkey can open enough of them to sign without the user.'
  if (userAlone) return 'The key is split into shares. Halfkey cannot sign alone. The user can sign without Halfkey.'
  return 'The key is split into shares. According to the records, neither Halfkey nor the user can sign alone.'
}
