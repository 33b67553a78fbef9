import type { Deps } from '../../platform/deps.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import { isId } from '../../platform/ids.ts'
import { type Challenge, createChallenge, takeChallenge } from '../../platform/security/challenges.ts'
import { activeProvider, callbackUrl, type ProviderRow, placeOfProvider } from '../../tenancy/apps/providers/service.ts'
import { refusal } from '../sign-in/service.ts'
import { bindingCookies } from './browser-binding.ts'
import { authorizationUrl, clientOf } from './client/client.ts'
import { type BegunFlow, browserHashOf, deriveFrom, type Flow, newBrowserSecret, RETURN_MS } from './flow.ts'
import { returnedWith } from './return.ts'

/** The page of a link that leads nowhere. It names no address to go on to: nothing in such a link is followed. */
export const stale = (): PlainAnswer =>
  refusal(
    400,
    'This sign-in does not work any more',
    'It was already used, has expired, or began in another browser. Go back to the app and sign in again.',
  )

/** A redirect that is not kept, and that does not say where it came from. */
export const redirect = (location: string, setCookies: string[]): PlainAnswer => ({
  status: 303,
  contentType: 'text/plain; charset=utf-8',
  headers: {
    location,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    ...(setCookies.length === 0 ? {} : { 'set-cookie': setCookies }),
  },
  body: '',
})

/** The answer to `HEAD`, which must do nothing (RFC 9110, section 9.2.1): programs that preview links ask so. */
export const UNTOUCHED: PlainAnswer = {
  status: 200,
  contentType: 'text/plain; charset=utf-8',
  headers: { 'cache-control': 'no-store' },
  body: '',
}

/** The provider that a path names, with its app. Undefined if nobody signs in by it. */
export async function providerAt(deps: Deps, path: string): Promise<ProviderRow | undefined> {
  const id = path.split('/')[3] ?? ''
  const place = await placeOfProvider(deps, id)
  return place && activeProvider(deps, place, id)
}

/** The flow that a link names, used up. Undefined if there is none any more. */
async function takeFlow(deps: Deps, row: ProviderRow, text: string) {
  if (!isId('chl', text)) return undefined
  const of = { tenantId: row.tenant_id, appId: row.app_id, kind: 'provider_start', id: text } as const
  const flow = await takeChallenge<Flow>(deps.db, deps.now(), of)
  return flow === undefined || flow.over || flow.data.providerId !== row.id ? undefined : flow
}

/** Sends a browser to the provider, with a new secret in a cookie. The answer is bound to it. */
async function toProvider(
  deps: Deps,
  { headers }: PlainRequest,
  row: ProviderRow,
  { userId, data: flow }: Challenge<Flow>,
): Promise<PlainAnswer> {
  const client = await clientOf(deps, row)
  const secret = newBrowserSecret()
  const data: BegunFlow = { ...flow, browserHash: browserHashOf(secret) }
  const { tenant_id: tenantId, app_id: appId } = row
  const begun = await createChallenge(deps.db, deps.now(), {
    tenantId,
    appId,
    kind: 'provider_return',
    userId,
    data,
    forMs: RETURN_MS,
  })
  const { href } = authorizationUrl(row, client, deriveFrom(secret, begun.id), callbackUrl(deps, row.id))
  return redirect(href, bindingCookies(deps, headers, begun.id, secret))
}

/** `GET /signin/providers/:id/begin`: where `authorizationUrl` leads. */
export async function beginAtProvider(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  if (request.method === 'HEAD') return UNTOUCHED
  const { path, queryText } = request
  const row = await providerAt(deps, path)
  const flow = row && (await takeFlow(deps, row, new URLSearchParams(queryText).get('flow') ?? ''))
  if (row === undefined || flow === undefined) return stale()
  try {
    return await toProvider(deps, request, row, flow)
  } catch (error) {
    return redirect(returnedWith(deps, row, flow.data, error), [])
  }
}
