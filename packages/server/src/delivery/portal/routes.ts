import { IdParam, one, portalToken, type Route, route, secretKey } from '../../platform/http/route.ts'
import { CreatePortalLink, Portal, PortalLink, RevokedPortalLinks } from './schema.ts'
import { createPortalLink, getPortal, revokePortalLinks } from './service.ts'

const write = secretKey('subscribers:write')

export const portalLinkRoutes: Route[] = [
  route(
    'POST /subscribers/:id/portal-link',
    {
      summary: 'Create a portal link',
      description:
        'Returns a link to a page where the customer adds endpoints, chooses event types, sees and retries deliveries, and rotates secrets. Create one each time that you show the page. Pages of `origins` may embed it.',
      callers: write,
      params: IdParam,
      body: CreatePortalLink,
      reply: one(PortalLink),
      status: 201,
      secret: true,
      extension: true,
    },
    (deps, { caller, origin, params, body }) => createPortalLink(deps, { caller, origin }, params.id, body),
  ),
  route(
    'DELETE /subscribers/:id/portal-links',
    {
      summary: 'Revoke portal links',
      description: 'All links to the portal of the subscriber stop working at once.',
      callers: write,
      params: IdParam,
      reply: one(RevokedPortalLinks),
      extension: true,
    },
    (deps, { caller, origin, params }) => revokePortalLinks(deps, { caller, origin }, params.id),
  ),
]

/** The portal's own endpoint; the others are those of its webhooks. */
export const portalRoutes: Route[] = [
  route(
    'GET /subscriber',
    { summary: 'Get the portal', callers: portalToken(), reply: one(Portal) },
    (deps, { caller }) => getPortal(deps, caller),
  ),
]
