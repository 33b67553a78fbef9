export { type CoSignature, commitmentsHex, coSign, readCommitments } from './cosign.ts'
export { encryptionKeyBytes, openFromClient, sealToClient } from './encryption-key.ts'
export { asRefusal, CUSTODY_ERRORS, shareInvalid } from './errors.ts'
export { hasExactly, readParticipants, sealSubshares } from './participants.ts'
export { resealShares } from './reseal.ts'
export {
  cancelResharing,
  confirmResharing,
  deleteResharings,
  destroyExpiredShares,
  findResharing,
  putResharing,
  type ResharingRow,
} from './resharing-store.ts'
export {
  addShare,
  addSharing,
  attachCiphertext,
  bytesOf,
  isLive,
  isOpenable,
  isProven,
  isStored,
  openShare,
  sharingOf,
  toShare,
  verifyingSharesOf,
} from './shares.ts'
export {
  type ClientCiphertext,
  deleteOldEncryptionKeys,
  endShares,
  findShare,
  type ShareRow,
  setCiphertext,
  sharesOf,
  touchShare,
} from './store.ts'
export { hasCredential } from './wraps.ts'
