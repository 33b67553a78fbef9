import { failures, invalid } from '../../../platform/http/errors.ts'
import type { Caller } from '../../../platform/http/route.ts'
import { allows } from '../../../platform/security/api-key.ts'
import type { WebhookOptions } from '../../engine/options/options.ts'
import type { DestinationInput, ShownDestination } from './destination-schema.ts'
import type { OptionsInput } from './schema.ts'

type Destination = WebhookOptions['destination']

const fail = failures({})
const SCOPE = 'destinations:write'

/** What a call says about where events go. */
interface Target extends OptionsInput {
  url?: string | undefined
  format?: string | undefined
}

/** The part of the input that the URL comes from. */
export const urlField = ({ destination }: Target): string => {
  if (destination === undefined) return 'url'
  if (destination.type === 'sqs') return 'destination.queueUrl'
  return destination.endpoint == null ? 'destination.bucket' : 'destination.endpoint'
}

/** Destinations belong to whoever operates the tenant's service: other keys neither set nor change one. @throws insufficient_scope */
export function checkMayDirect({ scopes }: Caller, { destination }: Target): void {
  if (destination === undefined || allows(scopes, SCOPE)) return
  throw fail('insufficient_scope', [
    { code: 'missing_scope', message: `A destination needs the scope ${SCOPE}.`, scope: SCOPE },
  ])
}

/** Where the objects of a bucket are, without a slash at the end. @throws validation_failed */
function bucketUrl({ bucket, prefix, region, endpoint, forcePathStyle }: DestinationInput & { type: 's3' }): string {
  const service = URL.parse(endpoint ?? `https://s3.${region}.amazonaws.com`)
  if (service === null || service.pathname !== '/' || service.search !== '' || service.hash !== '')
    throw invalid('destination.endpoint', 'Must be a URL without path and query, such as "https://minio.example.com".')
  const isInPath = forcePathStyle ?? endpoint != null
  if (!isInPath) service.host = `${bucket}.${service.host}`
  // Nothing stands before an address.
  if (!isInPath && !service.host.startsWith(`${bucket}.`))
    throw invalid('destination.forcePathStyle', 'Must be true, because `endpoint` is an IP address.')
  const path = [...(isInPath ? [bucket] : []), ...(prefix?.split('/') ?? [])]
  return `${service.href}${path.filter((part) => part !== '').join('/')}`.replace(/\/$/, '')
}

/** The URL of a webhook that is given one, or a destination; undefined if neither is given. @throws validation_failed */
export function urlOf({ url, destination }: Target): string | undefined {
  if (destination === undefined) return url
  if (url !== undefined) throw invalid('url', 'Give either `url` or `destination`.', 'not_allowed')
  return destination.type === 'sqs' ? destination.queueUrl : bucketUrl(destination)
}

/** The same for a new webhook. @throws validation_failed also if neither is given */
export function urlOfNew(target: Target): string {
  const url = urlOf(target)
  if (url === undefined) throw invalid('url', '`url` is required, unless you give a `destination`.', 'required')
  return url
}

/**
 * Checks what goes with a destination and what does not. `before` is the webhook's, if it exists and has one.
 * @throws validation_failed
 */
export function checkDestination(input: Target, before: ShownDestination | null, isNew: boolean): void {
  const { destination } = input
  if (destination === undefined && before === null) return
  if (!isNew && before === null)
    throw invalid('destination', 'This webhook has a URL. Create another webhook for a destination.', 'not_allowed')
  if (before !== null && input.url !== undefined)
    throw invalid('url', 'This webhook has a destination. Change `destination` instead.', 'not_allowed')
  if (before !== null && destination !== undefined && destination.type !== before.type)
    throw invalid(
      'destination.type',
      `Must stay "${before.type}". A webhook cannot change its kind: create another one.`,
      'not_allowed',
    )
  for (const option of ['headers', 'oauth', 'clientCertificate'] as const)
    if (input[option] != null)
      throw invalid(option, 'Not allowed with a destination. Only webhooks with a URL can have this.', 'not_allowed')
  if (input.format === 'cloudevents_binary')
    throw invalid('format', '`cloudevents_binary` needs HTTP headers. Use `cloudevents_structured`.', 'not_allowed')
}

/** A destination as it is stored, with its secret. */
export function storedDestination(input: DestinationInput): NonNullable<Destination> {
  if (input.type === 'sqs') return { ...input }
  const { prefix = null, endpoint = null, forcePathStyle = endpoint !== null } = input
  return { ...input, prefix, endpoint, forcePathStyle }
}

/** The same as responses show it. */
export function shownDestination(destination: Destination): ShownDestination | null {
  if (destination === null) return null
  const { secretAccessKey: _, ...shown } = destination
  return shown
}
