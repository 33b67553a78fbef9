import { z } from 'zod'
import { publicUrl } from '../../config.ts'
import { sql } from '../../db/db.ts'
import type { Deps } from '../../deps.ts'
import { equalSecrets, hmacSha256Bytes } from '../crypto.ts'
import { readJoined } from '../records/access.ts'
import { recordColumns } from '../records/kind.ts'
import { USER_RECORD } from '../records/user-record.ts'
import { USER_SESSION_RECORD } from '../records/user-session-record.ts'
import type { SigningKey } from '../signing-keys.ts'
import { shownMethods } from './shown-methods.ts'

/*
 * Access tokens that wait for the signature of a module. Whoever holds the secret of refresh tokens can write such a text, too: so
 * the module signs only what the session in the database says.
 */

/** The longest that an app may let an access token live. */
const LIFETIME_SECONDS_MAX = 3_600
/** How long after it was made a token may be signed: an answer may wait, and be repeated. */
const AGE_SECONDS_MAX = 120
/** By how much the clocks of two processes may differ. */
const LEEWAY_SECONDS = 5

const PREFIX = 'hk_unsigned_'
const FORM = /^hk_unsigned_([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{1,3000})\.([A-Za-z0-9_-]{43})$/

/** Every claim of an access token, and no other. Each has a session. */
const Claims = z.strictObject({
  iss: z.string(),
  sub: z.string(),
  aud: z.string(),
  client_id: z.string(),
  iat: z.int(),
  exp: z.int(),
  jti: z.uuid(),
  tid: z.string(),
  sid: z.string(),
  amr: z.array(z.string()),
  auth_time: z.int(),
  ends: z.int().optional(),
})
type Claims = z.infer<typeof Claims>

const tagOf = ({ refreshKey }: SigningKey, payload: string) =>
  hmacSha256Bytes(refreshKey, `halfkey/v1/unsigned-access-token ${payload}`)

const seconds = (date: Date) => Math.floor(date.getTime() / 1000)

/** The text that stands for a token until it is signed. @param payload its claims, in base64url */
export const unsignedText = (key: SigningKey, payload: string): string =>
  `${PREFIX}${key.id}.${payload}.${tagOf(key, payload).toString('base64url')}`

/** An answer whose field for the access token holds such a text. Null for every other, whatever is written elsewhere in it. */
export function unsignedAnswer(body: string): { data: { accessToken: string } } | null {
  if (!body.includes(PREFIX)) return null
  const answer = JSON.parse(body) as { data?: { accessToken?: unknown } | null }
  const text = answer.data?.accessToken
  if (typeof text !== 'string' || !text.startsWith(PREFIX)) return null
  return answer as { data: { accessToken: string } }
}

/** The server logs the reason and answers internal_error. */
const refuse = (reason: string): never => {
  throw new Error(`An access token was not signed: ${reason}.`)
}

function claimsIn(payload: string): Claims {
  const text = Buffer.from(payload, 'base64url').toString()
  const read = Claims.safeParse(JSON.parse(text))
  if (!read.success) return refuse('it has other claims than an access token')
  // A claim that stands there twice could mean one thing here and another to the verifier of the token.
  if (JSON.stringify(JSON.parse(text)) !== text) return refuse('it is not written as Halfkey writes')
  return read.data
}

/** What a token is compared with. */
interface NamedSession {
  user_id: string
  app_id: string
  amr: string[]
  weak: boolean
  mfa_at: Date | null
  passkey_at: Date | null
  signed_in_at: Date
  ends_at: Date | null
}

/** Whether the session that the token names has just these owner and ways in, and has not ended. */
async function isOfSession(deps: Deps, claims: Claims, now: Date): Promise<boolean> {
  const row = await readJoined<NamedSession>(
    deps.db,
    [USER_SESSION_RECORD, USER_RECORD],
    sql`
    select s.user_id, s.app_id, s.amr, s.weak, s.mfa_at, s.passkey_at, s.signed_in_at, s.ends_at, ${recordColumns(USER_SESSION_RECORD, 's')},
      ${recordColumns(USER_RECORD, 'u')}
    from sessions s join users u on u.tenant_id = s.tenant_id and u.id = s.user_id
    where s.tenant_id = ${claims.tid} and s.id = ${claims.sid} and s.revoked_at is null and s.expires_at > ${now}
      and u.status = 'active'`,
  )
  if (row === undefined) return false
  const methods = shownMethods(row)
  return (
    row.user_id === claims.sub &&
    row.app_id === claims.aud &&
    row.app_id === claims.client_id &&
    // What the session has shown since is no reason against a token from before.
    claims.amr.every((method) => methods.includes(method)) &&
    claims.auth_time <= seconds(row.signed_in_at) &&
    (row.ends_at === null || claims.ends === seconds(row.ends_at))
  )
}

/**
 * The claims, in base64url, that a module may sign for this text: those of a session that exists, made just now.
 * @throws Error if it is any other text
 */
export async function claimsToSign(deps: Deps, key: SigningKey, text: string): Promise<string> {
  const [, keyId, payload = '', tag = ''] = FORM.exec(text) ?? []
  // Not by a key from before: its secret may have been in a copy that was made then.
  if (!key.isRemote || key.id !== keyId) return refuse('it waits for another key than the one that signs')
  if (!equalSecrets(tagOf(key, payload), Buffer.from(tag, 'base64url'))) return refuse('its tag is not genuine')
  const claims = claimsIn(payload)
  const now = deps.now()
  const age = seconds(now) - claims.iat
  if (claims.iss !== publicUrl(deps.config)) return refuse('it names another issuer')
  if (age < -LEEWAY_SECONDS || age > AGE_SECONDS_MAX) return refuse('it was not made just now')
  if (claims.exp - claims.iat > LIFETIME_SECONDS_MAX) return refuse('it would live too long')
  if (!(await isOfSession(deps, claims, now))) return refuse('its session does not say the same, or has ended')
  return payload
}
