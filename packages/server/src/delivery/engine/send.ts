import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import { TIMEOUT } from '../../platform/egress/failure.ts'
import type { SendRequest } from '../../platform/egress/send.ts'
import { nextTraceparent, parseTraceparent } from '../../platform/observability/traceparent.ts'
import type { Told } from '../../platform/observability/tracing.ts'
import { open } from '../../platform/security/crypto.ts'
import { type SigningKey, signatureHeaders, signingKey } from '../../platform/security/webhook-signature.ts'
import type { Claimed } from './claim.ts'
import type { Outcome } from './complete.ts'
import { messageOf, type Shape } from './content/message.ts'
import type { Sent } from './destinations/destination.ts'
import { createDestinations } from './destinations/destinations.ts'
import { TOKEN_TIMEOUT } from './options/tokens.ts'
import { nextAfterFailure } from './retry.ts'

const CACHED_KEYS_MAX = 10_000
const USER_AGENT = 'Halfkey-Webhooks/1'

/** The context that a secret is sealed for: a sealed secret copied to another webhook does not open. */
export function webhookSecretContext(tenantId: string, webhookId: string): string[] {
  return ['webhook secret', tenantId, webhookId]
}

/** Opens webhooks' secrets once, not at every send. Entries are found by the sealed bytes, which change with the secret. */
function createSigningKeys(deps: Pick<Deps, 'keys'>) {
  const opened = new LRUCache<string, SigningKey>({ max: CACHED_KEYS_MAX })
  return async function signingKeyOf(row: Claimed, sealed: Buffer): Promise<SigningKey> {
    // The key includes the owner. Otherwise a sealed secret copied to another webhook would be found here and open.
    const id = `${row.tenant_id} ${row.webhook_id} ${sealed.toString('latin1')}`
    const known = opened.get(id)
    if (known !== undefined) return known
    const key = signingKey(
      (await open(deps.keys, sealed, webhookSecretContext(row.tenant_id, row.webhook_id))).toString(),
    )
    opened.set(id, key)
    return key
  }
}

/** A claimed delivery whose event and webhook still exist. */
export type Sendable = Claimed & Shape & { body: string; url: string; secret_sealed: Buffer }

/** Whether event and webhook exist. Without them, the delivery ends. */
export function isSendable(row: Claimed): row is Sendable {
  return row.body !== null && row.url !== null && row.secret_sealed !== null
}

const isTest = (row: Sendable) => row.lane_id !== row.webhook_id

const ownerOf = (row: Sendable) => ({ tenantId: row.tenant_id, webhookId: row.webhook_id })

/** The trace attributes of an attempt: ids, without the receiver's address. */
const spanOf = (row: Sendable) => ({
  'halfkey.tenant.id': row.tenant_id,
  'halfkey.webhook.id': row.webhook_id,
  'halfkey.delivery.id': row.id,
  'halfkey.event.type': row.event_type,
  'halfkey.delivery.attempt': row.attempts + 1,
})

const told = ({ ok, statusCode, error }: Sent): Told => ({
  attributes: {
    ...(statusCode === null ? {} : { 'http.response.status_code': statusCode }),
    ...(ok ? {} : { 'error.type': error ?? String(statusCode) }),
  },
  isFailed: !ok,
})

/** From 0 to 1: by chance, and the same for all deliveries of a batch, so that its retry is the same batch. */
const jitterOf = ({ batch }: Sent) =>
  batch === undefined ? Math.random() : Number.parseInt(batch.id.slice(0, 8), 16) / 2 ** 32

/** Sends one claimed delivery: signs the bytes with a fresh timestamp, gives them to the destination, judges the answer. Never throws. */
export function createSender(deps: Pick<Deps, 'keys' | 'egress' | 'config' | 'log' | 'tracing'>) {
  const signingKeyOf = createSigningKeys(deps)
  const destinationOf = createDestinations(deps)

  async function signed(
    row: Sendable,
    databaseNowMs: number,
  ): Promise<Pick<SendRequest, 'headers'> & { body: string }> {
    const current = await signingKeyOf(row, row.secret_sealed)
    const previous = row.previous_secret_sealed === null ? null : await signingKeyOf(row, row.previous_secret_sealed)
    const { body, headers } = messageOf(row, { tenantId: row.tenant_id, appId: row.event_app_id, body: row.body })
    const signatures = signatureHeaders(row.event_id, body, current, previous, Math.floor(databaseNowMs / 1000))
    return { body, headers: { ...signatures, ...headers, 'user-agent': USER_AGENT } }
  }

  async function give(row: Sendable, databaseNowMs: number, traceparent: string | null): Promise<Sent> {
    const { body, headers } = await signed(row, databaseNowMs)
    const publicOnly = row.subscriber_id !== null
    // The tenant's traces are nothing to its subscribers.
    if (traceparent !== null && !publicOnly) headers.traceparent = traceparent
    const destination = await destinationOf(ownerOf(row), row.options_sealed)
    return destination.send({
      url: row.url,
      headers,
      body,
      timeoutMs: deps.config.webhookTimeoutMs,
      publicOnly,
      deliveryId: row.id,
      cycle: row.cycle,
      eventId: row.event_id,
      eventType: row.event_type,
      orderingKey: row.ordering_key,
      atOnce: isTest(row) ? 1 : row.cap,
      nowMs: databaseNowMs,
    })
  }

  /** @param databaseNowMs the database's clock now: the worker's own may be wrong */
  return async function send(row: Sendable, databaseNowMs: number): Promise<Outcome> {
    const parent = parseTraceparent(row.traceparent)
    // An attempt that is not recorded is still a step of the trace that caused it.
    const run = (recorded: string | null) => give(row, databaseNowMs, recorded ?? (parent && nextTraceparent(parent)))
    const work = { name: 'webhook delivery', attributes: spanOf(row), parent, run, told }
    const attempted = deps.tracing?.inTrace(work) ?? run(null)
    const result: Sent = await attempted.catch((error: unknown) => {
      deps.log.error({ err: error, deliveryId: row.id }, 'delivery could not be sent')
      return { ok: false, statusCode: null, error: 'internal error', responseSnippet: null, durationMs: 0 }
    })
    const next: Outcome['next'] = result.ok
      ? { kind: 'succeeded' }
      : isTest(row)
        ? { kind: 'failed' }
        : nextAfterFailure(deps.config.webhookRetryDelays, row.retry, jitterOf(result))
    return {
      row,
      startedAtMs: databaseNowMs,
      durationMs: result.durationMs,
      statusCode: result.statusCode,
      error: result.error,
      responseSnippet: result.responseSnippet,
      timedOut: result.error === TIMEOUT || result.error === TOKEN_TIMEOUT,
      batchMax: result.batch?.max ?? null,
      next,
    }
  }
}
