import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Provider, { type ClientMetadata, type Configuration } from 'oidc-provider'

/** A person with an account at the provider. */
interface Person {
  sub: string
  email?: string
  email_verified?: boolean
  name?: string
}

/** A real OpenID Connect provider, on loopback. */
export interface OidcProvider {
  issuer: string
  /** Makes it known as which client somebody asks, and where it may return to. */
  register(client: ClientMetadata): Promise<void>
  /** Who is at the browser from now on: whoever is sent here signs in as this person at once. Null: they refuse. */
  person: Person | null
  close(): Promise<void>
}

const HOUR = 3_600
/** Said, or the library asks for it on the console. */
const TTL = { AccessToken: HOUR, AuthorizationCode: 60, Grant: HOUR, IdToken: HOUR, Interaction: HOUR, Session: HOUR }

/** Starts `oidc-provider`. Nobody is asked anything: a test says who signs in. */
export async function startOidcProvider(settings: Partial<Configuration> = {}): Promise<OidcProvider> {
  let answer: ReturnType<Provider['callback']> | undefined
  let provider: Provider | undefined
  const server = createServer(async (request, response) => {
    if (provider === undefined || answer === undefined) {
      response.writeHead(503).end()
      return
    }
    if (!request.url?.startsWith('/interaction/')) {
      answer(request, response)
      return
    }
    const result = started.person === null ? { error: 'access_denied' } : { login: { accountId: started.person.sub } }
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const pair = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(pair.privateKey)), kid: 'one', alg: 'RS256', use: 'sig' as const }
  const clients: ClientMetadata[] = []
  const people = new Map<string, Person>()
  const started: OidcProvider = {
    issuer,
    person: null,
    async register(client) {
      clients.push(client)
      provider = new Provider(issuer, {
        clients,
        ttl: TTL,
        jwks: { keys: [key] },
        cookies: { keys: ['a key of the test'] },
        claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, { uid }) => `/interaction/${uid}` },
        async findAccount(_, sub) {
          if (started.person?.sub === sub) people.set(sub, started.person)
          return { accountId: sub, claims: async () => ({ ...people.get(sub), sub }) }
        },
        // Consent is given: it is the provider's business with its people.
        async loadExistingGrant({ oidc }) {
          const grant = new oidc.provider.Grant({
            ...(oidc.client === undefined ? {} : { clientId: oidc.client.clientId }),
            ...(oidc.session?.accountId === undefined ? {} : { accountId: oidc.session.accountId }),
          })
          grant.addOIDCScope('openid email profile')
          await grant.save()
          return grant
        },
        ...settings,
      })
      answer = provider.callback()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return started
}
