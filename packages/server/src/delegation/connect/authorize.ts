import { refusal } from '../../identity/sign-in/service.ts'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import { createChallenge } from '../../platform/security/challenges.ts'
import { connectableApp, OAUTH_CALLS } from './place.ts'
import { newLinkSecret, referenceOf } from './reference.ts'
import { readRequest, type StoredConnection } from './request.ts'

/** How long somebody may take to sign in, or up, and to decide. */
const REQUEST_MS = 30 * 60_000

const TITLE = 'This agent cannot be connected'

/**
 * Begins a connection (RFC 6749, section 4.1.1): checks the request, stores it and leads to the app's page. What is stored decides, so the
 * page may be left and returned to, and nothing on it can change what was asked for.
 */
export async function authorize(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  await limitPage(deps, OAUTH_CALLS, request.address)
  const found = await connectableApp(deps, request.path.split('/')[2] ?? '')
  if (found === undefined) return refusal(404, TITLE, 'This app does not connect agents, or there is no such app.')
  const asked = await readRequest(deps, found, request.queryText)
  if ('problem' in asked) return refusal(400, TITLE, asked.problem)
  const { tenantId, appId } = found
  const { secret, secretHash } = newLinkSecret()
  const { id } = await createChallenge(deps.db, deps.now(), {
    tenantId,
    appId,
    kind: 'agent_request',
    userId: null,
    data: { ...asked, secretHash } satisfies StoredConnection,
    forMs: REQUEST_MS,
  })
  const location = `${publicUrl(deps.config)}/signin?app=${appId}&connect=${referenceOf(id, secret)}`
  const headers = { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' }
  return { status: 302, contentType: 'text/plain; charset=utf-8', headers, body: '' }
}
