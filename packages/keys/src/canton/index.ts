/**
 * What a Canton participant prepares, read strictly: transactions and their hash, topology, and the envelope around them; and how a
 * wallet's key signs it, with a service or alone.
 */
export { type Enveloped, unwrapPrepared, wrapPrepared } from './envelope.ts'
export { CantonError, type CantonErrorCode } from './errors.ts'
export { type AlsoAllowed, isGiven } from './flows/asked.ts'
export {
  type CantonDelegateApi,
  type CantonExecution,
  type CantonWireExecution,
  executeOnCanton,
} from './flows/execute.ts'
export type { OwnKey, WalletKey } from './flows/key.ts'
export {
  type ExpectedParty,
  type OnboardingApi,
  type OnboardingView,
  readOnboarding,
  type SignedOnboarding,
  signOnboarding,
  type WireOnboarding,
} from './flows/onboard.ts'
export { type CantonTransaction, readCantonTransaction } from './flows/transaction.ts'
export { wordsOf } from './flows/words.ts'
export type { HashingScheme } from './hash.ts'
export type { Json } from './json.ts'
export {
  checkOnboarding,
  type ExpectedOnboarding,
  fingerprintOf,
  type Host,
  multiHashOf,
  topologyHash,
} from './topology.ts'
export {
  type CreateView,
  type ExerciseView,
  type FetchView,
  type InputView,
  type KeyView,
  type NodeView,
  nodesOf,
  openPrepared,
  type PreparedView,
  type QueryView,
  type RollbackView,
} from './view.ts'
