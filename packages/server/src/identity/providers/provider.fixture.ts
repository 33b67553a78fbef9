import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { expect } from 'vitest'
import { type Answer, type CallOptions, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { publishableKey } from '../sessions/sessions.fixture.ts'

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>

/** What a request to a fake provider carried. */
interface Asked {
  method: string
  path: string
  headers: IncomingMessage['headers']
  query: URLSearchParams
  form: URLSearchParams
}

type Reply = { status?: number; json?: unknown; body?: string; headers?: Record<string, string> }
type Handler = (asked: Asked) => Reply | Promise<Reply>

/** What differs from a good ID token. A claim that is undefined is left out. */
export interface TokenParts {
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
  key?: KeyPair['privateKey'] | Uint8Array
}

/** A provider that says whatever a test wants. */
export interface FakeProvider {
  issuer: string
  asked: Asked[]
  keys: JWK[]
  /** What paths answer; tests may replace it. */
  paths: Record<string, Handler>
  /** An ID token of its own. */
  idToken(parts?: TokenParts): Promise<string>
  close(): Promise<void>
}

export const CLIENT_ID = 'shop-web'
export const REDIRECT = 'https://shop.example.com/signed-in'

let names = 0
/** A subject that no other test has. */
export const newSubject = (): string => `person-${++names}`

async function read(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString()
}

function send(response: ServerResponse, { status = 200, json, body, headers = {} }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body ?? JSON.stringify(json ?? {}))
}

/** Starts a provider that follows OpenID Connect until a test changes it. */
export async function startFakeProvider(service: Service): Promise<FakeProvider> {
  const pair = await generateKeyPair('RS256', { extractable: true })
  const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }]
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://x')
    const asked = {
      method: request.method ?? '',
      path: url.pathname,
      headers: request.headers,
      query: url.searchParams,
      form: new URLSearchParams(await read(request)),
    }
    fake.asked.push(asked)
    const handler = fake.paths[url.pathname]
    send(response, handler === undefined ? { status: 404 } : await handler(asked))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const fake: FakeProvider = {
    issuer,
    asked: [],
    keys,
    paths: {
      '/.well-known/openid-configuration': () => ({
        json: {
          issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          jwks_uri: `${issuer}/jwks`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256'],
          authorization_response_iss_parameter_supported: true,
        },
      }),
      '/jwks': () => ({ json: { keys } }),
    },
    async idToken({ claims = {}, header = {}, key = pair.privateKey } = {}) {
      const now = Math.floor(service.deps.now().getTime() / 1000)
      const all = { iss: issuer, aud: CLIENT_ID, sub: newSubject(), iat: now, exp: now + 300, ...claims }
      return new SignJWT(all).setProtectedHeader({ alg: 'RS256', kid: 'one', ...header }).sign(key)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return fake
}

/** Lets the token endpoint answer with an ID token, made for the nonce of the flow. */
export function answering(fake: FakeProvider, make: () => Promise<string>): void {
  fake.paths['/token'] = async () => ({
    json: { access_token: 'opaque', token_type: 'Bearer', expires_in: 60, id_token: await make() },
  })
}

/** Adds a provider to the tenant's app, which returns to `REDIRECT`. @returns the record */
// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
export async function addProvider(tenant: Tenant, issuer: string, settings: object = {}): Promise<any> {
  const app = await tenant.patch(`/apps/${tenant.appId}`, { allowedRedirectUrls: [REDIRECT] })
  expect(app.status, app.text).toBe(200)
  const body = { preset: 'oidc', issuer, clientId: CLIENT_ID, clientSecret: 'a secret of the client', ...settings }
  const answer = await tenant.post(`/apps/${tenant.appId}/providers`, body)
  expect(answer.status, answer.text).toBe(201)
  return answer.body.data
}

/** What a page keeps of a code that it asks for. */
export interface Pkce {
  codeVerifier: string
  codeChallenge: string
}

export function newPkce(): Pkce {
  const codeVerifier = randomBytes(32).toString('base64url')
  return { codeVerifier, codeChallenge: createHash('sha256').update(codeVerifier).digest('base64url') }
}

/** A browser as far as it matters here: cookies of each host, and redirects one by one. */
export interface Browser {
  cookies: Map<string, Map<string, string>>
  visit(
    url: string,
    init?: { method?: string; body?: string },
  ): Promise<{ status: number; location: string; text: string; headers: Headers }>
  /** Follows redirects until one leads to a place that nobody serves. @returns its URL */
  follow(url: string, until?: string): Promise<URL>
}

const VISITS_MAX = 15

export function newBrowser(): Browser {
  const cookies: Browser['cookies'] = new Map()
  const browser: Browser = {
    cookies,
    async visit(url, { method = 'GET', body } = {}) {
      const { host } = new URL(url)
      const jar = cookies.get(host) ?? new Map<string, string>()
      cookies.set(host, jar)
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const response = await fetch(url, {
        method,
        redirect: 'manual',
        headers: {
          ...(cookie === '' ? {} : { cookie }),
          ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
        },
        ...(body === undefined ? {} : { body }),
      })
      for (const set of response.headers.getSetCookie()) {
        const [pair = ''] = set.split(';')
        const at = pair.indexOf('=')
        if (/max-age=0|expires=thu, 01 jan 1970/i.test(set)) jar.delete(pair.slice(0, at))
        else jar.set(pair.slice(0, at), pair.slice(at + 1))
      }
      const location = response.headers.get('location') ?? ''
      return {
        status: response.status,
        location: location === '' ? '' : new URL(location, url).href,
        text: await response.text(),
        headers: response.headers,
      }
    },
    async follow(url, until = REDIRECT) {
      let at = url
      for (let visits = 0; visits < VISITS_MAX; visits += 1) {
        const { status, location, text } = await browser.visit(at)
        if (location === '') throw new Error(`${at} answered ${status} without a redirect: ${text.slice(0, 400)}`)
        if (location.startsWith(until)) return new URL(location)
        at = location
      }
      throw new Error(`too many redirects, the last to ${at}`)
    },
  }
  return browser
}

/** A page of the app's, which signs in with a provider. */
export interface ProviderApp {
  tenant: Tenant
  key: string
  id: string
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
  record: any
  start(pkce: Pkce, more?: object, options?: CallOptions): Promise<Answer>
  exchange(code: string | null, pkce: Pkce): Promise<Answer>
  /** Goes as far as the provider. @returns the query that it was sent there with */
  begin(browser: Browser, pkce: Pkce, more?: object, options?: CallOptions): Promise<URLSearchParams>
  /** Comes back from a fake provider with a code, or what a test sends instead. */
  comeBack(
    browser: Browser,
    sent: URLSearchParams,
    query?: Record<string, string | undefined>,
  ): ReturnType<Browser['visit']>
}

/** A new tenant whose app has a provider. */
export async function newProviderApp(service: Service, issuer: string, settings: object = {}): Promise<ProviderApp> {
  const tenant = await service.newTenant()
  const record = await addProvider(tenant, issuer, settings)
  const key = await publishableKey(tenant)
  const app: ProviderApp = {
    tenant,
    key,
    id: record.id,
    record,
    start: ({ codeChallenge }, more = {}, options = {}) =>
      call(service.url, 'POST', `/v1/auth/providers/${record.id}/start`, {
        key,
        body: { redirectUrl: REDIRECT, codeChallenge, state: 'app state', ...more },
        ...options,
      }),
    exchange: (code, { codeVerifier }) =>
      call(service.url, 'POST', '/v1/auth/exchange', { key, body: { code, codeVerifier, redirectUri: REDIRECT } }),
    async begin(browser, pkce, more, options) {
      const started = await app.start(pkce, more, options)
      expect(started.status, started.text).toBe(200)
      const { status, location, text } = await browser.visit(started.body.data.authorizationUrl)
      expect(status, text).toBe(303)
      return new URL(location).searchParams
    },
    async comeBack(browser, sent, query = {}) {
      const all = { code: 'a code', state: sent.get('state') ?? undefined, iss: issuer, ...query }
      const given = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined)
      return browser.visit(`${record.callbackUrl}?${new URLSearchParams(given)}`)
    },
  }
  return app
}

/** Signs in with a fake provider as one of its people. @returns the result of the sign-in */
export async function signInBy(fake: FakeProvider, app: ProviderApp, claims: object = {}): Promise<Answer> {
  const browser = newBrowser()
  const pkce = newPkce()
  const sent = await app.begin(browser, pkce)
  answering(fake, () => fake.idToken({ claims: { nonce: sent.get('nonce'), ...claims } }))
  const { location } = await app.comeBack(browser, sent)
  return app.exchange(new URL(location).searchParams.get('code'), pkce)
}
