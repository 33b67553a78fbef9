import { LRUCache } from 'lru-cache'
import { allowInsecureRequests, customFetch, discovery, type ServerMetadata } from 'openid-client'
import type { Egress } from '../../../platform/egress/egress.ts'
import { webUrlProblem } from '../../../platform/security/web-origin.ts'
import type { ProviderRow } from '../../../tenancy/apps/providers/service.ts'
import { type Fetcher, guardedFetch, ProviderFailed, timeoutOf } from './egress-fetch.ts'

/** Metadata that is older is fetched again. */
const KEEP_MS = 10 * 60_000
/** After a failure, nothing is fetched from this issuer for so long. */
const FLOOR_MS = 10_000
const ISSUERS_MAX = 1_000

interface Entry {
  fetched: Promise<ServerMetadata>
  /** On the monotonic clock, milliseconds. */
  at: number
  failed: boolean
}

const byProcess = new WeakMap<Egress, LRUCache<string, Entry>>()

function entriesOf({ egress }: Fetcher): LRUCache<string, Entry> {
  let entries = byProcess.get(egress)
  if (entries === undefined) {
    entries = new LRUCache({ max: ISSUERS_MAX })
    byProcess.set(egress, entries)
  }
  return entries
}

/** GitHub has no metadata. Its own servers for enterprises have the API on the same host. */
function githubMetadata(issuer: string): ServerMetadata {
  return {
    // What its answers name as `iss` (RFC 9207), where a server is new enough to do so. Users are known by the host alone.
    issuer: `${issuer}/login/oauth`,
    authorization_endpoint: `${issuer}/login/oauth/authorize`,
    token_endpoint: `${issuer}/login/oauth/access_token`,
    token_endpoint_auth_methods_supported: ['client_secret_post'],
  }
}

/** Where browsers are sent to and a secret is sent to: https only, as for the issuer itself. */
function requireWebUrls(deps: Fetcher, metadata: ServerMetadata): void {
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const) {
    const url = URL.parse(String(metadata[name] ?? ''))
    const problem = url === null ? 'is missing' : webUrlProblem(url, deps.config.env === 'development')
    if (problem !== null) throw new ProviderFailed(`its ${name}: ${problem}`)
  }
}

async function discover(deps: Fetcher, issuer: string): Promise<ServerMetadata> {
  const found = await discovery(new URL(issuer), 'discovery', undefined, undefined, {
    [customFetch]: guardedFetch(deps),
    timeout: Math.ceil(timeoutOf(deps) / 1000) + 1,
    // Only the scheme: which hosts may be plain is for the guard and for `requireWebUrls`.
    execute: deps.config.env === 'development' ? [allowInsecureRequests] : [],
  })
  const metadata = found.serverMetadata()
  // The library looks at it too; whose tokens count must not depend on that alone.
  if (metadata.issuer !== issuer) throw new ProviderFailed('its metadata names another issuer')
  requireWebUrls(deps, metadata)
  return metadata
}

/**
 * A provider's metadata (OpenID Connect Discovery), fetched once for all that ask and kept for ten minutes.
 * @throws ProviderFailed, and the errors of the library
 */
export async function metadataOf(
  deps: Fetcher,
  { preset, issuer }: Pick<ProviderRow, 'preset' | 'issuer'>,
): Promise<ServerMetadata> {
  if (preset === 'github') return githubMetadata(issuer)
  const entries = entriesOf(deps)
  const known = entries.get(issuer)
  const age = known === undefined ? 0 : performance.now() - known.at
  if (known !== undefined && age < (known.failed ? FLOOR_MS : KEEP_MS)) return known.fetched
  const entry: Entry = { fetched: discover(deps, issuer), at: performance.now(), failed: false }
  entry.fetched.catch(() => {
    entry.failed = true
  })
  entries.set(issuer, entry)
  return entry.fetched
}
