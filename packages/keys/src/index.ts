export { type Bytes, fromBase64Url, fromHex, toBase64Url, toHex, utf8 } from './bytes.ts'
export { canonicalJson } from './canonical-json.ts'
export * from './cosign.ts'
export * from './dkg.ts'
export * from './errors.ts'
export type {
  DelegateApi,
  KeyApi,
  ServiceConfig,
  WireCommitments,
  WireExecution,
  WireSealed,
  WireWallet,
} from './flows/api.ts'
export { createSharedWallet, type UserShares } from './flows/create.ts'
export { executeShared, type SharedExecution, transactionDigest } from './flows/execute.ts'
export { type HeldShare, readHeldShare, writeHeldShare } from './flows/held-share.ts'
export { ServicePinError, type ServiceTrust, servicePinOf, verifyServiceConfig } from './flows/pin.ts'
export { joinHeldShares, releaseKey, reshare } from './flows/recover.ts'
export { loadHeldShare, protectionContext, type ShareApi, storeHeldShare } from './flows/store.ts'
export { type Sweep, type SweepApi, type SweepDelegate, sweep } from './flows/sweep.ts'
export { isSignature, publicKeyOf, scalarOfSeed, signWithScalar } from './group.ts'
export * from './hpke.ts'
export * from './passkey-prf.ts'
export * from './protect.ts'
export * from './protocol.ts'
export * from './reshare.ts'
export {
  dealShares,
  isShareOf,
  joinShares,
  type Share,
  type Sharing,
  TOTAL_MAX,
  verifyingShareOf,
  wrongShares,
} from './sharing.ts'
