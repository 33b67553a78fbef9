// What reads the participant's bytes is a package of its own, which clients use too: here is where this ledger takes it from.

export {
  CantonError,
  type CreateView,
  checkOnboarding,
  type ExerciseView,
  type InputView,
  isGiven,
  type Json,
  type NodeView,
  nodesOf,
  openPrepared,
  type PreparedView,
  unwrapPrepared,
  wrapPrepared,
} from '../../../../../keys/src/canton/index.ts'
