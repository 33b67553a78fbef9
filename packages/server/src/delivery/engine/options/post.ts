import type { Deps } from '../../../platform/deps.ts'
import type { SendRequest, SendResult } from '../../../platform/egress/egress.ts'
import type { WebhookOptions } from './options.ts'
import { createTokens } from './tokens.ts'

/** An attempt that failed before anything was sent to the receiver. */
const failed = (error: string, startedAt: number): SendResult => ({
  ok: false,
  statusCode: null,
  error,
  responseSnippet: null,
  durationMs: Math.round(performance.now() - startedAt),
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

  return async function post(request: SendRequest, { headers: own, oauth }: WebhookOptions): Promise<SendResult> {
    const startedAt = performance.now()
    const headers = withOwnHeaders(request.headers, own)
    if (oauth === null) return deps.egress.post({ ...request, headers })
    const got = await tokens.of(oauth)
    if ('error' in got) return failed(got.error, startedAt)
    headers.authorization = `Bearer ${got.token}`
    const waitedMs = Math.round(performance.now() - startedAt)
    const timeoutMs = Math.max(1, request.timeoutMs - waitedMs)
    const result = await deps.egress.post({ ...request, headers, timeoutMs })
    if (result.statusCode === 401) tokens.drop(oauth, got.token)
    return { ...result, durationMs: waitedMs + result.durationMs }
  }
}
