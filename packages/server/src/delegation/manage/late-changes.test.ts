import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  BOB,
  create,
  everything,
  executeBeside,
  expectStatus,
  holdingsOf,
  newHolder,
  newSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

/*
 * An execution is decided on and signed before it locks anything. Whatever changes between that and its one statement has
 * to be seen by it.
 */

let service: Service
let meanwhile: (() => Promise<unknown>) | undefined
beforeAll(async () => {
  const failpoint = async (step: string) => {
    if (step !== 'signed') return
    const change = meanwhile
    meanwhile = undefined
    await change?.()
  }
  service = await startService({ HALFKEY_ROLE: 'api' }, { failpoint })
})
afterAll(() => service.stop())

/** Executes; once that is decided on and signed, something else happens first. */
async function overtaken(session: Session, body: object, change: () => Promise<unknown>): Promise<Answer> {
  meanwhile = change
  const answer = await session.execute(body)
  expect(meanwhile, 'the change has happened').toBeUndefined()
  return answer
}

async function begun(amount = '10', more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const policy = everything([{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount }])
  return {
    tenant,
    ada,
    session: await newSession(service, tenant, ada, { policy, ...more }),
    holding: await ada.receive('100'),
  }
}
type Of = Awaited<ReturnType<typeof begun>>

const completed = async (tenant: Tenant) => (await tenant.get('/transactions?status=completed&page_size=1')).body.total

/** That what was signed went nowhere. */
async function expectNothing({ tenant }: Of, holding: string): Promise<void> {
  const [row] = await service.sql<{ archived_offset: number | null }>(
    'select archived_offset from ledger_contracts where contract_id = $1',
    [holding],
  )
  expect(row?.archived_offset).toBeNull()
  expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([])
  expect(await eventsOf(service, tenant, 'tx.submitted')).toEqual([])
  const kept = await service.sql('select 1 from transactions where tenant_id = $1', [tenant.tenantId])
  expect(kept).toEqual([])
}

describe('what ends meanwhile is not used any more:', () => {
  test.each([
    [
      'the session is revoked',
      410,
      'delegated_session_revoked',
      ({ tenant, session }) => tenant.delete(`/delegated-sessions/${session.id}`),
    ],
    ['the wallet is frozen', 409, 'wallet_frozen', ({ tenant, ada }) => tenant.post(`/wallets/${ada.walletId}/freeze`)],
    [
      'the user is suspended',
      403,
      'user_suspended',
      ({ tenant, ada }) => tenant.patch(`/users/${ada.userId}`, { status: 'suspended' }),
    ],
    ['the user is deleted', 404, 'not_found', ({ tenant, ada }) => tenant.delete(`/users/${ada.userId}`)],
    ['its time runs out', 410, 'delegated_session_expired', async () => service.advance(3_600_001)],
  ] as [string, number, string, (of: Of) => Promise<unknown>][])('%s', async (_, status, code, change) => {
    const of = await begun()
    const answer = await overtaken(of.session, { commands: [transfer(of.holding, '3')] }, () => change(of))
    expectError(answer, status, code)
    await expectNothing(of, of.holding)
  })

  test.each([
    ['the guest is ended', (tenant, id) => tenant.delete(`/guests/${id}`)],
    ["the guest's time runs out", async () => service.advance(10 * 60_000 + 1)],
  ] as [string, (tenant: Tenant, id: string) => Promise<unknown>][])('%s', async (_, end) => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant, { ttlMinutes: 10 })
    const asUser = { headers: { 'x-user-id': guest.userId } }
    const { partyId } = expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
    const session = await newSession(service, tenant, { asUser }, { policy: everything() })
    const body = { commands: [create('Note:Note', { author: partyId, text: 'x' })] }
    expectError(await overtaken(session, body, () => end(tenant, guest.id)), 410, 'guest_expired')
    expect(await completed(tenant)).toBe(0)
  })
})

describe('what is used up meanwhile is not used twice:', () => {
  test('a cap', async () => {
    const { tenant, ada, session, holding } = await begun('10')
    const other = await ada.receive('100')
    const answer = await overtaken(session, { commands: [transfer(holding, '6')] }, async () =>
      expectStatus(await executeBeside(session, { commands: [transfer(other, '6')] }), 200),
    )
    expectError(answer, 403, 'spend_limit_exceeded')
    expect(answer.body.details[0]).toMatchObject({ spent: '6', remaining: '4', asked: '6' })
    expect(await completed(tenant)).toBe(1)
  })

  test('what is left of a cap that bears both', async () => {
    const { session, ada, holding } = await begun('10')
    const other = await ada.receive('100')
    const done = await overtaken(session, { commands: [transfer(holding, '6')] }, async () =>
      expectStatus(await executeBeside(session, { commands: [transfer(other, '4')] }), 200),
    )
    expect(expectStatus(done, 200).remaining.spend[0]).toMatchObject({ spent: '10', remaining: '0' })
  })

  test('the last use', async () => {
    const { tenant, ada, session, holding } = await begun('10', { maxUses: 1 })
    const note = create('Note:Note', { author: ada.party, text: 'x' })
    const answer = await overtaken(session, { commands: [transfer(holding, '1')] }, async () =>
      expectStatus(await executeBeside(session, { commands: [note] }), 200),
    )
    expectError(answer, 410, 'delegated_session_exhausted')
    expect(await completed(tenant)).toBe(1)
    expect(await eventsOf(service, tenant, 'delegated_session.exhausted')).toHaveLength(1)
  })

  test('a contract, by another session of the wallet; it looks again and finds it gone, and no use was taken', async () => {
    const { tenant, ada, session, holding } = await begun()
    const other = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
    const answer = await overtaken(session, { commands: [transfer(holding, '3')] }, async () =>
      expectStatus(await other.execute({ commands: [transfer(holding, '5')] }), 200),
    )
    expectError(answer, 409, 'contract_archived')
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data).toMatchObject({ uses: 0 })
    expect((await holdingsOf(session)).map(({ amount }) => amount)).toEqual(['95'])
  })

  test('one contract of many: none of them moves', async () => {
    const { tenant, ada, session, holding } = await begun()
    const other = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
    const second = await ada.receive('1')
    const answer = await overtaken(session, { commands: [transfer(holding, '3'), transfer(second)] }, async () =>
      expectStatus(await other.execute({ commands: [transfer(second)] }), 200),
    )
    expectError(answer, 409, 'contract_archived')
    expect((await holdingsOf(session)).map(({ contractId }) => contractId)).toEqual([holding])
    expect(await completed(tenant)).toBe(1)
  })

  test('a commandId: the same commands have the first one’s answer, others are in conflict with it', async () => {
    const { tenant, session, holding } = await begun()
    const body = { commandId: 'a', commands: [transfer(holding, '3', BOB)] }
    let first: Answer | undefined
    const same = await overtaken(session, body, async () => {
      first = await executeBeside(session, body)
    })
    expect([same.status, same.text]).toEqual([200, first?.text])
    const rest = (await holdingsOf(session))[0]?.contractId as string
    const other = await overtaken(session, { commandId: 'b', commands: [transfer(rest, '1')] }, async () =>
      expectStatus(await executeBeside(session, { commandId: 'b', commands: [transfer(rest, '2')] }), 200),
    )
    expectError(other, 409, 'duplicate_command')
    expect(await completed(tenant)).toBe(2)
  })
})
