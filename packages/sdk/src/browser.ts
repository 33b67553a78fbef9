// The public API for pages. Everything else is internal.
export { type BrowserClient, type BrowserClientOptions, createBrowserClient } from './browser/client.ts'
export { PasskeyError, type PasskeyFailure, type ReturnFailure, SignInReturnError } from './browser/errors.ts'
export {
  finishHostedSignIn,
  type HostedSignInOptions,
  hostedSignInUrl,
  startHostedSignIn,
} from './browser/hosted-page.ts'
export { signInWithToken } from './browser/own-login.ts'
export {
  type CreatePasskeyOptions,
  createPasskey,
  provePasskey,
  type SignInOptions,
  signIn,
  supportsAutofill,
  supportsPasskeys,
} from './browser/passkeys.ts'
export type { KeyValueStore } from './browser/platform.ts'
export type { SessionState, SignInResult } from './browser/session.ts'
export { type MfaAnswer, type StepUpOptions, withStepUp } from './browser/step-up.ts'
export {
  finishTelegramSignIn,
  miniAppInitData,
  signInToMiniApp,
  signInWithTelegram,
  startTelegramSignIn,
  telegramSignInUrl,
} from './browser/telegram.ts'
