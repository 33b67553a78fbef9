import type { Calls, RequestOptions } from '../http.ts'
import type { MfaChallenge, MfaSetup, MfaStatus, MfaVerification, RecoveryCodes } from '../models.ts'
import type { Body } from '../operations.ts'

/** Calls of the current user's second factor. Every method may also throw what any call does: see `HalfkeyError`. */
export function mfaOf({ one }: Calls) {
  return {
    /** Starts a set-up: show `qrSvg` or `secret` to the user. @throws mfa_already_enabled, reauthentication_required */
    setUp: (options?: RequestOptions): Promise<MfaSetup> => one('post', '/mfa/setup', {}, options),

    /** Completes it with a first code. The recovery codes are in this response only. @throws invalid_code, mfa_locked */
    verifySetUp: (body: Body<'/mfa/verify-setup', 'post'>, options?: RequestOptions): Promise<RecoveryCodes> =>
      one('post', '/mfa/verify-setup', { body }, options),

    /** Starts a step-up. @throws mfa_not_enabled */
    challenge: (body: Body<'/mfa/challenge', 'post'> = {}, options?: RequestOptions): Promise<MfaChallenge> =>
      one('post', '/mfa/challenge', { body }, options),

    /** Completes a step-up with a code or a recovery code; it is valid for five minutes. @throws invalid_code, mfa_locked */
    verify: (body: Body<'/mfa/verify', 'post'>, options?: RequestOptions): Promise<MfaVerification> =>
      one('post', '/mfa/verify', { body }, options),

    /** Whether there is a second factor, and how many recovery codes are left. */
    status: (options?: RequestOptions): Promise<MfaStatus> => one('get', '/mfa/status', {}, options),

    /** Removes it. @throws mfa_required, mfa_not_enabled */
    disable: (options?: RequestOptions): Promise<MfaStatus> => one('delete', '/mfa', {}, options),
  }
}
