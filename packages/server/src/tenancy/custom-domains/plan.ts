import { parse } from 'tldts'
import { publicUrl } from '../../platform/config.ts'
import type { Deps } from '../../platform/deps.ts'
import type { Caller } from '../../platform/http/route.ts'
import { signInSettings } from '../apps/service.ts'
import { passkeysByRelyingParty, relatedOrigins } from './related-origins.ts'
import type { CustomDomain, DomainPlan } from './schema.ts'
import { getCustomDomain } from './service.ts'

/** The number of labels that every browser with related origins supports (WebAuthn L3, section 5.11). */
const LABELS_MAX = 5

type Step = DomainPlan['steps'][number]
type Reach = DomainPlan['passkeys'][number]['reach']

/** The name before a host's public suffix. Null if there is none. */
const labelOf = (origin: string): string | null =>
  parse(new URL(origin).hostname, { allowPrivateDomains: true }).domainWithoutSuffix || null

/** Whether a browser finds the origin in this list by the algorithm of WebAuthn L3, section 5.11.1. */
function isHeeded(origins: readonly string[], origin: string): boolean {
  const seen = new Set<string>()
  for (const listed of origins) {
    const label = labelOf(listed)
    if (label === null || (seen.size >= LABELS_MAX && !seen.has(label))) continue
    if (listed === origin) return true
    seen.add(label)
  }
  return false
}

function reachOf(domain: string, rpId: string, origins: readonly string[]): Reach {
  if (domain === rpId || domain.endsWith(`.${rpId}`)) return 'same_site'
  const origin = `https://${domain}`
  if (isHeeded(origins, origin)) return 'related_origin'
  return origins.includes(origin) ? 'too_many_sites' : 'none'
}

function stepsFor(record: CustomDomain, rpId: string, reach: Reach, own: string): Step[] {
  const { domain, verification } = record
  const steps: Step[] = [
    {
      code: 'verify_domain',
      done: record.status === 'verified',
      text: `Set the TXT record ${verification.name} to ${verification.value}, then POST /custom-domains/verify.`,
    },
  ]
  if (reach !== 'same_site')
    steps.push(
      {
        code: 'serve_related_origins',
        // The service cannot know the response of another host.
        done: rpId === own ? true : null,
        text: `Route https://${rpId}/.well-known/webauthn to this service and keep its Host header. Browsers read there on which other origins the passkeys may be used.`,
      },
      {
        code: 'be_listed',
        done: reach === 'related_origin',
        text: `The list there must contain https://${domain} among its first ${LABELS_MAX} sites. Remove origins that no longer sign in from allowedOrigins.`,
      },
    )
  return [
    ...steps,
    {
      code: 'lead_users_there',
      done: null,
      text: `Send users to https://${domain}. Users whose browser does not support related origins sign in on ${rpId} as before.`,
    },
    {
      code: 'keep_relying_party',
      done: null,
      text: `Keep the app's passkey.rpId at ${rpId}. If you change it to ${domain}, new passkeys belong to ${domain}, and existing ones work only with an email and on ${rpId}. Never change it before their users have added another passkey.`,
    },
  ]
}

/**
 * The steps to use the app's passkeys on a domain. Steps that only a browser or DNS can confirm have `done: null`.
 * @throws not_found
 */
export async function planForDomain(deps: Deps, caller: Caller, id: string): Promise<DomainPlan> {
  const record = await getCustomDomain(deps, caller, id)
  const appId = record.appId as `app_${string}`
  const { passkey } = await signInSettings(deps, caller.tenantId, appId, 'id')
  const counts = await passkeysByRelyingParty(deps, caller.tenantId, appId)
  const reaches = async (rpId: string) => reachOf(record.domain, rpId, await relatedOrigins(deps, rpId))
  const reach = await reaches(passkey.rpId)
  const { hostname: own } = new URL(publicUrl(deps.config))
  return {
    domain: record.domain,
    appId,
    rpId: passkey.rpId,
    reach,
    passkeys: await Promise.all(counts.map(async ({ rpId, count }) => ({ rpId, count, reach: await reaches(rpId) }))),
    steps: stepsFor(record, passkey.rpId, reach, own),
  }
}
