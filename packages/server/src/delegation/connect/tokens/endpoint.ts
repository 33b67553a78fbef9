import type { Deps } from '../../../platform/deps.ts'
import { limitPage } from '../../../platform/http/rate-limits/limits.ts'
import type { PlainAnswer, PlainRequest } from '../../../platform/http/route.ts'
import { readParameters } from '../parameters.ts'
import { appOf, type Connectable, connectableApp, OAUTH_CALLS, resourceOf } from '../place.ts'
import { type Refused, revokeConnection, type TokenCall } from './connection.ts'
import { exchangeCode, type Granted, refreshConnection } from './exchange.ts'

const BODY_BYTES_MAX = 16 * 1024
/** RFC 7636, section 4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/

const GRANTS: Readonly<Record<string, (deps: Deps, call: TokenCall) => Promise<Granted | Refused>>> = {
  authorization_code: exchangeCode,
  refresh_token: refreshConnection,
}

const refused = (error: Refused['error'], description: string): Refused => ({ error, description })

/** A call of a client. Nothing in it is checked yet that only one of the endpoints has. */
function readCall(found: Connectable | undefined, { headers, body, origin, authorization }: PlainRequest) {
  if (found === undefined) return refused('invalid_grant', 'This app does not connect agents.')
  const [type] = String(headers['content-type'] ?? '').split(';')
  if (type?.trim().toLowerCase() !== 'application/x-www-form-urlencoded' || body.length > BODY_BYTES_MAX)
    return refused('invalid_request', 'The body must be application/x-www-form-urlencoded, of at most 16 KiB.')
  const given = readParameters(body.toString())
  if ('problem' in given) return refused('invalid_request', given.problem)
  if (authorization !== undefined || given.has('client_secret') || given.has('client_assertion'))
    return refused('invalid_client', 'Clients have no secret: send only client_id.')
  if (!given.has('client_id')) return refused('invalid_request', 'client_id is required.')
  const { tenantId, appId } = found
  return { tenantId, appId, origin, given } satisfies TokenCall
}

async function exchange(deps: Deps, call: TokenCall): Promise<Granted | Refused> {
  const { appId, given } = call
  const type = given.get('grant_type') ?? ''
  const grant = Object.hasOwn(GRANTS, type) ? GRANTS[type] : undefined
  if (grant === undefined)
    return refused('unsupported_grant_type', 'grant_type must be authorization_code or refresh_token.')
  if (given.has('resource') && given.get('resource') !== resourceOf(deps, appId))
    return refused('invalid_target', `resource must be ${resourceOf(deps, appId)}.`)
  if (type === 'authorization_code' && !VERIFIER.test(given.get('code_verifier') ?? ''))
    return refused('invalid_request', 'code_verifier is required (PKCE, RFC 7636).')
  return grant(deps, call)
}

async function revoke(deps: Deps, call: TokenCall): Promise<Refused | Record<string, never>> {
  if (!call.given.has('token')) return refused('invalid_request', 'token is required.')
  return (await revokeConnection(deps, call)) ?? {}
}

/** An endpoint that clients post forms to, without a key. */
const formEndpoint =
  (find: typeof appOf, act: (deps: Deps, call: TokenCall) => Promise<Granted | Refused | Record<string, never>>) =>
  async (deps: Deps, request: PlainRequest): Promise<PlainAnswer> => {
    const limits = await limitPage(deps, OAUTH_CALLS, request.address)
    const call = readCall(await find(deps, request.path.split('/')[2] ?? ''), request)
    const answered = 'error' in call ? call : await act(deps, call)
    const isRefused = 'error' in answered
    const body = isRefused ? { error: answered.error, error_description: answered.description } : answered
    return {
      status: isRefused ? 400 : 200,
      contentType: 'application/json; charset=utf-8',
      headers: { ...limits, 'cache-control': 'no-store', pragma: 'no-cache' },
      body: JSON.stringify(body),
    }
  }

/** The token endpoint of an app (RFC 6749, section 3.2). */
export const tokenEndpoint = formEndpoint(connectableApp, exchange)

/** The revocation endpoint of an app (RFC 7009): also where no agent can connect any more. */
export const revocationEndpoint = formEndpoint(appOf, revoke)
