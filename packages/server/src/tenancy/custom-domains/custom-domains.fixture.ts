import { type DnsServer, startDnsServer } from '../../../test/harness/dns-server.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newDomainName } from '../../../test/matrix/requests.ts'

/** A service and the name server that it asks. */
export interface Stage {
  service: Service
  dns: DnsServer
  stop(): Promise<void>
}

/** Starts both. */
export async function startStage(settings: Record<string, string> = {}): Promise<Stage> {
  const dns = await startDnsServer()
  const service = await startService({ HALFKEY_DNS_SERVERS: dns.address, ...settings })
  return {
    service,
    dns,
    async stop() {
      await service.stop()
      await dns.close()
    },
  }
}

/** A registered domain, as its owner has it. */
export interface Registered {
  id: string
  domain: string
  record: string
  token: string
}

/** Registers a domain, by default one that nobody else has. */
export async function registered(tenant: Tenant, body: object = {}): Promise<Registered> {
  const answer = await tenant.post('/custom-domains', { domain: newDomainName(), ...body })
  if (answer.status !== 201) throw new Error(answer.text)
  const { id, domain, verification } = answer.body.data
  return { id, domain, record: verification.name, token: verification.value }
}

/** Asks the service to look. */
export const verify = (tenant: Tenant, { domain }: Pick<Registered, 'domain'>, options = {}): Promise<Answer> =>
  tenant.post('/custom-domains/verify', { domain }, options)

/** Registers a domain, puts its record there and verifies it. */
export async function verified({ dns }: Pick<Stage, 'dns'>, tenant: Tenant, body: object = {}): Promise<Registered> {
  const made = await registered(tenant, body)
  dns.set(made.record, [{ type: 'TXT', text: made.token }])
  const answer = await verify(tenant, made)
  if (answer.status !== 200) throw new Error(answer.text)
  return made
}

/** The record of a domain as it is now. */
// biome-ignore lint/suspicious/noExplicitAny: looked into by path; the contract is what the tests state
export async function stateOf(tenant: Tenant, { id }: Pick<Registered, 'id'>): Promise<any> {
  return (await tenant.get(`/custom-domains/${id}`)).body.data
}

/** The tenant's events of custom domains, in order: kind and data. */
export async function eventsOf(service: Service, tenant: Tenant): Promise<[string, object][]> {
  const rows = await service.sql<{ body: string }>(
    `select body from events where tenant_id = $1 and type like 'custom\\_domain.%' order by id`,
    [tenant.tenantId],
  )
  return rows.map(({ body }) => {
    const { type, data } = JSON.parse(body)
    return [type, data]
  })
}
