/** What a Canton participant prepares, read strictly: transactions and their hash, topology, and the envelope around them. */
export { type Enveloped, unwrapPrepared, wrapPrepared } from './envelope.ts'
export { CantonError, type CantonErrorCode } from './errors.ts'
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
