import { SignInReturnError } from './errors.ts'
import { browserStorage } from './platform.ts'

/** What a tab remembers of a sign-in that it went to another site for. */
export interface RoundTrip {
  state: string
  codeVerifier?: string
  redirectUri?: string
}

/** Where storage is refused: then the way must come back to the page that it left from, which no redirect does. */
const memory = new Map<string, string>()

/** Remembers it in this tab. */
export function beginRoundTrip(name: string, trip: RoundTrip): void {
  const text = JSON.stringify(trip)
  const store = browserStorage('sessionStorage')
  if (store === undefined) memory.set(name, text)
  else store.setItem(name, text)
}

/** What this tab remembers, once. @throws SignInReturnError when it began none */
export function endRoundTrip(name: string): RoundTrip {
  const store = browserStorage('sessionStorage')
  const text = (store === undefined ? memory.get(name) : store.getItem(name)) ?? null
  store?.removeItem(name)
  memory.delete(name)
  if (text === null) throw new SignInReturnError('not_started_here')
  try {
    return JSON.parse(text) as RoundTrip
  } catch (cause) {
    throw new SignInReturnError('not_started_here', cause)
  }
}
