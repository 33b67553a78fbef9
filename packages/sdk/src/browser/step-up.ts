import { type HalfkeyError, isHalfkeyError } from '../errors.ts'
import type { BrowserClient } from './client.ts'
import { provePasskey } from './passkeys.ts'

/** The user's answer: a code of their authenticator app, or a recovery code. */
export type MfaAnswer = { code: string } | { recoveryCode: string }

/** How to get a second factor or a fresh sign-in from the user. */
export interface StepUpOptions {
  /**
   * Asks the user for a code; null when they decline. Called again after a wrong code, with its error.
   * @param refused why the previous answer was refused; null at first
   */
  askCode: (refused: HalfkeyError | null) => Promise<MfaAnswer | null>
  /** Signs in again, if the service requires a sign-in within the last five minutes; without it that error is thrown. */
  signInAgain?: (() => Promise<unknown>) | undefined
}

/** More attempts than the service allows before it locks. */
const ANSWERS_MAX = 10
/** One call can require a second factor and a sign-in. */
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
    // The user declined, so the call stays refused.
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

/** Opens a session that began with the app's own login or an email code: by a code or, without a second factor, by a passkey. */
async function showOwn(client: BrowserClient, askCode: StepUpOptions['askCode'], wanted: HalfkeyError): Promise<void> {
  const { enabled } = await client.api.mfa.status()
  await (enabled ? verifySecondFactor(client, askCode, wanted) : provePasskey(client))
}

/**
 * Runs an action that may need a second factor, a passkey or a fresh sign-in: if the service requires one (`mfa_required`,
 * `stronger_sign_in_required`, `reauthentication_required`), gets it from the user and repeats the action.
 * @param action one call, which is repeated from its beginning
 * @throws other errors of `action`; PasskeyError when the user shows no passkey; `mfa_required` when the user gives no code; `mfa_locked` after five wrong ones
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
      else if (isHalfkeyError(error, 'stronger_sign_in_required')) await showOwn(client, askCode, error)
      else if (isHalfkeyError(error, 'reauthentication_required') && signInAgain !== undefined) await signInAgain()
      else throw error
    }
  }
}
