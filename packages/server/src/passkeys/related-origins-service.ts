import { type Config, publicUrl } from '../core/config.ts'
import type { Deps } from '../core/deps.ts'
import type { PlainAnswer, PlainRequest } from '../core/http.ts'
import * as store from './store.ts'

/** Browsers look at a handful of sites at most (WebAuthn L3, section 5.11). */
const ORIGINS_MAX = 100
const TRUST_MS = 5_000
const HOSTS_MAX = 1_000

/** What this process knows without asking the database, by relying party: whoever knows the address may ask, often. */
const known = new WeakMap<Config, Map<string, { origins: Promise<string[]>; untilMs: number }>>()

const rpIdOf = (host: string | undefined) =>
  host === undefined ? null : (URL.parse(`http://${host}`)?.hostname ?? null)

function find(deps: Deps, rpId: string): Promise<string[]> {
  return store.listRelatedOrigins(deps.db, {
    rpId,
    isDefault: rpId === new URL(publicUrl(deps.config)).hostname,
    prefix: deps.config.env === 'development' ? 'http' : 'https://',
    limit: ORIGINS_MAX,
  })
}

function relatedOrigins(deps: Deps, rpId: string): Promise<string[]> {
  const entries = known.get(deps.config) ?? new Map<string, { origins: Promise<string[]>; untilMs: number }>()
  known.set(deps.config, entries)
  const entry = entries.get(rpId)
  if (entry !== undefined && performance.now() < entry.untilMs) return entry.origins
  const origins = find(deps, rpId)
  entries.delete(rpId)
  if (entries.size >= HOSTS_MAX) entries.delete(entries.keys().next().value as string)
  entries.set(rpId, { origins, untilMs: performance.now() + TRUST_MS })
  // A failure is for whoever is waiting; the next one asks again.
  origins.catch(() => entries.delete(rpId))
  return origins
}

/** Where else the passkeys of the relying party that the host names may be used: `{"origins": […]}`. */
export async function relatedOriginsOf(deps: Deps, { host }: PlainRequest): Promise<PlainAnswer> {
  const rpId = rpIdOf(host)
  const origins = rpId === null ? [] : await relatedOrigins(deps, rpId)
  return {
    status: 200,
    contentType: 'application/json',
    headers: { 'cache-control': `public, max-age=${TRUST_MS / 1000}` },
    body: JSON.stringify({ origins }),
  }
}
