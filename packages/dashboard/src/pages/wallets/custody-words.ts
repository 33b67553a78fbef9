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
    return 'This service signs for the wallet, so whoever controls the service controls what the wallet holds. Delegated sessions are kept to their policies by the program, not by cryptography.'
  if (canSign.length === 0) return 'The records name nobody who can sign with this key.'
  if (custody === 'self_custody')
    return serviceAlone
      ? 'The user has the key, and this service could open enough of its shares to sign as well.'
      : 'Only who has the user’s key can sign. This service has its public half and cannot move anything.'
  if (serviceAlone) return 'The key is in shares, but this service could open enough of them to sign without the user.'
  if (userAlone)
    return 'The key is in shares. This service cannot sign alone; the user has what it takes to sign without the service.'
  return 'The key is in shares: neither this service nor the user is known to be able to sign without the other.'
}
