import type { Authenticator, Credential } from '../../../test/harness/authenticator.ts'
import { cookieOf, openPage, type Page, postSession } from '../../../test/harness/dashboard-page.ts'
import { type Answer, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import type { MailingService } from '../../identity/email-sign-in/email.fixture.ts'
import { newId } from '../../platform/ids.ts'
import type { Role } from '../../platform/security/roles/roles.ts'
import { createMemberByOperator } from './service.ts'

/** A member who has signed in: their id, and their page. */
export interface SignedIn {
  id: string
  email: string
  page: Page
}

/** The token of a link's URL. */
const tokenOf = (url: string): string => url.slice(url.indexOf('link=') + 'link='.length)

/** Makes a member as the operator does. @returns them with their link */
export async function invited(
  service: Service,
  tenant: Tenant,
  role: Role,
  more: { appIds?: string[]; email?: string } = {},
) {
  const input = { email: `${newId('job')}@example.com`, role, ...more }
  const { link, ...member } = await createMemberByOperator(service.deps, tenant.tenantId as never, input)
  if (link === null) throw new Error('the link was mailed')
  return { ...member, link }
}

/** The same, signed in by their invitation. */
export async function signedIn(
  service: Service,
  tenant: Tenant,
  role: Role,
  more: { appIds?: string[]; email?: string } = {},
): Promise<SignedIn> {
  const { id, email, link } = await invited(service, tenant, role, more)
  return { id, email, page: await openPage(service, { link: tokenOf(link.url) }) }
}

/** Whether a link signs in. */
export async function opens(service: Service, url: string): Promise<Answer & { cookie: string }> {
  const answer = await postSession(service, { link: tokenOf(url) })
  return { ...answer, cookie: cookieOf(answer) }
}

/** The next email to a member, and the link in it. */
export async function mailedLink({ smtp }: Pick<MailingService, 'smtp'>, email: string) {
  const mail = await smtp.next(email)
  const url = /\S+#mailed-link=\S+/.exec(mail.parts['text/plain'] as string)?.[0] as string
  return { mail, url }
}

/** Where the dashboard's page comes from. */
export const originOf = (of: Service) => `http://localhost:${new URL(of.url).port}`

/** Adds a passkey to the member of a page. */
export async function addPasskey(service: Service, page: Page, authenticator: Authenticator): Promise<Answer> {
  const options = await page.call('POST', '/session/passkeys/options', { body: {} })
  if (options.status !== 200) return options
  const { challengeId, publicKey } = options.body.data
  const credential = authenticator.create(publicKey, originOf(service))
  return page.call('POST', '/session/passkeys', { body: { challengeId, credential, deviceName: 'Laptop' } })
}

/** Asks for a challenge, and answers it with a passkey. */
export async function proofBy(
  service: Service,
  authenticator: Authenticator,
): Promise<{ challengeId: string; credential: Credential }> {
  const headers = { origin: originOf(service), 'sec-fetch-site': 'same-origin' }
  const answer = await call(service.url, 'POST', '/dashboard/api/session/passkey-options', { headers })
  if (answer.status !== 200) throw new Error(answer.text)
  const { challengeId, publicKey } = answer.body.data
  return { challengeId, credential: authenticator.get(publicKey, originOf(service)) }
}
