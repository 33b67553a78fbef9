import type { SignedIn } from '../models.ts'
import { toBase64url } from './base64url.ts'
import type { BrowserClient } from './client.ts'
import { SignInReturnError } from './errors.ts'
import { platform, replaceAddress } from './platform.ts'
import { beginRoundTrip, endRoundTrip } from './round-trip.ts'

/** Options of a sign-in at the hosted page. */
export interface HostedSignInOptions {
  /** The id of the app whose page is opened. */
  appId: string
  /** One of the app's `allowedRedirectUrls`, character by character. */
  redirectUri: string
}

const nameOf = (client: BrowserClient) => `${client.storageName}.hosted`
const random = () => toBase64url(crypto.getRandomValues(new Uint8Array(32)))

/**
 * Starts a sign-in at the hosted page and returns its address, for apps that navigate themselves. It works once, in this
 * tab only. @throws TypeError on pages over http, other than of this device: they have no SHA-256
 */
export async function hostedSignInUrl(client: BrowserClient, options: HostedSignInOptions): Promise<string> {
  const { appId, redirectUri } = options
  if (crypto.subtle === undefined)
    throw new TypeError('PKCE needs crypto.subtle: serve the page over https or localhost')
  const [state, codeVerifier] = [random(), random()]
  const challenge = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(codeVerifier))
  beginRoundTrip(nameOf(client), { state, codeVerifier, redirectUri })
  const query = new URLSearchParams({
    app: appId,
    redirect_uri: redirectUri,
    state,
    code_challenge: toBase64url(challenge),
    code_challenge_method: 'S256',
  })
  return `${client.serviceUrl}/signin?${query}`
}

/** Opens the hosted page, which returns to `redirectUri`: call `finishHostedSignIn` there. @throws TypeError as `hostedSignInUrl` */
export async function startHostedSignIn(client: BrowserClient, options: HostedSignInOptions): Promise<void> {
  platform.location?.assign(await hostedSignInUrl(client, options))
}

/**
 * Signs in with the hosted page's result, and removes it from the page's address. Returns null if the address has no
 * result: call it whenever a page at `redirectUri` loads.
 * @throws SignInReturnError when this tab did not start it; HalfkeyError: code_invalid, code_expired
 */
export async function finishHostedSignIn(client: BrowserClient): Promise<SignedIn | null> {
  const href = platform.location?.href
  if (href === undefined) return null
  const url = new URL(href)
  const [code, state] = [url.searchParams.get('code'), url.searchParams.get('state')]
  if (code === null || state === null) return null
  url.searchParams.delete('code')
  url.searchParams.delete('state')
  replaceAddress(url)
  const trip = endRoundTrip(nameOf(client))
  const { codeVerifier, redirectUri } = trip
  if (codeVerifier === undefined || redirectUri === undefined) throw new SignInReturnError('not_started_here')
  if (state !== trip.state) throw new SignInReturnError('state_mismatch')
  const signedIn = await client.api.auth.exchange({ code, codeVerifier, redirectUri })
  client.adopt(signedIn)
  return signedIn
}
