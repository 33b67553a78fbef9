import { createClient, type HalfkeyClient } from '@halfkey/sdk'

const BASE = '/portal/api'

/** What the server says of a portal: see `GET /portal/api/subscriber`. */
export interface Portal {
  subscriber: { name: string | null }
  branding: { name: string; accentColor: string | null; logoUrl: string | null }
  eventTypes: { name: string; description: string | null; deprecated: boolean }[]
  expiresAt: string
}

/** In memory only: nothing on this page stores it. */
let token: string | null = null
let onEnd = () => {}

/**
 * Takes the token out of the address, where a link has it behind `#`, so that neither the address bar nor the history keeps
 * it. @returns whether there was one
 */
export function takeToken(): boolean {
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given === null) return false
  token = given
  history.replaceState(null, '', location.pathname + location.search)
  return true
}

/** Sets the listener that is called when the link has ended. */
export function onLinkEnd(listener: () => void): void {
  onEnd = listener
}

/** The SDK's `fetch`: with the link's token instead of an API key, and without cookies. */
const send: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('x-api-key')
  headers.set('authorization', `Bearer ${token}`)
  const answer = await fetch(input, { ...init, headers, credentials: 'omit' })
  if (answer.status === 401) onEnd()
  return answer
}

/** The calls of the portal: those of webhooks, which are made for the subscriber alone. */
export const { webhooks }: Pick<HalfkeyClient, 'webhooks'> = createClient({
  baseUrl: BASE,
  // The SDK requires a key. This placeholder is removed from every request.
  apiKey: 'portal',
  fetch: send as never,
  maxRetries: 1,
})

/** Whose portal it is, how it looks, and what can be chosen. @throws Error with a message for people */
export async function readPortal(signal: AbortSignal): Promise<Portal> {
  const answer = await send(`${BASE}/subscriber`, { signal })
  const body = (await answer.json()) as { data: Portal; error?: string }
  if (!answer.ok) throw new Error(body.error ?? 'The server did not respond.')
  return body.data
}
