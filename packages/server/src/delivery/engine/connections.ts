/**
 * Settings of the engine's connections. Its tables turn over faster than their statistics, so its plans are index scans
 * whatever those say: a scan of an index clears dead entries out of its way, which one by bitmap never does, and a table
 * that is thought empty is not read whole.
 */
export const ENGINE_SETTINGS = {
  enable_bitmapscan: 'off',
  enable_seqscan: 'off',
  plan_cache_mode: 'force_generic_plan',
}

/** For work that a crash of the database may undo, because it is then only done again. */
export const ASYNC_COMMIT_SETTINGS = { ...ENGINE_SETTINGS, synchronous_commit: 'off' }
