import type { SignedIn } from '../models.ts'
import type { BrowserClient } from './client.ts'

/**
 * Signs in with a token (JWT) of your own login, which the app trusts as an issuer. A token with a `jti` works once: check
 * `getSession` first.
 * @param token what your login gave to the page, for example its ID token
 * @throws HalfkeyError: token_invalid, issuer_unavailable, identity_unknown, user_suspended
 */
export async function signInWithToken(client: BrowserClient, token: string): Promise<SignedIn> {
  const signedIn = await client.api.auth.exchangeToken({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: token,
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  })
  client.adopt(signedIn)
  return signedIn
}
