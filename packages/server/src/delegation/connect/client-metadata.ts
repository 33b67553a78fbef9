import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { Egress } from '../../platform/egress/egress.ts'
import { hostUrlProblem } from '../../platform/security/web-origin.ts'

const TIMEOUT_MS = 5_000
const BYTES_MAX = 16 * 1024
const ID_CHARS_MAX = 500
const NAME_CHARS_MAX = 80
/** So that the name of a session has room for it. */
const HOST_CHARS_MAX = 100
/** RFC 8259, and the suffix of RFC 6839, section 3.1. */
const JSON_TYPE = /^application\/([a-z0-9!#$&^_.-]+\+)?json *(;|$)/i
const REDIRECTS_MAX = 50
/** How long a document is used without asking again, and how long a failure is. */
const KEEP_MS = 10 * 60_000
const FAILURE_MS = 10_000
const CLIENTS_MAX = 1_000

/** What an agent's client says of itself, at its address. Nobody has verified any of it but the address. */
interface ClientMetadata {
  /** The address of the document. */
  clientId: string
  /** Without characters that cannot be seen or that turn text around; null if it has none. */
  name: string | null
  redirectUris: readonly string[]
}

type Found = { client: ClientMetadata } | { problem: string }

/**
 * Why a text is not a client id, or null. It is an address with a path, without fragment, query, user name or dot segments, written as
 * browsers write it (draft-ietf-oauth-client-id-metadata-document, section 3).
 */
function clientIdProblem(clientId: string, development: boolean): string | null {
  const url = URL.parse(clientId)
  if (url === null || clientId.length > ID_CHARS_MAX) return 'it is not the https: address of a metadata document'
  if (hostUrlProblem(url, development) !== null) return 'it is not the https: address of a metadata document'
  if (url.host.length > HOST_CHARS_MAX) return `its host has more than ${HOST_CHARS_MAX} characters`
  if (clientId.includes('#') || clientId.includes('?')) return 'it has a fragment or a query'
  if (url.pathname === '/' || url.href !== clientId) return 'it has no path, or is not written as browsers write it'
  return null
}

const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu

function nameOf(name: unknown): string | null {
  if (typeof name !== 'string') return null
  const shown = name.normalize('NFC').replace(UNSEEN, '').replace(/\s+/g, ' ').trim()
  return shown === '' ? null : [...shown].slice(0, NAME_CHARS_MAX).join('')
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** Reads a document. A client that has a secret, or that is somebody else's, is refused (section 4 of the draft). */
function readMetadata(clientId: string, value: unknown): Found {
  if (typeof value !== 'object' || value === null) return { problem: 'the document is not a JSON object' }
  const {
    client_id: own,
    redirect_uris: redirectUris,
    token_endpoint_auth_method: method = 'none',
    client_name: name,
  } = value as Record<string, unknown>
  if (own !== clientId) return { problem: 'the document is about another client_id' }
  if ('client_secret' in value || method !== 'none')
    return { problem: 'the document asks for a client secret or key; only public clients can connect' }
  if (!Array.isArray(redirectUris) || redirectUris.length === 0 || redirectUris.length > REDIRECTS_MAX)
    return { problem: `the document does not have 1 to ${REDIRECTS_MAX} redirect_uris` }
  if (!redirectUris.every(isText)) return { problem: 'a redirect URI in the document is not text' }
  return { client: { clientId, name: nameOf(name), redirectUris } }
}

async function fetchMetadata({ egress, log }: Pick<Deps, 'egress' | 'log'>, clientId: string): Promise<Found> {
  const answered = await egress.get({
    url: clientId,
    headers: { accept: 'application/json' },
    timeoutMs: TIMEOUT_MS,
    keepsAnswer: true,
    answerBytesMax: BYTES_MAX + 1,
    // Anybody can name an address, so what an operator opened for tenants stays closed.
    publicOnly: true,
  })
  if (!answered.ok) {
    log.info({ clientId, error: answered.error }, "the metadata of an agent's client could not be read")
    // Anybody can name an address: what names resolve to, and what is listening where, is told to nobody.
    const how = answered.statusCode === null ? '' : `: it was answered with ${answered.statusCode}`
    return { problem: `the document could not be read${how}` }
  }
  if (!JSON_TYPE.test(answered.answerHeaders?.['content-type'] ?? ''))
    return { problem: 'the document is not served as JSON (application/json, or a type that ends with +json)' }
  if (answered.answer === undefined || answered.answer.length > BYTES_MAX)
    return { problem: `the document has more than ${BYTES_MAX} bytes` }
  try {
    return readMetadata(clientId, JSON.parse(answered.answer.toString()))
  } catch {
    return { problem: 'the document is not JSON' }
  }
}

/** Documents that this process has read, or is reading: one request for any number of callers. */
const byProcess = new WeakMap<Egress, LRUCache<string, Promise<Found>>>()

/** A client by the address of its metadata: what it says of itself, or why it cannot connect. Call it outside a transaction. */
export async function findClient(deps: Pick<Deps, 'egress' | 'config' | 'log'>, clientId: string): Promise<Found> {
  const problem = clientIdProblem(clientId, deps.config.env === 'development')
  if (problem !== null) return { problem }
  let known = byProcess.get(deps.egress)
  if (known === undefined) {
    known = new LRUCache({ max: CLIENTS_MAX, ttl: KEEP_MS })
    byProcess.set(deps.egress, known)
  }
  const reading = known.get(clientId)
  if (reading !== undefined) return reading
  const fetched = fetchMetadata(deps, clientId)
  known.set(clientId, fetched)
  const found = await fetched
  if ('problem' in found) known.set(clientId, fetched, { ttl: FAILURE_MS })
  return found
}
