import { expect } from 'vitest'
import type { DnsServer } from '../../server/test/harness/dns-server.ts'
import type { HalfkeyClient } from '../src/client.ts'
import { HalfkeyError } from '../src/errors.ts'

/** Registers, verifies and removes a domain, whose records the name server has. */
export async function useCustomDomains(client: HalfkeyClient, dns: DnsServer): Promise<void> {
  const { customDomains } = client
  const made = await customDomains.create({ domain: 'Login.Example.COM' })
  expect(made).toMatchObject({ domain: 'login.example.com', status: 'pending', verification: { type: 'TXT' } })
  const refused = await customDomains.verify(made.domain).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(HalfkeyError)
  expect(refused).toMatchObject({
    status: 400,
    code: 'dns_record_missing',
    details: [{ expected: made.verification.value, observed: [] }],
  })
  dns.set(made.verification.name, [{ type: 'TXT', text: made.verification.value }])
  const verified = await customDomains.verify(made.domain)
  expect(verified.status).toBe('verified')
  expect(await customDomains.get(made.id)).toEqual(verified)
  expect((await customDomains.plan(made.id)).steps[0]).toMatchObject({ code: 'verify_domain', done: true })
  expect((await customDomains.list({ status: 'verified', appId: made.appId })).data).toEqual([verified])
  expect((await customDomains.remove('login.example.com')).id).toBe(made.id)
  await expect(customDomains.get(made.id)).rejects.toMatchObject({ code: 'not_found' })
}
