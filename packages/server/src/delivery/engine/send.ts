import { LRUCache } from 'lru-cache'
import type { Deps } from '../../platform/deps.ts'
import type { SendResult } from '../../platform/egress/send.ts'
import type { Told } from '../../platform/observability/tracing.ts'
import { open } from '../../platform/security/crypto.ts'
import type { Claimed } from './claim.ts'
import type { Outcome } from './complete.ts'
import { nextAfterFailure } from './schedule.ts'
import { type SigningKey, signatureHeaders, signingKey } from './signature.ts'

const CACHED_KEYS_MAX = 10_000

/** What a secret is sealed for: a sealed secret moved to another webhook does not open. */
export function webhookSecretContext(tenantId: string, webhookId: string): string[] {
  return ['webhook secret', tenantId, webhookId]
}

/** Opens webhooks' secrets once, not at every send. Entries are found by the sealed bytes, which change with the secret. */
function createSigningKeys(deps: Pick<Deps, 'keys'>) {
  const opened = new LRUCache<string, SigningKey>({ max: CACHED_KEYS_MAX })
  return async function signingKeyOf(row: Claimed, sealed: Buffer): Promise<SigningKey> {
    // With its owner: else a sealed secret copied to another webhook would be found here, where it must not open.
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

/** A claimed delivery of which everything is still there. */
export type Sendable = Claimed & { body: string; url: string; secret_sealed: Buffer }

/** Whether event and webhook are there: a delivery without them can only end. */
export function isSendable(row: Claimed): row is Sendable {
  return row.body !== null && row.url !== null && row.secret_sealed !== null
}

/** An attempt as a trace knows it: by ids, without the receiver's address. */
const spanOf = (row: Sendable) => ({
  'halfkey.tenant.id': row.tenant_id,
  'halfkey.webhook.id': row.webhook_id,
  'halfkey.delivery.id': row.id,
  'halfkey.event.type': row.event_type,
  'halfkey.delivery.attempt': row.attempts + 1,
})

const told = ({ ok, statusCode, error }: SendResult): Told => ({
  attributes: {
    ...(statusCode === null ? {} : { 'http.response.status_code': statusCode }),
    ...(ok ? {} : { 'error.type': error ?? String(statusCode) }),
  },
  isFailed: !ok,
})

/** Sends one claimed delivery: signs the stored bytes with a fresh timestamp, posts them, judges the answer. Never throws. */
export function createSender(deps: Pick<Deps, 'keys' | 'egress' | 'config' | 'log' | 'tracing'>) {
  const signingKeyOf = createSigningKeys(deps)

  async function post(row: Sendable, databaseNowMs: number) {
    const current = await signingKeyOf(row, row.secret_sealed)
    const previous = row.previous_secret_sealed === null ? null : await signingKeyOf(row, row.previous_secret_sealed)
    const headers = signatureHeaders(row.event_id, row.body, current, previous, Math.floor(databaseNowMs / 1000))
    headers['user-agent'] = 'Halfkey-Webhooks/1'
    return deps.egress.post({ url: row.url, headers, body: row.body, timeoutMs: deps.config.webhookTimeoutMs })
  }

  /** @param databaseNowMs the database's clock now: the worker's own may be wrong */
  return async function send(row: Sendable, databaseNowMs: number): Promise<Outcome> {
    const attempt = () => post(row, databaseNowMs)
    const attempted = deps.tracing?.inTrace('webhook delivery', spanOf(row), attempt, told) ?? attempt()
    const result = await attempted.catch((error: unknown) => {
      deps.log.error({ err: error, deliveryId: row.id }, 'delivery could not be sent')
      return { ok: false, statusCode: null, error: 'internal error', responseSnippet: null, durationMs: 0 }
    })
    const test = row.lane_id !== row.webhook_id
    const next: Outcome['next'] = result.ok
      ? { kind: 'succeeded' }
      : test
        ? { kind: 'failed' }
        : nextAfterFailure(deps.config.webhookRetryDelays, row.retry, Math.random())
    return {
      row,
      startedAtMs: databaseNowMs,
      durationMs: result.durationMs,
      statusCode: result.statusCode,
      error: result.error,
      responseSnippet: result.responseSnippet,
      timedOut: result.error === 'timeout',
      next,
    }
  }
}
