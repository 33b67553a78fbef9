import { createHash, randomBytes } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'vitest'
import { type Answer, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import { publicUrl } from '../../platform/config.ts'
import { expectStatus, type SignedIn, signedIn, transfers } from '../delegated.fixture.ts'

/** A web server with the metadata documents of agents' clients. */
export interface Clients {
  /** The client id of a document, which says this instead of what a good one says. */
  publish(more?: object): string
  /** The client id of what a handler answers. */
  answer(handler: RequestListener): string
  /** How often a client's document was asked for. */
  asked(clientId: string): number
  stop(): void
}

export const REDIRECT = 'https://agent.example.com/callback?from=halfkey'

/** Starts it, on loopback. */
export async function startClients(): Promise<Clients> {
  const handlers = new Map<string, RequestListener>()
  const counts = new Map<string, number>()
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    counts.set(path, (counts.get(path) ?? 0) + 1)
    const handler = handlers.get(path)
    if (handler === undefined) response.writeHead(404).end()
    else handler(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const add = (make: (clientId: string) => RequestListener) => {
    const path = `/${randomBytes(6).toString('hex')}/client.json`
    handlers.set(path, make(url + path))
    return url + path
  }
  return {
    publish: (more = {}) =>
      add((clientId) => (_, response) => {
        const document = { client_id: clientId, client_name: 'Shopping agent', redirect_uris: [REDIRECT], ...more }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document))
      }),
    answer: (handler) => add(() => handler),
    asked: (clientId) => counts.get(new URL(clientId).pathname) ?? 0,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Ada, whose wallet has 100 USDX, in an app that connects agents, and a client that wants to. */
export interface Scene {
  service: Service
  tenant: Tenant
  ada: SignedIn
  clientId: string
  verifier: string
  /** The authorization server, and what its tokens are for. */
  issuer: string
  resource: string
}

export async function begin(service: Service, clients: Clients): Promise<Scene> {
  const tenant = await service.newTenant()
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { agents: { connect: true } }), 200)
  const ada = await signedIn(service, tenant)
  await ada.receive('100')
  return connectable(service, clients, { tenant, ada })
}

/** The same for somebody who is there. */
export function connectable(service: Service, clients: Clients, who: Pick<Scene, 'tenant' | 'ada'>): Scene {
  const { tenant } = who
  const url = publicUrl(service.deps.config)
  return {
    service,
    ...who,
    clientId: clients.publish(),
    verifier: randomBytes(32).toString('base64url'),
    issuer: `${url}/oauth/${tenant.appId}`,
    resource: `${url}/mcp/${tenant.appId}`,
  }
}

/** Up to 10 USDX, for a day. */
export const details = ({ ada }: Pick<Scene, 'ada'>, amount = '10', more: object = {}) => [
  { type: 'halfkey_delegated_session', policy: transfers(ada, amount), expiresInSeconds: 86_400, ...more },
]

/** The parameters of a good request; null takes one out. */
export function parameters(scene: Scene, change: Record<string, string | null> = {}): URLSearchParams {
  const all: Record<string, string | null> = {
    response_type: 'code',
    client_id: scene.clientId,
    redirect_uri: REDIRECT,
    state: 'a state/with?all&kinds=of#text',
    code_challenge: createHash('sha256').update(scene.verifier).digest('base64url'),
    code_challenge_method: 'S256',
    resource: scene.resource,
    authorization_details: JSON.stringify(details(scene)),
    ...change,
  }
  return new URLSearchParams(Object.entries(all).filter((one): one is [string, string] => one[1] !== null))
}

/** Asks for authorization, as a browser that a client sends. */
export const authorize = (scene: Scene, change?: Record<string, string | null>): Promise<Answer> =>
  call(scene.service.url, 'GET', `/oauth/${scene.tenant.appId}/authorize?${parameters(scene, change)}`)

/** The id of a stored request. */
export async function request(scene: Scene, change?: Record<string, string | null>): Promise<string> {
  const answer = await authorize(scene, change)
  expect(answer.status, answer.text).toBe(302)
  const page = new URL(answer.headers.get('location') ?? '')
  expect([page.pathname, page.searchParams.get('app')]).toEqual(['/signin', scene.tenant.appId])
  return page.searchParams.get('connect') ?? ''
}

/** Calls as the hosted page does, for Ada if nobody else is named. */
export function page(
  { service, tenant, ada }: Scene,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return call(service.url, method, `/signin/api/agent-requests/${path}`, {
    ...(body === undefined ? {} : { body }),
    headers: { 'x-halfkey-app': tenant.appId, ...ada.person.bearer, ...headers },
  })
}

/** What Ada allows: what was asked for. */
export const allowed = ({ ada }: Scene, amount: string | null = '10', more: object = {}) => ({
  spend: [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount }],
  recipients: null,
  expiresInSeconds: 86_400,
  ...more,
})

/** Confirms a request. @returns the client's redirect with the code */
export async function confirmed(scene: Scene, body?: object, change?: Record<string, string | null>): Promise<URL> {
  const answer = await page(scene, 'POST', `${await request(scene, change)}/connect`, body ?? allowed(scene))
  return new URL(expectStatus(answer, 200).redirectTo)
}

export const codeOf = async (scene: Scene, body?: object, change?: Record<string, string | null>): Promise<string> =>
  (await confirmed(scene, body, change)).searchParams.get('code') ?? ''

const form =
  (endpoint: string) =>
  (
    { service, tenant }: Pick<Scene, 'service' | 'tenant'>,
    given: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Answer> =>
    call(service.url, 'POST', `/oauth/${tenant.appId}/${endpoint}`, {
      raw: new URLSearchParams(given).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })

/** Calls the token endpoint of an app. */
export const token = form('token')

/** Calls the revocation endpoint of an app. */
export const revocation = form('revoke')

/** The parameters of a good exchange. */
export const exchangeOf = (scene: Scene, code: string): Record<string, string> => ({
  grant_type: 'authorization_code',
  code,
  client_id: scene.clientId,
  redirect_uri: REDIRECT,
  code_verifier: scene.verifier,
  resource: scene.resource,
})

export const refreshOf = (scene: Scene, refreshToken: string): Record<string, string> => ({
  grant_type: 'refresh_token',
  refresh_token: refreshToken,
  client_id: scene.clientId,
  resource: scene.resource,
})

/** What a client has once it is connected. */
export interface ConnectedAgent {
  access: string
  refresh: string
  sessionId: string
}

export const tokensOf = (answer: Answer): ConnectedAgent => {
  expect(answer.status, answer.text).toBe(200)
  const { access_token: access, refresh_token: refresh, authorization_details: granted } = answer.body
  return { access, refresh, sessionId: granted[0].delegatedSessionId }
}

/** Connects a client. */
export async function connected(scene: Scene, body?: object): Promise<ConnectedAgent> {
  return tokensOf(await token(scene, exchangeOf(scene, await codeOf(scene, body))))
}

/** The status of a request to the app's `/mcp`, which lists the tools. */
export const atMcp = (scene: Pick<Scene, 'service' | 'tenant'>, bearer: string | null, appId = scene.tenant.appId) =>
  call(scene.service.url, 'POST', `/mcp/${appId}`, {
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
    },
    headers: {
      accept: 'application/json, text/event-stream',
      ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
    },
  })

export const statusOf = async ({ tenant }: Scene, sessionId: string): Promise<string> =>
  expectStatus(await tenant.get(`/delegated-sessions/${sessionId}`), 200).status
