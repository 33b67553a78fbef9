import { LRUCache } from 'lru-cache'
import { open, seal } from '../../../platform/security/crypto.ts'
import type { KeyProvider } from '../../../platform/security/key-provider.ts'

const OPENED_MAX = 10_000
const OPENED_BYTES_MAX = 64 * 1024 * 1024

/** Where an access token comes from (RFC 6749, section 4.4). */
export interface OAuthClient {
  tokenUrl: string
  clientId: string
  clientSecret: string
  scope: string | null
  audience: string | null
}

/** What Halfkey shows a server that asks for a certificate (mutual TLS). */
export interface ClientCertificate {
  /** PEM, with its chain. */
  certificate: string
  /** PEM. */
  privateKey: string
  subject: string
  /** SHA-256 of the certificate, without its chain. */
  fingerprint: string
  /** ISO 8601. */
  expiresAt: string
}

/** An SQS queue. */
export interface SqsDestination {
  type: 'sqs'
  queueUrl: string
  region: string
  accessKeyId: string
  secretAccessKey: string
}

/** An S3-compatible bucket. The webhook's URL is where its objects go. */
export interface S3Destination {
  type: 's3'
  bucket: string
  prefix: string | null
  region: string
  /** The service's URL; null for Amazon's own. */
  endpoint: string | null
  /** The bucket is part of the path, not of the host. */
  forcePathStyle: boolean
  accessKeyId: string
  secretAccessKey: string
}

/** What the requests to one webhook carry or use beside the signature. Sealed at rest as a whole. */
export interface WebhookOptions {
  /** Names as they are sent, with their values. No two names are equal in lower case. */
  headers: [name: string, value: string][]
  oauth: OAuthClient | null
  clientCertificate: ClientCertificate | null
  /** Null for a webhook that posts to its URL. With a destination, there are no other options. */
  destination: SqsDestination | S3Destination | null
}

/** The context that options are sealed for: sealed options copied to another webhook do not open. */
const optionsContext = (tenantId: string, webhookId: string) => ['webhook options', tenantId, webhookId]

/** Whose options they are. */
export interface Owner {
  tenantId: string
  webhookId: string
}

/** The bytes of the column `options_sealed`. */
export function sealOptions(keys: KeyProvider, owner: Owner, options: WebhookOptions): Promise<Buffer> {
  return seal(keys, JSON.stringify(options), optionsContext(owner.tenantId, owner.webhookId))
}

/** Undoes `sealOptions`. @throws Error for bytes that were sealed for another webhook */
export async function openOptions(keys: KeyProvider, owner: Owner, sealed: Buffer): Promise<WebhookOptions> {
  const text = (await open(keys, sealed, optionsContext(owner.tenantId, owner.webhookId))).toString()
  // Earlier releases stored no destination.
  return { destination: null, ...JSON.parse(text) }
}

/**
 * Opens webhooks' options once, not at every send. Entries are found by the sealed bytes, which change with the options:
 * the same options are the same object, also for sends that ask at the same time.
 */
export function createOptionsOf(deps: { keys: KeyProvider }) {
  const opened = new LRUCache<string, Promise<WebhookOptions>>({ max: OPENED_MAX, maxSize: OPENED_BYTES_MAX })
  return function optionsOf(owner: Owner, sealed: Buffer): Promise<WebhookOptions> {
    // The key includes the owner. Otherwise sealed bytes copied to another webhook would be found here and open.
    const id = `${owner.tenantId} ${owner.webhookId} ${sealed.toString('latin1')}`
    const known = opened.get(id)
    if (known !== undefined) return known
    const opening = openOptions(deps.keys, owner, sealed).catch((error: unknown) => {
      opened.delete(id)
      throw error
    })
    // Sealed and opened bytes are about as many.
    opened.set(id, opening, { size: 2 * sealed.length })
    return opening
  }
}
