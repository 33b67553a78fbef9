import type { Deps } from '../../platform/deps.ts'
import { limitPage } from '../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest } from '../../platform/http/route.ts'
import { exchangeCode, type Granted, type Refused, refreshConnection, type TokenCall } from './exchange.ts'
import { readParameters } from './parameters.ts'
import { connectableApp, OAUTH_CALLS, resourceOf } from './place.ts'

const BODY_BYTES_MAX = 16 * 1024
/** RFC 7636, section 4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/

const GRANTS: Readonly<Record<string, (deps: Deps, call: TokenCall) => Promise<Granted | Refused>>> = {
  authorization_code: exchangeCode,
  refresh_token: refreshConnection,
}

const refused = (error: Refused['error'], description: string): Refused => ({ error, description })

/** What is wrong with a call that no code or token decides; null for nothing. */
function formProblem(
  deps: Deps,
  appId: string,
  { authorization }: PlainRequest,
  given: TokenCall['given'],
): Refused | null {
  if (authorization !== undefined || given.has('client_secret') || given.has('client_assertion'))
    return refused('invalid_client', 'Clients have no secret: send only client_id.')
  if (!given.has('client_id')) return refused('invalid_request', 'client_id is required.')
  if (given.has('resource') && given.get('resource') !== resourceOf(deps, appId))
    return refused('invalid_target', `resource must be ${resourceOf(deps, appId)}.`)
  const isCode = given.get('grant_type') === 'authorization_code'
  if (isCode && !VERIFIER.test(given.get('code_verifier') ?? ''))
    return refused('invalid_request', 'code_verifier is required (PKCE, RFC 7636).')
  return null
}

async function answer(deps: Deps, request: PlainRequest): Promise<Granted | Refused> {
  const { headers, body, origin } = request
  const found = await connectableApp(deps, request.path.split('/')[2] ?? '')
  if (found === undefined) return refused('invalid_grant', 'This app does not connect agents.')
  const [type] = String(headers['content-type'] ?? '').split(';')
  if (type?.trim().toLowerCase() !== 'application/x-www-form-urlencoded' || body.length > BODY_BYTES_MAX)
    return refused('invalid_request', 'The body must be application/x-www-form-urlencoded, of at most 16 KiB.')
  const given = readParameters(body.toString())
  if ('problem' in given) return refused('invalid_request', given.problem)
  const exchange = Object.hasOwn(GRANTS, given.get('grant_type') ?? '')
    ? GRANTS[given.get('grant_type') ?? '']
    : undefined
  if (exchange === undefined)
    return refused('unsupported_grant_type', 'grant_type must be authorization_code or refresh_token.')
  const { tenantId, appId } = found
  return formProblem(deps, appId, request, given) ?? exchange(deps, { tenantId, appId, origin, given })
}

/** The token endpoint of an app (RFC 6749, section 3.2). */
export async function tokenEndpoint(deps: Deps, request: PlainRequest): Promise<PlainAnswer> {
  const limits = await limitPage(deps, OAUTH_CALLS, request.address)
  const answered = await answer(deps, request)
  const isRefused = 'error' in answered
  const body = isRefused ? { error: answered.error, error_description: answered.description } : answered
  return {
    status: isRefused ? 400 : 200,
    contentType: 'application/json; charset=utf-8',
    headers: { ...limits, 'cache-control': 'no-store', pragma: 'no-cache' },
    body: JSON.stringify(body),
  }
}
