import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { expect } from 'vitest'
import { type Answer, type CallOptions, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { type Person, personOf, publishableKey } from '../sessions/sessions.fixture.ts'

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>
type Handler = (request: IncomingMessage, response: ServerResponse) => void

export const AUDIENCE = 'shop-web'
export const JWKS_PATH = '/jwks.json'
export const DISCOVERY_PATH = '/.well-known/openid-configuration'

/** What differs from a good token: claims, header, key. A claim that is undefined is left out. */
interface TokenParts {
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
  key?: KeyPair['privateKey'] | Uint8Array
}

/** A login of somebody else: signs tokens, and publishes its keys over HTTP. */
export interface TestIssuer {
  /** Its `iss`. */
  url: string
  /** The paths of all requests so far. */
  requests: string[]
  /** What it publishes; tests may change it. */
  keys: JWK[]
  /** Says in its metadata that it has another name. @returns the metadata's address */
  describedAs(name: string): string
  /** Answers requests for the keys in another way. */
  behave(handler: Handler): void
  /** Replaces its key by a new one, whose `kid` is returned. */
  rotate(): Promise<string>
  /** A token that is valid for five minutes, of a subject of its own unless one is given. */
  token(parts?: TokenParts): Promise<string>
  close(): Promise<void>
}

let names = 0
/** A name that no other test has. */
export const newSubject = (): string => `user-${++names}`

const json = (response: ServerResponse, value: object) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value))

/** Starts an issuer. `now`: its clock, which is the service's. */
export async function startIssuer(service: Service, alg = 'ES256'): Promise<TestIssuer> {
  const requests: string[] = []
  const keys: JWK[] = []
  let pair: KeyPair
  let kid = ''
  let name: string | undefined
  let handler: Handler = (_, response) => json(response, { keys })
  const server = createServer((request, response) => {
    requests.push(request.url ?? '')
    if (request.url === DISCOVERY_PATH)
      json(response, { issuer: name ?? issuer.url, jwks_uri: `${issuer.url}${JWKS_PATH}` })
    else handler(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer: TestIssuer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    keys,
    describedAs(other) {
      name = other
      return `${issuer.url}${DISCOVERY_PATH}`
    },
    behave(next) {
      handler = next
    },
    async rotate() {
      pair = await generateKeyPair(alg, { extractable: true })
      kid = newSubject()
      keys.splice(0, keys.length, { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' })
      return kid
    },
    async token({ claims = {}, header = {}, key = pair.privateKey } = {}) {
      const now = Math.floor(service.deps.now().getTime() / 1000)
      const all = { iss: issuer.url, aud: AUDIENCE, sub: newSubject(), iat: now, exp: now + 300, ...claims }
      return new SignJWT(all).setProtectedHeader({ alg, kid, ...header }).sign(key)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  await issuer.rotate()
  return issuer
}

/** Makes an app trust an issuer. @returns the record's id */
export async function trust(tenant: Tenant, issuer: TestIssuer, settings: object = {}): Promise<string> {
  const body = { issuer: issuer.url, jwksUri: `${issuer.url}${JWKS_PATH}`, audiences: [AUDIENCE], ...settings }
  const answer = await tenant.post(`/apps/${tenant.appId}/issuers`, body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data.id
}

const JWT = 'urn:ietf:params:oauth:token-type:jwt'

/** The body of an exchange. */
export const exchangeBody = (token: string, more: object = {}) => ({
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token: token,
  subject_token_type: JWT,
  ...more,
})

/** The body of a link. */
export const linkBody = (token: string) => ({ subject_token: token, subject_token_type: JWT })

/** Exchanges a token, as a browser does. */
export async function exchange(
  service: Pick<Service, 'url'>,
  tenant: Tenant,
  token: string,
  options: CallOptions = {},
): Promise<Answer> {
  const key = await publishableKey(tenant)
  return call(service.url, 'POST', '/v1/auth/token/exchange', { key, body: exchangeBody(token), ...options })
}

/** A session of the issuer's user: weak as soon as their account has something stronger. */
export async function weakSession(
  service: Service,
  tenant: Tenant,
  issuer: TestIssuer,
  sub = newSubject(),
  claims: object = {},
): Promise<Person> {
  const answer = await exchange(service, tenant, await issuer.token({ claims: { sub, ...claims } }))
  expect(answer.status, answer.text).toBe(200)
  const { data } = answer.body
  const who = { userId: data.user.id, appId: tenant.appId }
  return personOf(service.url, await publishableKey(tenant), who, data)
}

/** Why a token was refused; its status and code where it was not for a token. */
export const refusalOf = ({ status, body }: Answer): string =>
  body.code === 'token_invalid' && status === 401 ? body.details[0].code : `${status} ${body.code ?? ''}`.trim()
