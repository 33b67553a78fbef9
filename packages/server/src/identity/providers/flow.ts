import { createHmac, randomBytes } from 'node:crypto'
import type { Deps } from '../../platform/deps.ts'
import { failures, invalid, notFoundField } from '../../platform/http/errors.ts'
import type { MaybeUserCall } from '../../platform/http/route.ts'
import type { Id } from '../../platform/ids.ts'
import { createChallenge } from '../../platform/security/challenges.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import { activeProvider, callbackUrl, type ProviderRow } from '../../tenancy/apps/providers/service.ts'
import { isReturnUrl, resolveApp, signInSettings } from '../../tenancy/apps/service.ts'
import { requireStepUp } from '../sessions/service.ts'
import type { ProviderStart, StartProvider } from './schema.ts'

const fail = failures({})

/** What a sign-in or link by a provider was asked for with: the same from start to end. */
export interface Flow {
  providerId: string
  purpose: 'sign_in' | 'link'
  redirectUrl: string
  codeChallenge: string
  /** The app's own, returned unchanged. */
  state: string | null
  /** Of a link: the session that asked; null for a server that acts for the user, and for a sign-in. */
  sessionId: Id<'ses'> | null
}

/** A flow that has gone to the provider, in one browser: the one whose cookie has this SHA-256 (base64url). */
export interface BegunFlow extends Flow {
  browserHash: string
}

/** How long somebody may take at the provider. */
export const RETURN_MS = 15 * 60_000

/** A secret that only the browser keeps: whatever is sent to the provider follows from it, and nothing of it is stored. */
export const newBrowserSecret = (): string => randomBytes(32).toString('base64url')

/** What the database has of a browser's secret. */
export const browserHashOf = (secret: string): string => sha256(secret).toString('base64url')

const derived = (secret: string, what: string) => createHmac('sha256', secret).update(what).digest('base64url')

/** What is sent to the provider, and what its answer is held against. */
export interface Derived {
  state: string
  nonce: string
  codeVerifier: string
  codeChallenge: string
}

/** State, nonce and PKCE (RFC 7636) of a flow in a browser. */
export function deriveFrom(secret: string, flowId: Id<'chl'>): Derived {
  const codeVerifier = derived(secret, 'halfkey/v1/provider-verifier')
  return {
    state: `${flowId}.${derived(secret, `halfkey/v1/provider-state ${flowId}`)}`,
    nonce: derived(secret, 'halfkey/v1/provider-nonce'),
    codeVerifier,
    codeChallenge: sha256(codeVerifier).toString('base64url'),
  }
}

/** A provider that a path names, by which users of the app sign in at present. @throws not_found */
export async function requireProvider(
  deps: Deps,
  app: { tenantId: Id<'ten'>; appId: Id<'app'> },
  id: string,
): Promise<ProviderRow> {
  const row = await activeProvider(deps, app, id)
  if (row === undefined) throw fail('not_found')
  return row
}

/** The app of a call. For a link it is the user's. @throws not_found (names `appId`), session_missing */
async function appOf(deps: Deps, { caller, user }: MaybeUserCall, input: StartProvider): Promise<Id<'app'>> {
  if (input.purpose !== 'link') return resolveApp(deps, caller, input.appId)
  if (user === null) throw fail('session_missing')
  if (input.appId !== undefined && input.appId !== user.appId) throw notFoundField('appId')
  return user.appId
}

/**
 * Begins a sign-in by a provider, or a link. What is returned leads a browser to us first, which binds the flow to it, and from
 * there to the provider.
 * @throws not_found, validation_failed (names `redirectUrl`); for a link also session_missing and the errors of `requireStepUp`
 */
export async function startProvider(
  deps: Deps,
  call: MaybeUserCall,
  id: string,
  input: StartProvider,
): Promise<ProviderStart> {
  const { caller, user } = call
  const { tenantId } = caller
  const appId = await appOf(deps, call, input)
  const row = await requireProvider(deps, { tenantId, appId }, id)
  const app = await signInSettings(deps, tenantId, appId)
  if (!(await isReturnUrl(deps, tenantId, app, input.redirectUrl)))
    throw invalid('redirectUrl', "Must be exactly one of the app's allowedRedirectUrls.")
  const linking = input.purpose === 'link' ? user : null
  if (linking !== null) await requireStepUp(deps, caller, linking)
  const data: Flow = {
    providerId: row.id,
    purpose: input.purpose ?? 'sign_in',
    redirectUrl: input.redirectUrl,
    codeChallenge: input.codeChallenge,
    state: input.state ?? null,
    sessionId: linking?.sessionId ?? null,
  }
  const userId = linking?.id ?? null
  const flow = await createChallenge(deps.db, deps.now(), { tenantId, appId, kind: 'provider_start', userId, data })
  return {
    authorizationUrl: `${callbackUrl(deps, row.id).replace(/callback$/, 'begin')}?flow=${flow.id}`,
    expiresAt: flow.expiresAt.toISOString(),
  }
}
