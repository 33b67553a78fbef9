import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { Send } from './http.ts'
import type { CantonSettings } from './settings.ts'

/** How long before its end a token is replaced. */
const MARGIN_MS = 30_000
const LIFETIME_DEFAULT_S = 300

const TokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number().positive().optional() })

/** A participant's access token. */
export interface TokenSource {
  /** Null where the participant asks for none. @throws Error if there is none to be had */
  get(): Promise<string | null>
  /** Says that the participant refused this token. The next `get` brings another one, if there is any. */
  refused(token: string): void
}

type ClientCredentials = Extract<CantonSettings['auth'], { type: 'client_credentials' }>

async function requestToken(send: Send, auth: ClientCredentials): Promise<{ token: string; lifetimeMs: number }> {
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: auth.clientId,
    client_secret: (await readFile(auth.clientSecretFile, 'utf8')).trim(),
    ...(auth.audience === undefined ? {} : { audience: auth.audience }),
    ...(auth.scope === undefined ? {} : { scope: auth.scope }),
  })
  const { status, body } = await send({
    method: 'POST',
    url: auth.tokenUrl,
    headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    body: form.toString(),
  })
  if (status !== 200) throw new Error(`the token endpoint answered ${status}`)
  const { access_token: token, expires_in: seconds } = TokenAnswer.parse(JSON.parse(body))
  return { token, lifetimeMs: (seconds ?? LIFETIME_DEFAULT_S) * 1_000 }
}

/** Requests a token once for all that wait for it (RFC 6749, section 4.4). */
function renewed(send: Send, auth: ClientCredentials): TokenSource {
  let held: { token: string; untilMs: number } | null = null
  let coming: Promise<string> | null = null
  const renew = async () => {
    const { token, lifetimeMs } = await requestToken(send, auth)
    // A lifetime shorter than twice the margin is used for its first half.
    held = { token, untilMs: performance.now() + Math.max(lifetimeMs - MARGIN_MS, lifetimeMs / 2) }
    return token
  }
  return {
    async get() {
      if (held !== null && performance.now() < held.untilMs) return held.token
      coming ??= renew().finally(() => {
        coming = null
      })
      return coming
    },
    refused(token) {
      if (held?.token === token) held = null
    },
  }
}

/** The tokens that the settings describe. A file is read for each request, so that it can be replaced at any time. */
export function createTokens(send: Send, { auth }: CantonSettings): TokenSource {
  if (auth.type === 'client_credentials') return renewed(send, auth)
  return {
    get: async () => (auth.type === 'none' ? null : (await readFile(auth.file, 'utf8')).trim()),
    refused: () => {},
  }
}
