// A client of the MCP's own SDK that its user connects by OAuth, from the first refused request to a payment.
import {
  Client,
  type OAuthClientProvider,
  type OAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  allowed,
  begin,
  type Clients,
  details,
  page,
  REDIRECT,
  type Scene,
  startClients,
  statusOf,
} from '../../server/src/delegation/connect/connect.fixture.ts'
import { expectStatus } from '../../server/src/delegation/delegated.fixture.ts'
import { call, type Service, startService } from '../../server/test/harness/harness.ts'
import { callsOf, completed, pay } from './agent.fixture.ts'

let service: Service
let clients: Clients
beforeAll(async () => {
  ;[service, clients] = await Promise.all([startService(), startClients()])
})
afterAll(async () => {
  clients.stop()
  await service.stop()
})

const MINUTE_MS = 60_000

/** What a program that uses the SDK writes: it keeps what it is given, and opens a browser. */
class Keeper implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT
  readonly clientMetadata = { redirect_uris: [REDIRECT], client_name: 'Shopping agent' }
  readonly #scene: Scene
  /** Where the browser was sent. */
  opened: URL | null = null
  kept: OAuthTokens | undefined
  #verifier = ''
  // biome-ignore lint/suspicious/noExplicitAny: what the SDK discovered is kept as it is
  #discovered: any

  constructor(scene: Scene) {
    this.#scene = scene
  }
  state = () => 'abc'
  clientInformation = () => ({ client_id: this.#scene.clientId })
  tokens = () => this.kept
  saveTokens(tokens: OAuthTokens) {
    this.kept = tokens
  }
  redirectToAuthorization(url: URL) {
    // RFC 9396: the SDK has no place for it.
    url.searchParams.set('authorization_details', JSON.stringify(details(this.#scene)))
    this.opened = url
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier
  }
  codeVerifier = () => this.#verifier
  discoveryState = () => this.#discovered
  invalidateCredentials(what: string) {
    if (what === 'all' || what === 'tokens') this.kept = undefined
  }
  saveDiscoveryState(state: unknown) {
    this.#discovered = state
  }
}

/** The user, in the browser that the client opened: signs in, lowers the amount, and confirms. */
async function confirm(scene: Scene, opened: URL, amount: string): Promise<URLSearchParams> {
  const asked = await call(service.url, 'GET', opened.pathname + opened.search)
  const id = new URL(asked.headers.get('location') ?? '').searchParams.get('connect')
  const { redirectTo } = expectStatus(await page(scene, 'POST', `${id}/connect`, allowed(scene, amount)), 200)
  return new URL(redirectTo).searchParams
}

/** The address that the user gives the client. It has the name by which the service calls itself. */
const transportOf = ({ resource }: Scene, keeper: Keeper) =>
  new StreamableHTTPClientTransport(new URL(resource), { authProvider: keeper })

async function open(scene: Scene, keeper: Keeper) {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(transportOf(scene, keeper))
  onTestFinished(() => client.close())
  return callsOf(client)
}

test('a client is refused, sends its user to confirm, pays within what they allowed, renews its tokens, and is disconnected', async () => {
  const scene = await begin(service, clients)
  const keeper = new Keeper(scene)
  const first = transportOf(scene, keeper)
  const refused = new Client({ name: 'test', version: '1' })
  await expect(refused.connect(first)).rejects.toThrow(UnauthorizedError)
  expect(keeper.opened?.href.startsWith(`${scene.issuer}/authorize?`)).toBe(true)
  await first.finishAuth(await confirm(scene, keeper.opened as URL, '5'))
  const { call: tool } = await open(scene, keeper)
  expect((await tool('wallet_status')).data.remaining.spend).toMatchObject([{ limit: '5' }])
  expect((await tool('payment_send', pay('3'))).data).toMatchObject({ paid: true })
  expect((await tool('payment_send', pay('3', { reference: '2' }))).data.refusal).toMatchObject({ remaining: '2' })
  const before = keeper.kept?.refresh_token
  service.advance(16 * MINUTE_MS)
  // Several calls find their token expired at once, and each renews it.
  const paid = await Promise.all(['a', 'b'].map((reference) => tool('payment_send', pay('1', { reference }))))
  expect(paid.map(({ data }) => data.paid)).toEqual([true, true])
  expect(keeper.kept?.refresh_token).not.toBe(before)
  expect(await completed(scene.tenant)).toBe(3)
  const { body } = await scene.tenant.get('/delegated-sessions')
  expect(body.data).toHaveLength(1)
  const { id } = body.data[0]
  expectStatus(await scene.tenant.delete(`/delegated-sessions/${id}`), 200)
  expect(await statusOf(scene, id)).toBe('revoked')
  keeper.opened = null
  await expect(tool('wallet_status')).rejects.toThrow(UnauthorizedError)
  // The client asks its user again.
  expect(keeper.opened).not.toBeNull()
})

test('an answer that is not from this authorization server is not taken (RFC 9207)', async () => {
  const [scene, other] = await Promise.all([begin(service, clients), begin(service, clients)])
  const keeper = new Keeper(scene)
  const transport = transportOf(scene, keeper)
  await expect(new Client({ name: 'test', version: '1' }).connect(transport)).rejects.toThrow(UnauthorizedError)
  const answer = await confirm(scene, keeper.opened as URL, '5')
  answer.set('iss', other.issuer)
  await expect(transport.finishAuth(answer)).rejects.toThrow(/issuer/i)
})
