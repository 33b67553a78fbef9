import { CantonError, type CantonErrorCode } from '../../src/canton/index.ts'

/** The refusal that something ends in; anything else, success included, fails the test. */
export function refusal(run: () => unknown): CantonErrorCode {
  try {
    run()
  } catch (error) {
    if (error instanceof CantonError) return error.code
    throw error
  }
  throw new Error('This was not refused.')
}
