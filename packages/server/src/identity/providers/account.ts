import type { JWTPayload } from 'jose'
import { authorizationCodeGrant, type Configuration, fetchUserInfo } from 'openid-client'
import { z } from 'zod'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import type { ProviderRow } from '../../tenancy/apps/providers/service.ts'
import { prepareIdToken, type TokenSource, textAt, verifyIdToken } from '../foreign-tokens/service.ts'
import type { Account } from '../identities/service.ts'
import type { ProviderClient } from './client/client.ts'
import { ProviderFailed, timeoutOf, wholeAnswer } from './client/egress-fetch.ts'
import { problemOf } from './return.ts'

const SUBJECT_CHARS_MAX = 255
const NAME_CHARS_MAX = 200
const EMAIL_CHARS_MAX = 320
/** An ID token that has just been issued. */
const AGE_SECONDS_MAX = 600

/** An account at a provider, and what the provider says of its owner. Nothing else of the provider's answers is kept. */
export interface ShownAccount {
  account: Account
  /** Shown only. */
  username: string | null
  /** Only one that the provider has verified. */
  email: string | null
  name: string | null
}

const accountOf = (row: ProviderRow, subject: string): Account => ({
  tenantId: row.tenant_id,
  appId: row.app_id,
  provider: 'oidc',
  issuer: row.issuer,
  subject,
})

/** Whose ID tokens count, for which clients, and where the keys are. */
export const sourceOf = (
  row: Pick<ProviderRow, 'id' | 'issuer'> & { app_id?: Id<'app'> },
  jwksUri: string,
  audiences: string[],
): TokenSource => ({
  id: row.id,
  app_id: row.app_id ?? null,
  issuer: row.issuer,
  jwks_uri: jwksUri,
  discovery: null,
  audiences,
  max_token_age_seconds: AGE_SECONDS_MAX,
})

type Claims = Readonly<Record<string, unknown>>

/** The email that the provider has verified. Apple writes booleans as text. */
export const verifiedEmail = (claims: Claims): string | null =>
  [true, 'true'].includes(claims.email_verified as boolean | string)
    ? (textAt(claims, 'email', EMAIL_CHARS_MAX) ?? null)
    : null

/** Whose account verified claims are about. @throws ProviderFailed for a subject that cannot be one */
export function subjectOf(claims: JWTPayload): string {
  const subject = textAt(claims, 'sub', SUBJECT_CHARS_MAX)
  if (subject === undefined) throw new ProviderFailed('its ID token has no usable subject')
  return subject
}

/** The account of verified claims. @throws ProviderFailed for a subject that cannot be one */
export function accountOfClaims(row: ProviderRow, claims: JWTPayload): ShownAccount {
  return {
    account: accountOf(row, subjectOf(claims)),
    username: null,
    email: verifiedEmail(claims),
    name: textAt(claims, 'name', NAME_CHARS_MAX) ?? null,
  }
}

/** What the browser came back with, and what it is held against. */
export interface Returned {
  /** The callback's URL with its query. */
  url: URL
  expectedState: string
  expectedNonce: string
  codeVerifier: string
}

const GitHubUser = z.object({
  id: z.int().positive(),
  login: z.string().max(100),
  name: z.string().nullable().optional(),
})
const GitHubEmails = z.array(z.object({ email: z.string(), primary: z.boolean(), verified: z.boolean() })).max(1_000)

/** GitHub's API: of an own server, below its address. */
const githubApi = (issuer: string) => (issuer === 'https://github.com' ? 'https://api.github.com' : `${issuer}/api/v3`)

async function askGitHub<T>(deps: Deps, url: string, accessToken: string, shape: z.ZodType<T>): Promise<T> {
  const headers = {
    accept: 'application/vnd.github+json',
    authorization: `Bearer ${accessToken}`,
    // GitHub refuses requests without one.
    'user-agent': 'halfkey',
  }
  const { status, body } = wholeAnswer(
    await deps.egress.get({ url, headers, timeoutMs: timeoutOf(deps), keepsAnswer: true }),
  )
  if (status !== 200) throw new ProviderFailed(`its API answered ${status}`)
  let value: unknown
  try {
    value = JSON.parse(body.toString())
  } catch {
    throw new ProviderFailed('its API did not answer with JSON')
  }
  const { data } = shape.safeParse(value)
  if (data === undefined) throw new ProviderFailed('its API answered in an unknown form')
  return data
}

/** GitHub has no ID tokens: the account is the one that the access token is for, which came for this very code. */
async function fromGitHub(deps: Deps, row: ProviderRow, accessToken: string): Promise<ShownAccount> {
  const api = githubApi(row.issuer)
  const user = await askGitHub(deps, `${api}/user`, accessToken, GitHubUser)
  const emails = await askGitHub(deps, `${api}/user/emails`, accessToken, GitHubEmails)
  const primary = emails.find(({ primary, verified }) => primary && verified)
  return {
    account: accountOf(row, String(user.id)),
    username: textAt(user, 'login', NAME_CHARS_MAX) ?? null,
    email: textAt({ ...primary }, 'email', EMAIL_CHARS_MAX) ?? null,
    name: textAt(user, 'name', NAME_CHARS_MAX) ?? null,
  }
}

/**
 * What the provider's UserInfo endpoint adds for the same subject. An ID token without an email is complete, and so is a sign-in.
 */
async function completed(
  deps: Deps,
  row: ProviderClient,
  client: Configuration,
  accessToken: string,
  claims: JWTPayload,
): Promise<JWTPayload> {
  if (claims.email !== undefined || client.serverMetadata().userinfo_endpoint === undefined) return claims
  try {
    const { email, email_verified, name } = await fetchUserInfo(client, accessToken, String(claims.sub))
    return { name, ...claims, email, email_verified }
  } catch (error) {
    deps.log.warn({ providerId: row.id, ...problemOf(error as Error) }, 'a provider did not say more of its user')
    return claims
  }
}

/**
 * Redeems the code that a browser brought back from a provider with OpenID Connect, once. The library holds the answer against state,
 * issuer (RFC 9207), nonce and PKCE; the ID token's signature is verified here with the issuer's keys.
 * @returns the verified claims, completed by what the UserInfo endpoint adds
 * @throws ProviderFailed, token_invalid, issuer_unavailable, and the errors of the library
 */
export async function redeemIdToken(
  deps: Deps,
  row: ProviderClient,
  client: Configuration,
  { url, expectedState, expectedNonce, codeVerifier: pkceCodeVerifier }: Returned,
): Promise<JWTPayload> {
  const checks = { expectedState, expectedNonce, pkceCodeVerifier, idTokenExpected: true }
  const tokens = await authorizationCodeGrant(client, url, checks)
  const source = sourceOf(row, String(client.serverMetadata().jwks_uri), [row.client_id])
  const idToken = tokens.id_token ?? ''
  await prepareIdToken(deps, source, idToken)
  const claims = await verifyIdToken(deps, source, idToken)
  if (claims.nonce !== expectedNonce) throw new ProviderFailed('its ID token is for another sign-in')
  return completed(deps, row, client, tokens.access_token, claims)
}

/** The same for any provider. @returns whose account it is @throws as `redeemIdToken` */
export async function redeem(
  deps: Deps,
  row: ProviderRow,
  client: Configuration,
  returned: Returned,
): Promise<ShownAccount> {
  if (row.preset !== 'github') return accountOfClaims(row, await redeemIdToken(deps, row, client, returned))
  const { url, expectedState, codeVerifier: pkceCodeVerifier } = returned
  const tokens = await authorizationCodeGrant(client, url, { expectedState, pkceCodeVerifier })
  return fromGitHub(deps, row, tokens.access_token)
}
