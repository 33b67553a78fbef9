import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { OfApp } from '../../platform/hooks.ts'
import type { Id } from '../../platform/ids.ts'
import { type SignInSettings, signInSettings, tenantOfApp } from '../../tenancy/apps/service.ts'

/** How calls of these endpoints are limited: for each address. */
export const OAUTH_CALLS = { base: '/oauth', limit: 'publishable' } as const

/** The one type of authorization details (RFC 9396): a delegated session. */
export const DETAILS_TYPE = 'halfkey_delegated_session'

/** The authorization server of an app (RFC 8414): its issuer, to the letter. */
export const authorizationServerOf = ({ config }: Pick<Deps, 'config'>, appId: string): string =>
  `${publicUrl(config)}/oauth/${appId}`

/** What an app's agents call (RFC 8707): the audience of their tokens. */
export const resourceOf = ({ config }: Pick<Deps, 'config'>, appId: string): string =>
  `${publicUrl(config)}/mcp/${appId}`

/** Where a client reads which authorization server a resource has (RFC 9728, section 3.1). */
export const resourceMetadataOf = ({ config }: Pick<Deps, 'config'>, appId: string): string =>
  `${publicUrl(config)}/.well-known/oauth-protected-resource/mcp/${appId}`

/** An app whose users can connect agents. */
export interface Connectable extends OfApp {
  app: SignInSettings
}

/** An app, whether its users can connect agents or not. Undefined where there is none. */
export async function appOf(deps: Deps, appId: string): Promise<Connectable | undefined> {
  const tenantId = await tenantOfApp(deps, appId)
  if (tenantId === undefined) return undefined
  const app = await signInSettings(deps, tenantId, appId as Id<'app'>)
  return { tenantId, appId: appId as Id<'app'>, app }
}

/** The app, if its users can connect agents. Undefined also where there is no such app. */
export async function connectableApp(deps: Deps, appId: string): Promise<Connectable | undefined> {
  const found = await appOf(deps, appId)
  return found?.app.agents.connect ? found : undefined
}
