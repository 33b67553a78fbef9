import type { Deps } from '../../../platform/deps.ts'
import type { SendRequest, SendResult } from '../../../platform/egress/egress.ts'
import type { OAuthClient, WebhookOptions } from './options.ts'
import { redact } from './redact.ts'
import { createTokens } from './tokens.ts'

/** An attempt that failed before anything was sent to the receiver. */
const failed = (error: string, durationMs: number): SendResult => ({
  ok: false,
  statusCode: null,
  error,
  responseSnippet: null,
  durationMs,
})

/** Names were checked when they were stored: of Halfkey's own, only the user agent can be among them. */
function withOwnHeaders(headers: SendRequest['headers'], own: WebhookOptions['headers']): SendRequest['headers'] {
  const all = { ...headers }
  for (const [name, value] of own) {
    if (name.toLowerCase() === 'user-agent') delete all['user-agent']
    all[name] = value
  }
  return all
}

/** Posts as the options of a webhook say. What happens before the post takes of its time. */
export function createOptionedPost(deps: Pick<Deps, 'egress' | 'config'>) {
  const tokens = createTokens(deps)

  /** Responses are stored and shown, and some receivers repeat what they were sent. */
  async function postSecrets(request: SendRequest, secrets: string[]): Promise<SendResult> {
    const result = await deps.egress.post(request)
    return { ...result, responseSnippet: result.responseSnippet && redact(result.responseSnippet, secrets) }
  }

  async function postAsClient(request: SendRequest, oauth: OAuthClient, secrets: string[]): Promise<SendResult> {
    const startedAt = performance.now()
    const got = await tokens.of(oauth)
    const waitedMs = Math.round(performance.now() - startedAt)
    if ('error' in got) return failed(got.error, waitedMs)
    const headers = { ...request.headers, authorization: `Bearer ${got.token}` }
    const timeoutMs = Math.max(1, request.timeoutMs - waitedMs)
    const result = await postSecrets({ ...request, headers, timeoutMs }, [...secrets, got.token])
    if (result.statusCode === 401) tokens.drop(oauth, got.token)
    return { ...result, durationMs: waitedMs + result.durationMs }
  }

  /** @param nowMs Unix time */
  return async function post(request: SendRequest, options: WebhookOptions, nowMs: number): Promise<SendResult> {
    const { oauth, clientCertificate } = options
    if (clientCertificate !== null && Date.parse(clientCertificate.expiresAt) <= nowMs)
      return failed('tls: the client certificate has expired', 0)
    const optioned: SendRequest = { ...request, headers: withOwnHeaders(request.headers, options.headers) }
    if (clientCertificate !== null) optioned.clientCertificate = clientCertificate
    const secrets = options.headers.map(([, value]) => value)
    return oauth === null ? postSecrets(optioned, secrets) : postAsClient(optioned, oauth, secrets)
  }
}
