import {
  AuthorizationResponseError,
  ClientError,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'openid-client'
import type { Deps } from '../../platform/deps.ts'
import { HttpError } from '../../platform/http/errors.ts'
import type { ProviderRow } from '../../tenancy/apps/providers/service.ts'
import { ProviderFailed } from './client/egress-fetch.ts'
import type { Flow } from './flow.ts'

/** The flow's redirect URL with what came of it added to its query, and the rest unchanged to the letter. */
export function returnUrl({ redirectUrl, state }: Flow, outcome: { code: string } | { error: string }): string {
  const added = new URLSearchParams(outcome)
  if (state !== null) added.set('state', state)
  const joint = redirectUrl.includes('?') ? (/[?&]$/.test(redirectUrl) ? '' : '&') : '?'
  return `${redirectUrl}${joint}${added}`
}

const isOfProvider = (error: unknown): error is Error =>
  error instanceof ProviderFailed ||
  error instanceof AuthorizationResponseError ||
  error instanceof ResponseBodyError ||
  error instanceof WWWAuthenticateChallengeError ||
  error instanceof ClientError ||
  // The library's: an argument that came out of the provider's answer.
  error instanceof TypeError

/** What the app is told of an error. Undefined for one that is ours. */
function codeOf(error: unknown): string | undefined {
  if (error instanceof AuthorizationResponseError && error.error === 'access_denied') return 'access_denied'
  // Not ours: the app's server failed, which the app can tell its user.
  if (error instanceof HttpError && (error.status < 500 || error.code === 'sign_in_hook_failed'))
    return ['token_invalid', 'issuer_unavailable'].includes(error.code) ? 'provider_failed' : error.code
  return isOfProvider(error) ? 'provider_failed' : undefined
}

/** The form of an error code (RFC 6749, section 5.2). */
const ERROR_CODE = /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,100}$/

/** An error of the library names its code. One of the platform may quote what it was given, such as an access token. */
const isPlain = (error: Error) => error instanceof TypeError && !('code' in error)

/** For the operator: what was wrong. Of what the provider or the browser sent only an error code, never its description. */
export function problemOf(error: Error): object {
  if (error instanceof AuthorizationResponseError || error instanceof ResponseBodyError)
    return { problem: ERROR_CODE.test(error.error) ? error.error : 'an error code in a form that is not allowed' }
  if (error instanceof HttpError) return { problem: error.code, details: error.details.map(({ code }) => code) }
  if (isPlain(error)) return { problem: 'something in its answer is of a wrong type or form' }
  const { code } = error as { code?: unknown }
  return { problem: error.message, ...(typeof code === 'string' ? { code } : {}) }
}

/** The code of a flow's failure, for the person. @throws what is no error of the provider or the person */
export function failureOf(
  deps: Pick<Deps, 'log'>,
  row: Pick<ProviderRow, 'id'> & { app_id?: ProviderRow['app_id'] },
  error: unknown,
): string {
  const code = codeOf(error)
  if (code === undefined) throw error
  if (code === 'provider_failed')
    deps.log.warn(
      { providerId: row.id, appId: row.app_id, ...problemOf(error as Error) },
      'a sign-in by a provider failed',
    )
  return code
}

/** Where a flow that failed returns to. @throws what is no error of the provider or the person */
export const returnedWith = (deps: Pick<Deps, 'log'>, row: ProviderRow, flow: Flow, error: unknown): string =>
  returnUrl(flow, { error: failureOf(deps, row, error) })
