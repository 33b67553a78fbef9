import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import { recordAuditOnly } from '../../platform/events/audit-only-entries.ts'
import { PORTAL } from '../../platform/events/events.ts'
import { existing, failures, invalid, pathId } from '../../platform/http/errors.ts'
import type { Call, Caller, EntranceRequest } from '../../platform/http/route.ts'
import { type Id, isId, newId } from '../../platform/ids.ts'
import { newPortalToken, portalTokenHash } from '../../platform/security/api-key.ts'
import type { KeyHolder } from '../../platform/security/authenticator.ts'
import { originProblem } from '../../platform/security/web-origin.ts'
import { logoUrl } from '../../tenancy/apps/logo/service.ts'
import { brandingOf } from '../../tenancy/apps/service.ts'
import { activeTypes } from '../event-types/service.ts'
import { findSubscriber, lockSubscriber } from '../subscribers/service.ts'
import type { CreatePortalLink, Portal, PortalLink } from './schema.ts'
import * as store from './store.ts'

export { deleteOldLinks } from './store.ts'

/** Where the portal's page calls, and how its calls are limited. */
export const PORTAL_CALLS = { base: '/portal/api', limit: 'publishable' } as const

/** What the portal's page alone meets, and so not in the API's description. */
const PORTAL_ERRORS = {
  portal_link_invalid: [401, 'This link has expired or was revoked. Ask for a new one where you got it.'],
} as const

const fail = failures(PORTAL_ERRORS)

const SECONDS_DEFAULT = 3_600

/**
 * Makes a link to a subscriber's portal. Its token travels behind `#`, which browsers send to no server.
 * @throws not_found, validation_failed
 */
export async function createPortalLink(
  deps: Deps,
  call: Call,
  id: string,
  input: CreatePortalLink,
): Promise<PortalLink> {
  const { origins = [], expiresInSeconds = SECONDS_DEFAULT } = input
  const inDevelopment = deps.config.env === 'development'
  for (const [at, origin] of origins.entries()) {
    const problem = originProblem(origin, inDevelopment)
    if (problem !== null) throw invalid(`origins.${at}`, problem)
  }
  const { tenantId } = call.caller
  const subscriber = existing(await findSubscriber(deps.db, call.caller, pathId('sub', id)))
  const { token, hash } = newPortalToken()
  const now = deps.now()
  const link: store.LinkRow = {
    tenant_id: tenantId,
    id: newId('plk'),
    subscriber_id: subscriber.id,
    hash,
    origins,
    created_at: now,
    expires_at: new Date(now.getTime() + expiresInSeconds * 1_000),
  }
  await deps.db.tx(async (tx) => {
    // Not deleted meanwhile, and not until the link is there.
    existing((await lockSubscriber(tx, tenantId, subscriber.id)) ? subscriber : undefined)
    await store.insertLink(tx, link)
    const { app_id: appId, id: target } = subscriber
    await recordAuditOnly(tx, deps, { tenantId, appId, action: 'subscriber.portal_link_created', target, cause: call })
  })
  // What stands behind `#` cannot say who may embed the page, so a link that may be embedded has its id in the query.
  const query = origins.length === 0 ? '' : `?link=${link.id}`
  return { url: `${publicUrl(deps.config)}/portal${query}#token=${token}`, expiresAt: link.expires_at.toISOString() }
}

/** Ends all links to a subscriber's portal. @throws not_found */
export async function revokePortalLinks(deps: Deps, call: Call, id: string): Promise<{ revoked: number }> {
  const { tenantId } = call.caller
  return deps.db.tx(async (tx) => {
    const subscriber = existing(await findSubscriber(tx, call.caller, pathId('sub', id)))
    const revoked = await store.revokeLinks(tx, tenantId, subscriber.id, deps.now())
    const { app_id: appId, id: target } = subscriber
    await recordAuditOnly(tx, deps, { tenantId, appId, action: 'subscriber.portal_links_revoked', target, cause: call })
    return { revoked }
  })
}

/** The origins that may embed the page, by the id in its query. */
export async function embeddingOrigins(deps: Deps, linkId: string | null): Promise<readonly string[]> {
  return linkId !== null && isId('plk', linkId) ? store.findOrigins(deps.db, linkId) : []
}

const BEARER = /^Bearer (\S+)$/i

/**
 * Who calls from a portal: the subscriber of the link whose token is the bearer, and nobody by any other credential. The
 * database is asked at every call, so that a revoked link ends at once. @throws portal_link_invalid
 */
export async function enterPortal(deps: Deps, { headers }: EntranceRequest): Promise<KeyHolder> {
  const [, token = ''] = BEARER.exec(String(headers.authorization ?? '')) ?? []
  const hash = portalTokenHash(token)
  const link = hash === null ? undefined : await store.findLink(deps.db, hash, deps.now())
  if (link === undefined) throw fail('portal_link_invalid')
  const keyId: Id<'key'> = `${PORTAL}${link.subscriber_id}`
  return {
    tenantId: link.tenant_id,
    keyId,
    name: 'Portal',
    keyType: 'secret',
    scopes: [],
    appId: link.app_id,
    subscriberId: link.subscriber_id,
    allowedIps: [],
    allowedOrigins: [],
    expiresAtMs: link.expires_at.getTime(),
  }
}

/** What the page of a portal shows first. @throws portal_link_invalid if the subscriber was deleted meanwhile */
export async function getPortal(deps: Deps, caller: Caller): Promise<Portal> {
  const { subscriberId } = caller
  const subscriber = subscriberId === undefined ? undefined : await findSubscriber(deps.db, caller, subscriberId)
  if (subscriber === undefined) throw fail('portal_link_invalid')
  return {
    subscriber: { name: subscriber.name },
    branding: {
      ...(await brandingOf(deps, caller.tenantId, subscriber.app_id)),
      logoUrl: await logoUrl(deps, caller.tenantId, subscriber.app_id),
    },
    eventTypes: await activeTypes(deps.db, caller),
    expiresAt: new Date(caller.expiresAtMs ?? 0).toISOString(),
  }
}
