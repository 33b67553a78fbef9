import { type HalfkeyError, isHalfkeyError } from '../errors.ts'
import type { BrowserClient } from './client.ts'

/** What a person answers: a code of their authenticator app, or one of their recovery codes. */
export type MfaAnswer = { code: string } | { recoveryCode: string }

/** How to bring a person back to what they wanted to do. */
export interface StepUpOptions {
  /**
   * Asks the person for a code; null when they would rather not. Asked again after a wrong one, then with the error that
   * says so. @param refused why the answer before was refused; null at first
   */
  askCode: (refused: HalfkeyError | null) => Promise<MfaAnswer | null>
  /** Signs in again, where the service wants a sign-in of the last five minutes instead; without it that error passes. */
  signInAgain?: (() => Promise<unknown>) | undefined
}

/** More than the service lets anybody try before it locks. */
const ANSWERS_MAX = 10
/** A second factor and a sign-in: what one call can ask for. */
const STEPS_MAX = 2

async function verifySecondFactor(
  client: BrowserClient,
  askCode: StepUpOptions['askCode'],
  wanted: HalfkeyError,
): Promise<void> {
  const { mfa } = client.api
  let refused: HalfkeyError | null = null
  for (let answers = 0; answers < ANSWERS_MAX; answers++) {
    const { challengeId } = await mfa.challenge()
    const answer = await askCode(refused)
    // The person keeps from it: what they wanted stays refused.
    if (answer === null) throw wanted
    try {
      client.raise(await mfa.verify({ challengeId, ...answer }))
      return
    } catch (error) {
      if (!isHalfkeyError(error, 'invalid_code')) throw error
      refused = error
    }
  }
  throw wanted
}

/**
 * Does something that may need a second factor or a fresh sign-in: where the service asks for one (`mfa_required`,
 * `reauthentication_required`), gets it from the person and does it again.
 * @param action one call; it is made again from its beginning
 * @throws what `action` throws otherwise; `mfa_required` when the person gives no code; `mfa_locked` after five wrong ones
 */
export async function withStepUp<T>(
  client: BrowserClient,
  action: () => Promise<T>,
  { askCode, signInAgain }: StepUpOptions,
): Promise<T> {
  for (let steps = 0; ; steps++) {
    try {
      return await action()
    } catch (error) {
      if (steps === STEPS_MAX) throw error
      if (isHalfkeyError(error, 'mfa_required')) await verifySecondFactor(client, askCode, error)
      else if (isHalfkeyError(error, 'reauthentication_required') && signInAgain !== undefined) await signInAgain()
      else throw error
    }
  }
}
