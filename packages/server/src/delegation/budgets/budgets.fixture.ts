import { expect } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, call, type Service, type Tenant } from '../../../test/harness/harness.ts'
import type { Person } from '../../identity/sessions/sessions.fixture.ts'
import {
  everything,
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
  transfer,
} from '../delegated.fixture.ts'

const DAY_MS = 86_400_000

/** A budget of the holder's own currency. */
export const budget = (holder: Holder, amount: string, more: object = {}) => ({
  asset: { issuer: holder.issuer, symbol: 'USDX' },
  amount,
  ...more,
})

/** A cap beside which a budget decides. */
export const amply = (holder: Holder) => [budget(holder, '1000000')]

/** Sets a wallet's budgets as a server does. */
export const putBudgets = (
  service: Pick<Service, 'url'>,
  tenant: Tenant,
  holder: Holder,
  budgets: object[],
  key = tenant.key,
) => call(service.url, 'PUT', `/v1/wallets/${holder.walletId}/budgets`, { key, body: { budgets } })

/** The same as the wallet's owner does. */
export const putOwn = (service: Pick<Service, 'url'>, person: Person, walletId: string, budgets: object[]) =>
  call(service.url, 'PUT', `/v1/wallets/${walletId}/budgets`, {
    key: person.key,
    headers: { authorization: `Bearer ${person.accessToken}` },
    body: { budgets },
  })

/** What a wallet's budgets say. */
export const budgetsOf = async (tenant: Tenant, { walletId }: Pick<Holder, 'walletId'>) =>
  expectStatus(await tenant.get(`/wallets/${walletId}/budgets`), 200)

/** What is left of a wallet's own budgets. */
export const leftIn = async (tenant: Tenant, holder: Holder): Promise<string[]> =>
  (await budgetsOf(tenant, holder)).budgets.map(({ remaining }: { remaining: string }) => remaining)

/** A wallet with budgets, and so many sessions of it whose own caps are out of the way. */
export async function budgeted(service: Service, budgets: (holder: Holder) => object[], sessions = 1) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  expectStatus(await putBudgets(service, tenant, ada, budgets(ada)), 200)
  const body = { policy: everything(amply(ada)), expiresInSeconds: (30 * DAY_MS) / 1000 }
  const made: Session[] = []
  for (let n = 0; n < sessions; n += 1) made.push(await newSession(service, tenant, ada, body))
  return { tenant, ada, sessions: made, session: made[0] as Session }
}

/** Transfers a new holding of this much. */
export async function spend(session: Session, holder: Holder, amount: string, receiver?: string): Promise<Answer> {
  return session.execute({ commands: [transfer(await holder.receive(amount), undefined, receiver)] })
}

/** That a budget refused, with this left. */
export function expectOver(answer: Answer, remaining: string, rule = 'budgets[0]'): void {
  expectError(answer, 403, 'budget_exceeded')
  expect(answer.body.details[0]).toMatchObject({ rule, remaining })
}
