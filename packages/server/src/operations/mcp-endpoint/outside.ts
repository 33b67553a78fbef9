import { BODY_BYTES_MAX, type Outside, unreachable, type Web } from '../../../../mcp/src/server.ts'
import type { Deps } from '../../platform/deps.ts'

/** For one request of `x402_fetch`, which makes up to three. */
const FETCH_MS_MAX = 10_000
/** Calls of `x402_fetch` at once, of one session and of this process: a slow seller must not gather them. */
const SESSION_CALLS_MAX = 4
const PROCESS_CALLS_MAX = 64

/** Requests to the public internet: what the operator lists for webhooks stays closed to agents. */
const webOf =
  ({ egress }: Deps): Web =>
  async ({ method, url, headers, body = '' }) => {
    const limits = { timeoutMs: FETCH_MS_MAX, keepsAnswer: true, answerBytesMax: BODY_BYTES_MAX, publicOnly: true }
    const sent = { url, headers, ...limits }
    const result = method === 'POST' ? await egress.post({ ...sent, body }) : await egress.get(sent)
    const { statusCode, error, answer = Buffer.alloc(0), answerHeaders = {} } = result
    if (statusCode === null) throw unreachable(error ?? 'failed')
    const isCut = answer.length > BODY_BYTES_MAX
    return { status: statusCode, headers: new Headers(answerHeaders), body: answer.subarray(0, BODY_BYTES_MAX), isCut }
  }

/** The running calls by their session's token. A process has one egress, and services that share one in a test have their own. */
const running = new WeakMap<Deps['egress'], Map<string, number>>()

function callsOf({ egress }: Deps): Map<string, number> {
  const known = running.get(egress) ?? new Map<string, number>()
  running.set(egress, known)
  return known
}

/**
 * How `x402_fetch` of one session reaches the internet; null where the operator has not allowed it. A call keeps its place until it
 * ends, so that who has paid is not refused the request with the payment.
 */
export function outsideOf(deps: Deps, token: string): Outside | null {
  if (!deps.config.mcpFetch) return null
  return async (use) => {
    const calls = callsOf(deps)
    const own = calls.get(token) ?? 0
    const all = [...calls.values()].reduce((sum, each) => sum + each, 0)
    if (own >= SESSION_CALLS_MAX || all >= PROCESS_CALLS_MAX) return null
    calls.set(token, own + 1)
    try {
      return await use(webOf(deps))
    } finally {
      const left = (calls.get(token) ?? 1) - 1
      if (left === 0) calls.delete(token)
      else calls.set(token, left)
    }
  }
}
