import type { Deps } from '../../../platform/deps.ts'
import { invalid } from '../../../platform/http/errors.ts'
import {
  type ClientCertificate,
  type OAuthClient,
  openOptions,
  sealOptions,
  type WebhookOptions,
} from '../../engine/options/options.ts'
import type { WebhookRow } from '../store.ts'
import { readCertificate } from './certificate.ts'
import { shownDestination, storedDestination } from './destination.ts'
import { HEADERS_MAX, type OptionsInput, type ShownOptions } from './schema.ts'

const HEADERS_BYTES_MAX = 16 * 1024
/** Four characters of a short value would be too much of it. */
const SHOWN_CHARS_MIN = 16

// RFC 9110, section 5.6.2.
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const VALUE = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/

/** What Halfkey sets itself, and what belongs to the connection (RFC 9110, section 7.6.1) or changes how a body is read. */
const RESERVED = new Set([
  'accept-encoding',
  'connection',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'traceparent',
  'tracestate',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
const RESERVED_PREFIXES = ['ce-', 'content-', 'proxy-', 'webhook-', 'x-service-']

const isReserved = (name: string) => RESERVED.has(name) || RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))

function checkHeader(name: string, value: string | null): void {
  const field = `headers.${name}`
  if (!TOKEN.test(name)) throw invalid(field, "Header names consist of letters, digits and !#$%&'*+-.^_`|~.")
  if (isReserved(name.toLowerCase()))
    throw invalid(field, 'Halfkey or the connection sets this header. Choose another name.', 'reserved_header')
  if (value !== null && !VALUE.test(value))
    throw invalid(field, 'A value consists of visible ASCII characters and spaces, without a space at either end.')
}

type Headers = WebhookOptions['headers']

/** Merges headers by name; null removes. @throws validation_failed */
function changeHeaders(before: Headers, input: OptionsInput['headers']): Headers {
  if (input === undefined) return before
  if (input === null) return []
  const merged = new Map(before.map((header) => [header[0].toLowerCase(), header]))
  const given = new Set<string>()
  for (const [name, value] of Object.entries(input)) {
    checkHeader(name, value)
    const key = name.toLowerCase()
    if (given.has(key)) throw invalid(`headers.${name}`, 'This header is given twice. Case does not tell names apart.')
    given.add(key)
    if (value === null) merged.delete(key)
    else merged.set(key, [name, value])
  }
  const headers = [...merged.values()]
  if (headers.length > HEADERS_MAX)
    throw invalid('headers', `A webhook may have at most ${HEADERS_MAX} headers.`, 'too_many')
  if (headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0) > HEADERS_BYTES_MAX)
    throw invalid('headers', `Names and values may have at most ${HEADERS_BYTES_MAX} bytes together.`, 'too_large')
  return headers
}

function changeOAuth(before: OAuthClient | null, input: OptionsInput['oauth']): OAuthClient | null {
  if (input === undefined) return before
  return input === null ? null : { ...input, scope: input.scope ?? null, audience: input.audience ?? null }
}

function changeCertificate(
  before: ClientCertificate | null,
  input: OptionsInput['clientCertificate'],
  now: Date,
): ClientCertificate | null {
  if (input === undefined) return before
  return input === null ? null : readCertificate(input, now)
}

/** Hosts are shared: another path can belong to somebody else. */
const isElsewhere = (url: URL, before: URL) => url.origin !== before.origin || url.pathname !== before.pathname

/**
 * Secrets are not sent to an endpoint that they were not given for: anyone who may change the URL could otherwise read them.
 * The key of a certificate is never sent.
 * @throws validation_failed
 */
function checkCarriedOver(before: WebhookOptions, input: OptionsInput): void {
  const refuse = (what: string, more = {}) =>
    invalid('url', `The new URL has another scheme, host, port or path. ${what}`, 'secrets_not_carried_over', more)
  const given = new Set(Object.keys(input.headers ?? {}).map((name) => name.toLowerCase()))
  const kept = input.headers === null ? [] : before.headers.filter(([name]) => !given.has(name.toLowerCase()))
  if (kept.length > 0)
    throw refuse('Give each stored header again, or null to remove it.', { headers: kept.map(([name]) => name) })
  if (before.oauth !== null && input.oauth === undefined)
    throw refuse('Give `oauth` again, with the client secret, or null to remove it.')
}

const last4Of = (value: string) => (value.length < SHOWN_CHARS_MIN ? null : value.slice(-4))

function shownOAuth({ tokenUrl, clientId, clientSecret, scope, audience }: OAuthClient) {
  return { tokenUrl, clientId, clientSecretLast4: last4Of(clientSecret), scope, audience }
}

function shownCertificate({ subject, fingerprint, expiresAt }: ClientCertificate) {
  return { subject, fingerprint, expiresAt }
}

function shownOf({ headers, oauth, clientCertificate, destination }: WebhookOptions): ShownOptions {
  return {
    headers: headers.map(([name, value]) => ({ name, valueLast4: last4Of(value) })),
    oauth: oauth && shownOAuth(oauth),
    clientCertificate: clientCertificate && shownCertificate(clientCertificate),
    destination: shownDestination(destination),
  }
}

const EMPTY: WebhookOptions = { headers: [], oauth: null, clientCertificate: null, destination: null }

const isEmpty = ({ headers, oauth, clientCertificate, destination }: WebhookOptions) =>
  headers.length === 0 && oauth === null && clientCertificate === null && destination === null

/** What no single option shows. @throws validation_failed */
function checkTogether({ headers, oauth, clientCertificate }: WebhookOptions, url: string): void {
  const authorization = headers.find(([name]) => name.toLowerCase() === 'authorization')
  if (oauth !== null && authorization !== undefined)
    throw invalid(`headers.${authorization[0]}`, '`oauth` sets this header. Use one of the two.', 'reserved_header')
  if (clientCertificate !== null && new URL(url).protocol !== 'https:')
    throw invalid('clientCertificate', 'A client certificate needs a URL with https.')
}

/**
 * The options of a webhook after a change; `url` is the one after it. Options that are not given stay.
 * @throws validation_failed for what a webhook may not have, and for secrets that would go to another endpoint
 */
export async function changeOptions(
  deps: Pick<Deps, 'keys' | 'now'>,
  row: Pick<WebhookRow, 'tenant_id' | 'id' | 'url' | 'options' | 'options_sealed'>,
  input: OptionsInput,
  url: string,
): Promise<Pick<WebhookRow, 'options' | 'options_sealed'>> {
  const isMoved = isElsewhere(new URL(url), new URL(row.url))
  const isGiven = (['headers', 'oauth', 'clientCertificate', 'destination'] as const).some(
    (name) => input[name] !== undefined,
  )
  if (!isGiven && !(isMoved && row.options_sealed !== null))
    return { options: row.options, options_sealed: row.options_sealed }
  const owner = { tenantId: row.tenant_id, webhookId: row.id }
  const before = row.options_sealed === null ? EMPTY : await openOptions(deps.keys, owner, row.options_sealed)
  if (isMoved) checkCarriedOver(before, input)
  const options: WebhookOptions = {
    headers: changeHeaders(before.headers, input.headers),
    oauth: changeOAuth(before.oauth, input.oauth),
    clientCertificate: changeCertificate(before.clientCertificate, input.clientCertificate, deps.now()),
    destination: input.destination === undefined ? before.destination : storedDestination(input.destination),
  }
  checkTogether(options, url)
  if (isEmpty(options)) return { options: null, options_sealed: null }
  return { options: shownOf(options), options_sealed: await sealOptions(deps.keys, owner, options) }
}
