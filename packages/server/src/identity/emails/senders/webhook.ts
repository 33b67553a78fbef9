import type { Deps } from '../../../platform/deps.ts'
import { EVENT_API_VERSION } from '../../../platform/events/events.ts'
import { open } from '../../../platform/security/crypto.ts'
import { signatureHeaders, signingKey } from '../../../platform/security/webhook-signature.ts'
import { signInSettings } from '../../../tenancy/apps/service.ts'
import type { AppEmailRow } from '../store.ts'
import type { ReadyEmail, Sender } from './sender.ts'

const TIMEOUT_MS = 15_000
const USER_AGENT = 'Halfkey-Webhooks/1'

/**
 * The event that the app's server gets. It is sent to that server alone, and is not stored: neither the pull feed nor the
 * audit log nor another webhook has it, whatever they subscribe to. All attempts for one email have the same id.
 */
function bodyOf({ row, content, rendered }: ReadyEmail<AppEmailRow>): { id: string; body: string } {
  const id = `evt_${row.id.slice(4)}`
  const data = {
    emailId: row.id,
    appId: row.app_id,
    userId: row.user_id,
    appName: content.appName,
    address: row.address,
    purpose: row.purpose,
    language: row.language,
    code: content.code,
    link: content.link,
    availableAt: content.at ?? null,
    expiresAt: row.expires_at.toISOString(),
    ...rendered,
  }
  const body = JSON.stringify({
    id,
    type: 'email.requested',
    created_at: row.created_at.toISOString(),
    api_version: EVENT_API_VERSION,
    data,
  })
  return { id, body }
}

/** Has the app's own server send it: one signed POST, which any 2xx answers. */
export function createWebhookSender(deps: Deps): Sender<AppEmailRow> {
  return async (email) => {
    const { row } = email
    const app = await signInSettings(deps, row.tenant_id, row.app_id)
    const { webhookUrl } = app.email
    if (webhookUrl === null || app.emailWebhookSecretSealed === null)
      return { ok: false, error: 'The app has no server for emails.', final: true }
    const context = ['email webhook secret', row.tenant_id, row.app_id]
    const secret = (await open(deps.keys, app.emailWebhookSecretSealed, context)).toString()
    const { id, body } = bodyOf(email)
    const seconds = Math.floor(deps.now().getTime() / 1000)
    const headers = {
      ...signatureHeaders(id, body, signingKey(secret), null, seconds),
      'user-agent': USER_AGENT,
    }
    const result = await deps.egress.post({ url: webhookUrl, headers, body, timeoutMs: TIMEOUT_MS })
    return result.ok
      ? { ok: true }
      : { ok: false, error: `Your server did not take it: ${result.error}.`, final: false }
  }
}
