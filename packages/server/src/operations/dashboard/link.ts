import { randomBytes } from 'node:crypto'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Id } from '../../platform/ids.ts'
import { sha256 } from '../../platform/security/crypto.ts'
import * as store from './store.ts'

/** How long a link that was asked for can be used. */
export const LINK_MINUTES = 30
/** How long the first start's can be used. */
export const FIRST_LINK_HOURS = 24
/** How long an invitation can be used. */
export const INVITATION_DAYS = 7

const PREFIX = 'hk_dl_'

/** A link that signs in to the dashboard once. */
export interface DashboardLink {
  /** The token stands behind `#`: browsers send it to no server, so it is in no log, and no preview uses it up. */
  url: string
  expiresAt: Date
}

interface LinkOptions {
  lifetimeMs?: number
  /** Signs in as this member of the tenant, whose earlier links it replaces; otherwise as the operator. */
  member?: { id: Id<'mem'>; isInvited: boolean; madeBy: string; provesEmail: string | null }
  /** Its token, where an email with it was written before. */
  token?: string
}

/** The secret of a link. */
export const newLinkToken = (): string => PREFIX + randomBytes(32).toString('base64url')

/** Where a link leads. One that is mailed signs in at a click on the page only: programs that check emails open links, too. */
export const urlOfLink = ({ config }: Pick<Deps, 'config'>, token: string, isMailed = false): string =>
  `${publicUrl(config)}/dashboard#${isMailed ? 'mailed-link' : 'link'}=${token}`

/** Makes a link to one tenant's dashboard, or to that of the operator, who sees all tenants. Only its hash is stored. */
export async function createLink(
  deps: Pick<Deps, 'db' | 'config' | 'now'>,
  tenantId: Id<'ten'> | null,
  { lifetimeMs = LINK_MINUTES * 60_000, member, token = newLinkToken() }: LinkOptions = {},
): Promise<DashboardLink> {
  const now = deps.now()
  const expiresAt = new Date(now.getTime() + lifetimeMs)
  if (member !== undefined && tenantId !== null) await store.deleteLinksOf(deps.db, tenantId, member.id)
  await store.insertLink(deps.db, {
    // Plain SHA-256: 256 random bits need no slow hash.
    hash: sha256(token),
    tenant_id: tenantId,
    expires_at: expiresAt,
    used_at: null,
    member_id: member?.id ?? null,
    invites: member?.isInvited ?? false,
    made_by: member?.madeBy ?? null,
    proves_email: member?.provesEmail ?? null,
    created_at: now,
    version: 0,
    mac: null,
  })
  return { url: urlOfLink(deps, token), expiresAt }
}
