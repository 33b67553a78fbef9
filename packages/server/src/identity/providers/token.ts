import type { JWTPayload } from 'jose'
import { ClientError } from 'openid-client'
import type { Deps } from '../../platform/deps.ts'
import { failures, HttpError } from '../../platform/http/errors.ts'
import type { Call, Caller } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import type { ProviderRow } from '../../tenancy/apps/providers/service.ts'
import { resolveApp } from '../../tenancy/apps/service.ts'
import {
  FOREIGN_TOKEN_ERRORS,
  prepareIdToken,
  type TokenUse,
  tokenInvalid,
  verifyIdToken,
} from '../foreign-tokens/service.ts'
import { signInVouched, tokenOnce } from '../identities/service.ts'
import type { SignedIn } from '../users/schema.ts'
import { accountOfClaims, type ShownAccount, sourceOf } from './account.ts'
import { ProviderFailed } from './client/egress-fetch.ts'
import { metadataOf } from './client/metadata.ts'
import { requireProvider } from './flow.ts'
import type { ProviderToken } from './schema.ts'

const fail = failures(FOREIGN_TOKEN_ERRORS)

/** How long a used token is remembered: longer than any is accepted, whatever the clocks say. */
const REMEMBERED_MS = 2 * 3_600_000

/** An ID token as a native app sent it. */
export interface SentIdToken {
  idToken: string
  nonce: string
}

interface OfApp {
  tenantId: Id<'ten'>
  appId: Id<'app'>
}

/** GitHub issues no ID tokens. @throws not_found */
async function oidcProvider(deps: Deps, app: OfApp, id: string): Promise<ProviderRow> {
  const row = await requireProvider(deps, app, id)
  if (row.preset === 'github') throw fail('not_found')
  return row
}

/** Where the provider's keys are. @throws issuer_unavailable */
async function sourceFor(deps: Deps, row: ProviderRow) {
  try {
    const { jwks_uri: jwksUri } = await metadataOf(deps, row)
    return sourceOf(row, String(jwksUri), [row.client_id, ...row.native_client_ids])
  } catch (error) {
    if (!(error instanceof ProviderFailed || error instanceof ClientError)) throw error
    deps.log.warn({ providerId: row.id, problem: error.message }, 'the metadata of a provider could not be fetched')
    throw fail('issuer_unavailable')
  }
}

/** An error of a token, by the name that the token has here. */
function named(error: unknown): unknown {
  if (!(error instanceof HttpError) || error.code !== 'token_invalid') return error
  return fail(
    'token_invalid',
    error.details.map((detail) => ({ ...detail, field: 'idToken' })),
  )
}

/** Fetches the provider's keys where they are needed: no transaction waits for a network. @throws not_found, token_invalid, issuer_unavailable */
export async function prepareToken(deps: Deps, app: OfApp, id: string, { idToken }: SentIdToken): Promise<void> {
  const source = await sourceFor(deps, await oidcProvider(deps, app, id))
  await prepareIdToken(deps, source, idToken).catch((error: unknown) => {
    throw named(error)
  })
}

/** Whether the token was made for who knows the nonce: it has the nonce's hash, so that it does not tell the nonce. */
function isForNonce({ nonce: claimed }: JWTPayload, nonce: string): boolean {
  const hash = sha256(nonce)
  return claimed === hash.toString('hex') || claimed === hash.toString('base64url')
}

/** Its single use. */
const useOf = (deps: Deps, row: ProviderRow, nonce: string): TokenUse => ({
  tenantId: row.tenant_id,
  hash: sha256(JSON.stringify([row.app_id, row.issuer, 'nonce', nonce])),
  expiresAt: new Date(deps.now().getTime() + REMEMBERED_MS),
})

/** The account that an ID token of a native app is for, and the token's single use. @throws not_found, token_invalid, issuer_unavailable */
export async function accountOfToken(
  deps: Deps,
  app: OfApp,
  id: string,
  { idToken, nonce }: SentIdToken,
): Promise<{ row: ProviderRow; shown: ShownAccount; use: TokenUse }> {
  const row = await oidcProvider(deps, app, id)
  try {
    const claims = await verifyIdToken(deps, await sourceFor(deps, row), idToken)
    if (!isForNonce(claims, nonce)) throw tokenInvalid('nonce')
    return { row, shown: accountOfClaims(row, claims), use: useOf(deps, row, nonce) }
  } catch (error) {
    if (error instanceof ProviderFailed) throw named(tokenInvalid('claims'))
    throw named(error)
  }
}

const appOf = async (deps: Deps, caller: Caller, input: ProviderToken): Promise<OfApp> => ({
  tenantId: caller.tenantId,
  appId: await resolveApp(deps, caller, input.appId),
})

/** The step before the transaction. @throws as `prepareToken`, not_found (names `appId`) */
export async function prepareSignIn(deps: Deps, caller: Caller, id: string, input: ProviderToken): Promise<void> {
  await prepareToken(deps, await appOf(deps, caller, input), id, input)
}

/**
 * Signs in with the ID token that a provider gave to a native app.
 * @throws not_found, token_invalid, issuer_unavailable, identity_unknown, user_suspended, guest_expired, quota_exceeded,
 * already_exists, rate_limited
 */
export async function signInWithToken(deps: Deps, call: Call, id: string, input: ProviderToken): Promise<SignedIn> {
  const { row, shown, use } = await accountOfToken(deps, await appOf(deps, call.caller, input), id, input)
  try {
    const creates = row.jit === 'create'
    return await signInVouched(deps, call, { ...shown, mfaAt: null, use: tokenOnce(use), creates, method: 'provider' })
  } catch (error) {
    throw named(error)
  }
}
