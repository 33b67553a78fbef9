// What speaks with the login of an organisation. Its library takes megabytes, so `oidc.ts` loads all of it with the first call.
import { redeemIdToken, subjectOf, verifiedEmail } from '../../../identity/providers/account.ts'
import { authorizationUrl, clientOf, type ProviderClient } from '../../../identity/providers/client/client.ts'
import type { Derived } from '../../../identity/providers/flow.ts'
import type { Deps } from '../../../platform/deps.ts'
import { type MemberProvider, memberCallbackUrl } from './settings.ts'

export { failureOf } from '../../../identity/providers/return.ts'

const asClient = (provider: MemberProvider): ProviderClient => ({
  ...provider,
  preset: 'oidc',
  team_id: null,
  key_id: null,
})

/** Where the browser is sent to. @throws the errors of `clientOf` */
export async function urlAtLogin(deps: Deps, provider: MemberProvider, derived: Derived): Promise<string> {
  const row = asClient(provider)
  const client = await clientOf(deps, row)
  return authorizationUrl(row, client, derived, memberCallbackUrl(deps, provider.id)).href
}

/** Whose account the answer in a query is for, and the email that the login has verified. @throws the errors of `redeemIdToken` */
export async function accountAtLogin(
  deps: Deps,
  provider: MemberProvider,
  queryText: string,
  { state: expectedState, nonce: expectedNonce, codeVerifier }: Derived,
): Promise<{ subject: string; email: string | null }> {
  const row = asClient(provider)
  const url = new URL(`${memberCallbackUrl(deps, provider.id)}?${queryText}`)
  const returned = { url, expectedState, expectedNonce, codeVerifier }
  const claims = await redeemIdToken(deps, row, await clientOf(deps, row), returned)
  return { subject: subjectOf(claims), email: verifiedEmail(claims) }
}
