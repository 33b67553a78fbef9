import { type Authenticator, type Credential, newAuthenticator, ORIGIN } from '../../../test/harness/authenticator.ts'
import type { Answer, Service, Tenant } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import {
  expectStatus,
  newSession,
  type Session,
  type SignedIn,
  signedIn,
  transfer,
  transfers,
} from '../delegated.fixture.ts'

export const DAY_MS = 86_400_000

/** An owner with a passkey that can approve. */
export interface Owner extends SignedIn {
  authenticator: Authenticator
}

/** Adds a passkey to a person, as their browser does. */
export async function addPasskey(person: Person, authenticator = newAuthenticator()): Promise<Authenticator> {
  const headers = { ...person.bearer, origin: ORIGIN }
  const asked = expectStatus(await person.post('/auth/passkey/register-options', {}, { headers }), 200)
  const credential = authenticator.create(asked.publicKey)
  const body = { challengeId: asked.challengeId, credential }
  expectStatus(await person.post('/auth/passkey/register-verify', body, { headers }), 200)
  return authenticator
}

/** A signed-in user with a wallet and a passkey. Its time to approve has come. */
export async function newOwner(service: Service, tenant: Tenant): Promise<Owner> {
  const before = await signedIn(service, tenant)
  const authenticator = await addPasskey(before.person)
  service.advance(DAY_MS)
  const person = await signInAs(service, tenant, { userId: before.userId })
  return { ...before, person, authenticator }
}

/** A policy that asks above an amount of USDX. */
export const askingAbove = (
  owner: Pick<Owner, 'issuer'> & Parameters<typeof transfers>[0],
  above: string,
  more: object = {},
) => transfers(owner, '100', { requireApproval: [{ asset: { issuer: owner.issuer, symbol: 'USDX' }, above }], ...more })

/** A tenant with an owner and a session that asks above 5 USDX. */
export async function asking(service: Service, policy = (owner: Owner): object => askingAbove(owner, '5')) {
  const tenant = await service.newTenant()
  const owner = await newOwner(service, tenant)
  const session = await newSession(service, tenant, owner, { policy: policy(owner), expiresInSeconds: 7 * 86_400 })
  return { tenant, owner, session }
}

/** Asks for a payment. @returns the answer's data, with the commands that were sent */
export async function ask(session: Session, owner: Pick<Owner, 'receive'>, amount = '7', commandId = 'order-1') {
  const commands = [transfer(await owner.receive(amount))]
  const data = expectStatus(await session.execute({ commandId, commands }), 200)
  return { ...data, commands, commandId } as Answer['body']['data']
}

/** The owner's assertion over what an approval asks for. */
export async function assertion(
  { person, authenticator }: Pick<Owner, 'person' | 'authenticator'>,
  id: string,
): Promise<Credential> {
  const { publicKey } = expectStatus(await person.get(`/approvals/${id}`), 200)
  return authenticator.get(publicKey)
}

/** Approves as the owner's browser does. */
export async function approve(owner: Pick<Owner, 'person' | 'authenticator'>, id: string): Promise<Answer> {
  return owner.person.post(`/approvals/${id}/approve`, { credential: await assertion(owner, id) })
}
