import type { SignedIn } from '../models.ts'
import { fromBase64url } from './base64url.ts'
import type { BrowserClient } from './client.ts'
import { SignInReturnError } from './errors.ts'
import { platform, replaceAddress } from './platform.ts'
import { beginRoundTrip, endRoundTrip } from './round-trip.ts'

const nameOf = (client: BrowserClient) => `${client.storageName}.telegram`

/** The page's fragment as fields. */
function fragment(): URLSearchParams {
  const { hash } = new URL(platform.location?.href ?? 'about:blank')
  return new URLSearchParams(hash.slice(1))
}

/**
 * Starts a sign-in with Telegram and returns the address of its page, for a link or `location.assign`. Unlike its login
 * widget, no script of Telegram runs in the page. It returns to `returnTo`: call `finishTelegramSignIn` there.
 * @param returnTo an address of this origin; the page's own by default
 * @throws HalfkeyError: messenger_not_configured
 */
export async function telegramSignInUrl(client: BrowserClient, returnTo?: string): Promise<string> {
  const { authUrl } = await client.api.auth.messenger.widgetConfig()
  // Stored to check later that this tab started it.
  beginRoundTrip(nameOf(client), { state: '' })
  const here = new URL(returnTo ?? platform.location?.href ?? '', platform.location?.href)
  here.hash = ''
  return `${authUrl}&return_to=${encodeURIComponent(here.href)}`
}

/** Opens Telegram's page. @throws HalfkeyError: messenger_not_configured */
export async function startTelegramSignIn(client: BrowserClient, returnTo?: string): Promise<void> {
  platform.location?.assign(await telegramSignInUrl(client, returnTo))
}

function fieldsOf(result: string): Record<string, string | number> {
  try {
    const fields = JSON.parse(new TextDecoder().decode(fromBase64url(result))) as unknown
    if (typeof fields === 'object' && fields !== null) return fields as Record<string, string | number>
  } catch (cause) {
    throw new SignInReturnError('unreadable', cause)
  }
  throw new SignInReturnError('unreadable')
}

/**
 * Signs in with Telegram's result, and removes it from the page's address. Returns null if the address has no result, or
 * nobody signed in: call it whenever the page loads.
 * @throws SignInReturnError when this tab did not start it; HalfkeyError: messenger_signature_invalid
 */
export async function finishTelegramSignIn(client: BrowserClient): Promise<SignedIn | null> {
  const result = fragment().get('tgAuthResult')
  if (result === null) return null
  const url = new URL(platform.location?.href ?? '')
  url.hash = ''
  replaceAddress(url)
  endRoundTrip(nameOf(client))
  // Telegram's result when the user declines.
  if (result === 'false') return null
  return signInWithTelegram(client, fieldsOf(result))
}

/** Signs in with the unchanged fields of Telegram's login widget. @throws HalfkeyError: messenger_signature_invalid */
export async function signInWithTelegram(
  client: BrowserClient,
  fields: Record<string, string | number>,
): Promise<SignedIn> {
  const signedIn = await client.api.auth.messenger.verify(fields)
  client.adopt(signedIn)
  return signedIn
}

/** The `initData` of a Mini App, from Telegram's script or the page's address; null outside a Mini App. */
export function miniAppInitData(): string | null {
  const given = platform.Telegram?.WebApp?.initData
  if (given !== undefined && given !== '') return given
  const text = fragment().get('tgWebAppData')
  return text === '' ? null : text
}

/**
 * Signs in the user who opened the Mini App. Each `initData` works once: check `getSession` first.
 * @param initData the result of `miniAppInitData` by default
 * @throws TypeError if there is none; HalfkeyError: messenger_signature_invalid
 */
export async function signInToMiniApp(client: BrowserClient, initData = miniAppInitData()): Promise<SignedIn> {
  if (initData === null) throw new TypeError('There is no initData: this page was not opened as a Mini App in Telegram')
  const signedIn = await client.api.auth.messenger.verify({ initData })
  client.adopt(signedIn)
  return signedIn
}
