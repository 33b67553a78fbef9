import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newGuest, statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  create,
  everything,
  expectStatus,
  type Holder,
  holdingsOf,
  newHolder,
  newSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function begun(more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  const session = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]), ...more })
  return { tenant, ada, session }
}

const note = ({ party }: Pick<Holder, 'party'>, text = 'x') => create('Note:Note', { author: party, text })
const recordOf = async (tenant: Tenant, { id }: Session) =>
  expectStatus(await tenant.get(`/delegated-sessions/${id}`), 200)
const told = (tenant: Tenant, type: string) => eventsOf(service, tenant, `delegated_session.${type}`)
const completed = async (tenant: Tenant) => (await tenant.get('/transactions?status=completed&page_size=1')).body.total

/** That a session does nothing any more. */
async function expectOver(session: Session, holder: Holder, code: string, status = 410): Promise<void> {
  expectError(await session.execute({ commands: [note(holder)] }), status, code)
  expectError(await session.execute({ commands: [note(holder)], dryRun: true }), status, code)
  expectError(await session.query(), status, code)
}

describe('uses', () => {
  test('run out with the last transaction: one event, 410 from then on, and the same commandId still answers', async () => {
    const { tenant, ada, session } = await begun({ maxUses: 2 })
    const first = expectStatus(await session.execute({ commands: [note(ada)] }), 200)
    expect(first.remaining.uses).toBe(1)
    expect(await recordOf(tenant, session)).toMatchObject({ status: 'active', uses: 1, maxUses: 2 })
    expect(await told(tenant, 'exhausted')).toEqual([])
    const last = { commandId: 'last', commands: [note(ada)] }
    const second = await session.execute(last)
    expect(expectStatus(second, 200).remaining.uses).toBe(0)
    expect(await recordOf(tenant, session)).toMatchObject({ status: 'exhausted', uses: 2, remaining: { uses: 0 } })
    expect(await told(tenant, 'exhausted')).toEqual([
      { delegatedSessionId: session.id, userId: ada.userId, walletId: ada.walletId },
    ])
    await expectOver(session, ada, 'delegated_session_exhausted')
    expect((await session.execute(last)).text).toBe(second.text)
    expectError(await session.execute({ ...last, commands: [note(ada, 'y')] }), 409, 'duplicate_command')
    expect(await completed(tenant)).toBe(2)
  })

  test('are not taken by what fails, is denied, or is tried only', async () => {
    const { tenant, ada, session } = await begun({ maxUses: 1 })
    expectError(await session.execute({ commands: [transfer(`00${'5c'.repeat(32)}`)] }), 404, 'contract_not_found')
    expectError(await session.execute({ commands: [create('Other:Thing', {})] }), 403, 'policy_denied')
    expectStatus(await session.execute({ commands: [note(ada)], dryRun: true }), 200)
    expect(await recordOf(tenant, session)).toMatchObject({ status: 'active', uses: 0 })
    expectStatus(await session.execute({ commands: [note(ada)] }), 200)
  })

  test('are never more than allowed when a hundred come at once', async () => {
    const { tenant, ada, session } = await begun({ maxUses: 7 })
    const answers = await Promise.all(Array.from({ length: 100 }, () => session.execute({ commands: [note(ada)] })))
    expect(statusCounts(answers)).toEqual({ 200: 7, '410 delegated_session_exhausted': 93 })
    expect(await completed(tenant)).toBe(7)
    expect(await recordOf(tenant, session)).toMatchObject({ status: 'exhausted', uses: 7 })
    expect(await told(tenant, 'exhausted')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(7)
    const lefts = answers.filter(({ status }) => status === 200).map(({ body }) => body.data.remaining.uses)
    expect(lefts.sort()).toEqual([0, 1, 2, 3, 4, 5, 6])
  })
})

describe('the end of its time', () => {
  test('is an end at once, and is told of once when it is swept', async () => {
    const { tenant, ada, session } = await begun({ expiresInSeconds: 3_600 })
    const done = await session.execute({ commandId: 'a', commands: [note(ada)] })
    service.advance(50 * MINUTE_MS)
    expectStatus(await session.execute({ commands: [note(ada)] }), 200)
    service.advance(10 * MINUTE_MS + 1)
    await expectOver(session, ada, 'delegated_session_expired')
    expect((await session.execute({ commandId: 'a', commands: [note(ada)] })).text).toBe(done.text)
    expect(await recordOf(tenant, session)).toMatchObject({ status: 'expired', revokedAt: null })
    const swept = await eventually('the sweep', async () => {
      const events = await told(tenant, 'expired')
      return events.length > 0 && events
    })
    expect(swept).toEqual([{ delegatedSessionId: session.id, userId: ada.userId, walletId: ada.walletId }])
    // A revocation that comes too late is answered by what is, and tells nothing.
    expect(expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)).toMatchObject({
      status: 'expired',
      revokedAt: null,
    })
    await expectOver(session, ada, 'delegated_session_expired')
    expect(await told(tenant, 'revoked')).toEqual([])
    const later = await begun({ expiresInSeconds: 60 })
    service.advance(MINUTE_MS + 1)
    await eventually('the next sweep', async () => (await told(later.tenant, 'expired')).length > 0)
    expect(await told(tenant, 'expired')).toHaveLength(1)
  })

  test('sweeps none that was revoked or exhausted before', async () => {
    const revoked = await begun({ expiresInSeconds: 60 })
    const exhausted = await begun({ expiresInSeconds: 60, maxUses: 1 })
    const beside = await begun({ expiresInSeconds: 60 })
    await revoked.tenant.delete(`/delegated-sessions/${revoked.session.id}`)
    await exhausted.session.execute({ commands: [note(exhausted.ada)] })
    service.advance(MINUTE_MS + 1)
    await eventually('the sweep', async () => (await told(beside.tenant, 'expired')).length > 0)
    for (const { tenant, session, ada } of [revoked, exhausted]) {
      expect(await told(tenant, 'expired')).toEqual([])
      const { status } = await recordOf(tenant, session)
      expect(['revoked', 'exhausted']).toContain(status)
      await expectOver(session, ada, `delegated_session_${status}`)
    }
  })
})

describe('what it hangs on', () => {
  test('frozen, the wallet does nothing and can be looked at; unfrozen, it goes on', async () => {
    const { tenant, ada, session } = await begun()
    const done = await session.execute({ commandId: 'a', commands: [note(ada)] })
    await tenant.post(`/wallets/${ada.walletId}/freeze`)
    expectError(await session.execute({ commands: [note(ada)] }), 409, 'wallet_frozen')
    expect((await session.execute({ commandId: 'a', commands: [note(ada)] })).text).toBe(done.text)
    expectStatus(await session.query(), 200)
    await tenant.post(`/wallets/${ada.walletId}/unfreeze`)
    expectStatus(await session.execute({ commands: [note(ada)] }), 200)
  })

  test('a user who is suspended has no session that does anything, until that is over', async () => {
    const { tenant, ada, session } = await begun()
    await tenant.patch(`/users/${ada.userId}`, { status: 'suspended' })
    await expectOver(session, ada, 'user_suspended', 403)
    await tenant.patch(`/users/${ada.userId}`, { status: 'active' })
    expectStatus(await session.execute({ commands: [note(ada)] }), 200)
  })

  test('a guest that has ended has none either, swept or not', async () => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant, { ttlMinutes: 2 })
    const asUser = { headers: { 'x-user-id': guest.userId } }
    const { partyId: party } = expectStatus(await tenant.post('/users/me/wallet', {}, asUser), 201)
    const session = await newSession(service, tenant, { asUser }, { policy: everything() })
    expectStatus(await session.execute({ commands: [note({ party })] }), 200)
    service.advance(2 * MINUTE_MS + 1)
    expectError(await session.execute({ commands: [note({ party })] }), 410, 'guest_expired')
    expectError(await session.query(), 410, 'guest_expired')
  })
})

describe('while fifty executes fly,', () => {
  /** Executes until told to stop; each answer with whether it began after `stopped` was set. */
  async function underFire(stop: (of: Awaited<ReturnType<typeof begun>>) => Promise<Answer>) {
    const of = await begun()
    let stopped = false
    const late: Answer[] = []
    const early: Answer[] = []
    const one = async () => {
      for (let turn = 0; turn < 4; turn += 1) {
        const isLate = stopped
        const answer = await of.session.execute({ commands: [note(of.ada)] })
        ;(isLate ? late : early).push(answer)
      }
    }
    const flying = Array.from({ length: 50 }, one)
    await eventually('the first to land', async () => early.length > 3)
    expectStatus(await stop(of), 200)
    stopped = true
    const atAnswer = await completed(of.tenant)
    await Promise.all(flying)
    late.push(
      ...(await Promise.all(Array.from({ length: 10 }, () => of.session.execute({ commands: [note(of.ada)] })))),
    )
    return { ...of, early, late, atAnswer }
  }

  test.each([
    [
      'a revocation',
      410,
      'delegated_session_revoked',
      ({ tenant, session }) => tenant.delete(`/delegated-sessions/${session.id}`),
    ],
    ['a freeze', 409, 'wallet_frozen', ({ tenant, ada }) => tenant.post(`/wallets/${ada.walletId}/freeze`)],
    [
      'a suspension',
      403,
      'user_suspended',
      ({ tenant, ada }) => tenant.patch(`/users/${ada.userId}`, { status: 'suspended' }),
    ],
  ] as [string, number, string, (of: Awaited<ReturnType<typeof begun>>) => Promise<Answer>][])(
    '%s holds from its answer on, and what was done is what is counted',
    async (_, status, code, stop) => {
      const { tenant, session, early, late, atAnswer } = await underFire(stop)
      for (const answer of late) expectError(answer, status, code)
      for (const answer of early) if (answer.status !== 200) expectError(answer, status, code)
      const done = early.filter((answer) => answer.status === 200).length
      expect(done).toBeGreaterThan(0)
      expect(await completed(tenant)).toBe(done)
      // Nothing completes once the stop is answered, not even what was on its way.
      expect(atAnswer).toBe(done)
      expect((await recordOf(tenant, session)).uses).toBe(done)
      expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(done)
    },
  )

  test('the deletion of the user leaves no session, and no answer but 200 and 404', async () => {
    const { ada, session, early, late } = await underFire(({ tenant, ada: gone }) =>
      tenant.delete(`/users/${gone.userId}`),
    )
    for (const answer of late) expectError(answer, 404, 'not_found')
    for (const answer of early) if (answer.status !== 200) expectError(answer, 404, 'not_found')
    expectError(await session.execute({ commands: [note(ada)] }), 404, 'not_found')
  })
})

test('twenty revocations at once are one, with one event and one time', async () => {
  const { tenant, session } = await begun()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => tenant.delete(`/delegated-sessions/${session.id}`)),
  )
  expect(statusCounts(answers)).toEqual({ 200: 20 })
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  expect(await told(tenant, 'revoked')).toHaveLength(1)
})

test("a holding that one session sent away is gone for the wallet's others, and revoking the one changes nothing in them", async () => {
  const { tenant, ada, session } = await begun()
  const other = await newSession(service, tenant, ada, { policy: everything([unlimited(ada.issuer)]) })
  const holding = await ada.receive('5')
  expectStatus(await session.execute({ commands: [transfer(holding)] }), 200)
  await tenant.delete(`/delegated-sessions/${session.id}`)
  expectError(await other.execute({ commands: [transfer(holding)] }), 409, 'contract_archived')
  expect(await holdingsOf(other)).toEqual([])
  expectStatus(await other.execute({ commands: [note(ada)] }), 200)
})
