export { type Bytes, fromBase64Url, fromHex, toBase64Url, toHex, utf8 } from './bytes.ts'
export { canonicalJson } from './canonical-json.ts'
export * from './cosign.ts'
export * from './dkg.ts'
export * from './errors.ts'
export { isSignature, publicKeyOf, scalarOfSeed, signWithScalar } from './group.ts'
export * from './hpke.ts'
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
