import { createHash, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { SignJWT } from 'jose'
import { type Answer, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { publishableKey } from '../../identity/sessions/sessions.fixture.ts'
import type { PublicJwk } from '../../platform/security/dpop/public-jwk.ts'
import { everything, expectStatus, type Holder, newHolder } from '../delegated.fixture.ts'

/** A delegate's key. */
export interface TestKey {
  alg: 'ES256' | 'Ed25519'
  jwk: PublicJwk
  privateKey: KeyObject
}

export function newTestKey(alg: TestKey['alg'] = 'ES256'): TestKey {
  const pair = alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519')
  return { alg, jwk: pair.publicKey.export({ format: 'jwk' }) as PublicJwk, privateKey: pair.privateKey }
}

export const hashed = (text: string | Buffer): string => createHash('sha256').update(text).digest('base64url')

/** What of a proof is not as it should be; undefined leaves a claim out. */
export interface Twist {
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
  key?: TestKey
}

/** What a proof is for. */
interface Proven {
  key: TestKey
  token: string
  method: string
  url: string
  body?: string | undefined
}

/** A proof as a delegate makes it (RFC 9449, section 4.2), apart from what is twisted. */
export function proofFor({ key, token, method, url, body }: Proven, twist: Twist = {}): Promise<string> {
  const claims = {
    jti: randomUUID(),
    htm: method,
    htu: url.replace(/[?#].*$/, ''),
    iat: Math.floor(Date.now() / 1000),
    ath: hashed(token),
    ...(body === undefined ? {} : { bodyHash: hashed(body) }),
    ...twist.claims,
  }
  const by = twist.key ?? key
  return new SignJWT(claims)
    .setProtectedHeader({ typ: 'dpop+jwt', alg: by.alg, jwk: by.jwk, ...twist.header } as never)
    .sign(by.privateKey)
}

/** How a call is sent. */
export interface Sending extends Twist {
  /** Below `/v1`, or another entrance. */
  base?: string
  /** Sent instead of a proof; null for no `DPoP` header. */
  proof?: string | null
  headers?: Record<string, string>
  /** Another process. */
  url?: string
  apiKey?: string
}

/** The calls of the delegate of a bound session. */
export interface BoundCalls {
  send(method: string, path: string, body?: object, how?: Sending): Promise<Answer>
  execute(body: object, how?: Sending): Promise<Answer>
  query(how?: Sending): Promise<Answer>
}

/** A session that is bound to a key, with the calls of its delegate. */
export interface BoundSession extends BoundCalls {
  id: string
  token: string
  key: TestKey
  apiKey: string
  tenant: Tenant
  holder: Holder
  made: Answer['body']['data']
}

/** The calls with the token, an API key, and proofs by the delegate's key. */
export function boundCalls(
  service: Pick<Service, 'url'>,
  { key, made, apiKey }: { key: TestKey; made: { id: string; token: string }; apiKey: string },
): BoundCalls {
  const { id, token } = made
  const send: BoundCalls['send'] = async (method, path, sent, how = {}) => {
    const url = `${how.url ?? service.url}${how.base ?? '/v1'}${path}`
    const raw = sent === undefined ? undefined : JSON.stringify(sent)
    const proof = how.proof === undefined ? await proofFor({ key, token, method, url, body: raw }, how) : how.proof
    const headers: Record<string, string> = { authorization: `DPoP ${token}`, ...how.headers }
    if (proof !== null) headers.dpop = proof
    const from = how.base === undefined ? (how.apiKey ?? apiKey) : null
    return call('', method, url, { key: from, headers, ...(raw === undefined ? {} : { raw }) })
  }
  return {
    send,
    execute: (body, how) => send('POST', `/delegated-sessions/${id}/execute`, body, how),
    query: (how) => send('POST', `/delegated-sessions/${id}/query`, {}, how),
  }
}

/** A session that is bound to a new key, of a new user of the tenant. */
export async function newBound(
  service: Pick<Service, 'url'>,
  tenant: Tenant,
  { key = newTestKey(), holder, ...more }: { key?: TestKey; holder?: Holder; [more: string]: unknown } = {},
): Promise<BoundSession> {
  const ada = holder ?? (await newHolder(tenant))
  const body = { policy: everything(), boundKey: key.jwk, ...more }
  const made = expectStatus(await tenant.post('/delegated-sessions', body, ada.asUser), 201)
  const apiKey = await publishableKey(tenant)
  const { id, token } = made
  return { id, token, key, apiKey, tenant, holder: ada, made, ...boundCalls(service, { key, made, apiKey }) }
}
