import { invited, mailedLink } from '../../../src/operations/members/members.fixture.ts'
import { createMemberByOperator } from '../../../src/operations/members/service.ts'
import { connectAccount } from '../../../src/operations/members/sign-in/oidc.ts'
import { providerOf } from '../../../src/operations/members/sign-in/settings.ts'
import { publicUrl } from '../../../src/platform/config.ts'
import { newAuthenticator } from '../../harness/authenticator.ts'
import { openPage } from '../../harness/dashboard-page.ts'
import { type Answer, call, type Service, type Tenant } from '../../harness/harness.ts'
import type { SmtpServer } from '../../harness/smtp-server.ts'

/** The data of an answer that must be right. @throws Error for another one */
function dataOf({ status, text, body }: Answer) {
  if (status !== 200) throw new Error(text)
  return body.data
}

/** A member with a passkey, who begins to sign in with it. */
async function withPasskey(service: Service, tenant: Tenant, headers: { origin: string }): Promise<void> {
  const { link } = await invited(service, tenant, 'viewer')
  const page = await openPage(service, { link: link.url.split('link=')[1] as string }, headers)
  const begin = async () => dataOf(await page.call('POST', '/session/passkeys/options', { body: {}, headers }))
  const { challengeId, publicKey } = await begin()
  const body = { challengeId, credential: newAuthenticator().create(publicKey, headers.origin), deviceName: 'Laptop' }
  dataOf(await page.call('POST', '/session/passkeys', { body, headers }))
  await begin()
}

/** Members with every way to sign in: one has a passkey, one has asked for a code and connected an account. */
export async function addMembers(service: Service, tenant: Tenant, smtp: SmtpServer): Promise<void> {
  const { deps } = service
  const headers = { origin: publicUrl(deps.config) }
  await withPasskey(service, tenant, headers)
  const owner = await invited(service, tenant, 'owner')
  const page = await openPage(service, { link: owner.link.url.split('link=')[1] as string }, headers)
  const oidc = { name: 'Acme', issuer: 'http://127.0.0.1:49151', clientId: 'dashboard', clientSecret: 'secret' }
  dataOf(await page.call('PATCH', '/member-sign-in', { body: { emailCode: true, oidc }, headers }))
  const email = 'proven@example.com'
  const tenantId = tenant.tenantId as `ten_${string}`
  const { id } = await createMemberByOperator(deps, tenantId, { email, role: 'viewer', delivery: 'email' })
  const { url } = await mailedLink({ smtp }, email)
  await openPage(service, { link: url.split('link=')[1] as string }, headers)
  const body = { email, tenantId }
  dataOf(await call(service.url, 'POST', '/dashboard/api/session/email-code', { body, headers }))
  const provider = await providerOf(deps.db, tenantId)
  if (provider === undefined) throw new Error('there is no login')
  const came = { provider, begunAt: deps.now() }
  const refused = await deps.db.tx((tx) =>
    connectAccount(tx, deps, came, id as `mem_${string}`, { subject: 'proven', email }),
  )
  if (refused !== undefined) throw new Error(refused)
}
