import { SignInReturnError } from './errors.ts'
import { browserStorage } from './platform.ts'

/** What a tab stores about a sign-in on another site. */
export interface RoundTrip {
  state: string
  codeVerifier?: string
  redirectUri?: string
}

/** Used if storage is refused. It is lost on a redirect, which loads a new page. */
const memory = new Map<string, string>()

/** Stores it in this tab. */
export function beginRoundTrip(name: string, trip: RoundTrip): void {
  const text = JSON.stringify(trip)
  const store = browserStorage('sessionStorage')
  if (store === undefined) memory.set(name, text)
  else store.setItem(name, text)
}

/** Takes what this tab stored, once. @throws SignInReturnError when it stored nothing */
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
