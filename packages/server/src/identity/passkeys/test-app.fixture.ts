import { ORIGIN } from '../../../test/harness/authenticator.ts'
import type { Answer, Service, Tenant } from '../../../test/harness/harness.ts'

/** A tenant's app as a page on loopback sees it, by its publishable key. */
export interface TestApp {
  tenant: Tenant
  /** For the helpers that speak both ceremonies whole. */
  browser: { url: string; key: string }
  /** A browser's call. */
  send(method: string, path: string, body?: object, headers?: Record<string, string>): Promise<Answer>
  /** Asks for registration options, and takes them for granted. */
  // biome-ignore lint/suspicious/noExplicitAny: options as they came over the wire
  askToRegister(body?: object, headers?: Record<string, string>): Promise<any>
  /** Answers a registration challenge. */
  register(challengeId: string, credential: unknown, headers?: Record<string, string>): Promise<Answer>
  /** How many rows the tenant has. */
  count(table: 'users' | 'passkeys' | 'sessions'): Promise<number>
  /** The tenant's events of users and passkeys, in order. */
  // biome-ignore lint/suspicious/noExplicitAny: looked into by path
  events(): Promise<any[]>
}

/** A new tenant's. */
export async function newTestApp(service: Service): Promise<TestApp> {
  const tenant = await service.newTenant()
  const key = await tenant.newKey({ publishable: true })
  const send: TestApp['send'] = (method, path, body, headers = {}) =>
    tenant.call(method, path, { key, headers: { origin: ORIGIN, ...headers }, ...(body === undefined ? {} : { body }) })
  return {
    tenant,
    browser: { url: service.url, key },
    send,
    async askToRegister(body = {}, headers = {}) {
      const answer = await send('POST', '/auth/passkey/register-options', body, headers)
      if (answer.status !== 200) throw new Error(answer.text)
      return answer.body.data
    },
    register: (challengeId, credential, headers) =>
      send('POST', '/auth/passkey/register-verify', { challengeId, credential }, headers),
    async count(table) {
      const rows = await service.sql<{ n: number }>(`select count(*)::int as n from ${table} where tenant_id = $1`, [
        tenant.tenantId,
      ])
      return rows[0]?.n as number
    },
    async events() {
      const rows = await service.sql<{ body: string }>(
        `select body from events where tenant_id = $1 and type ~ '^(user|passkey)\\.' order by id`,
        [tenant.tenantId],
      )
      return rows.map(({ body }) => JSON.parse(body))
    },
  }
}

/** The header of a session. */
export const bearer = (tokens: { accessToken: string }) => ({ authorization: `Bearer ${tokens.accessToken}` })
