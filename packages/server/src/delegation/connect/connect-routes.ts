import { currentUser, IdParam, one, type PlainRoute, type Route, route } from '../../platform/http/route.ts'
import { authorize } from './authorize.ts'
import { AgentAnswer, AgentRequest, ConnectAgent } from './connect-schema.ts'
import { connectAgent, getAgentRequest, refuseAgent } from './decide.ts'
import { metadataRoutes } from './metadata.ts'
import { revocationEndpoint, tokenEndpoint } from './tokens/endpoint.ts'

/** What only the hosted page may call: where a user connects an agent. */
export const connectPageRoutes: Route[] = [
  route(
    'GET /agent-requests/:id',
    {
      summary: 'Get what an agent asks for',
      callers: currentUser(),
      params: IdParam,
      reply: one(AgentRequest),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => getAgentRequest(deps, { caller, origin, user }, params.id),
  ),
  route(
    'POST /agent-requests/:id/connect',
    {
      summary: 'Connect the agent',
      callers: currentUser(),
      params: IdParam,
      body: ConnectAgent,
      reply: one(AgentAnswer),
      secret: true,
      errors: [
        'mfa_required',
        'mfa_enrollment_required',
        'reauthentication_required',
        'user_session_required',
        'stronger_sign_in_required',
        'wallet_not_found',
        'wallet_frozen',
        'session_limit_reached',
        'approvals_unavailable',
      ],
      extension: true,
    },
    (deps, { caller, origin, user, params, body }) => connectAgent(deps, { caller, origin, user }, params.id, body),
  ),
  route(
    'POST /agent-requests/:id/refuse',
    {
      summary: 'Refuse the agent',
      callers: currentUser(),
      params: IdParam,
      reply: one(AgentAnswer),
      extension: true,
    },
    (deps, { caller, origin, user, params }) => refuseAgent(deps, { caller, origin, user }, params.id),
  ),
]

/** OAuth for agents: keyless, and in the form of its RFCs. */
export const connectPlainRoutes: readonly PlainRoute[] = [
  ...metadataRoutes,
  { path: '/oauth/:appId/authorize', handler: authorize },
  { method: 'POST', path: '/oauth/:appId/token', handler: tokenEndpoint },
  { method: 'POST', path: '/oauth/:appId/revoke', handler: revocationEndpoint },
]
