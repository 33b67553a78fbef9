import type { Answer, Service, Tenant } from '../../../../test/harness/harness.ts'
import { signInAs } from '../../../identity/sessions/sessions.fixture.ts'
import { expectStatus, newSession, type Session, transfers } from '../../delegated.fixture.ts'
import { addPasskey, newOwner, type Owner } from '../approvals.fixture.ts'

/** A person who can approve. */
export type Approver = Pick<Owner, 'person' | 'authenticator' | 'userId'>

export interface Stage {
  tenant: Tenant
  owner: Owner
  /** Users with passkeys that may approve. */
  approvers: [Approver, Approver, Approver]
  session: Session
}

export const idsOf = (users: readonly Approver[]) => users.map(({ userId }) => userId)

/** A tenant with an owner, three other users and a session that asks two of the three above 5 USDX. */
export async function stage(
  service: Service,
  policyOf = (owner: Owner, users: string[]): object => asksAbove(owner, '5', { users, threshold: 2 }),
): Promise<Stage> {
  const tenant = await service.newTenant()
  const people = []
  for (let n = 0; n < 3; n += 1) {
    const person = await signInAs(service, tenant)
    people.push({ userId: person.userId, authenticator: await addPasskey(person) })
  }
  const owner = await newOwner(service, tenant)
  const approvers = await Promise.all(
    people.map(async (one) => ({ ...one, person: await signInAs(service, tenant, { userId: one.userId }) })),
  )
  const policy = policyOf(owner, idsOf(approvers))
  const session = await newSession(service, tenant, owner, { policy, expiresInSeconds: 7 * 86_400 })
  return { tenant, owner, approvers: approvers as Stage['approvers'], session }
}

const asset = ({ issuer }: Pick<Owner, 'issuer'>) => ({ issuer, symbol: 'USDX' })
export const asksAbove = (owner: Owner, above: string, approvers: object, more: object = {}) =>
  transfers(owner, '100', { requireApproval: [{ asset: asset(owner), above, approvers }], ...more })

export const post = ({ person }: Pick<Approver, 'person'>, id: string, credential: unknown): Promise<Answer> =>
  person.post(`/approvals/${id}/approve`, { credential })

export const shown = async ({ person }: Pick<Approver, 'person'>, id: string) =>
  expectStatus(await person.get(`/approvals/${id}`), 200)

export const happened = async (tenant: Tenant): Promise<number> =>
  (await tenant.get('/transactions?status=completed')).body.total
