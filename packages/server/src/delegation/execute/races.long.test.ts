import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  create,
  digestOf,
  everything,
  executeBeside,
  expectStatus,
  type Holder,
  holdingsOf,
  newHolder,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
  unlimited,
} from '../delegated.fixture.ts'

/*
 * Calls of one key and session take turns in a process. Those of several keys meet, as those of several processes do: what
 * holds here holds by the database alone.
 */

const DAY_MS = 24 * 3_600_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  // Far from midnight, where a day's cap begins anew.
  const nowMs = service.deps.now().getTime()
  service.advance(1.5 * DAY_MS - (nowMs % DAY_MS))
})
afterAll(() => service.stop())

const KEYS = 8
let keys = 0
/** Executes beside most others. */
function race(session: Session, body: object): Promise<Answer> {
  keys += 1
  return executeBeside(session, body, keys % KEYS)
}

async function begun(spend: (of: Holder) => object[], more: object = {}) {
  const tenant = await service.newTenant()
  const ada = await newHolder(tenant)
  return { tenant, ada, session: await newSession(service, tenant, ada, { policy: everything(spend(ada)), ...more }) }
}

const many = <T>(n: number, one: (index: number) => T) => Array.from({ length: n }, (_, index) => one(index))
const note = ({ party }: Holder, text = 'x') => create('Note:Note', { author: party, text })
const completed = async (tenant: Tenant) => (await tenant.get('/transactions?status=completed&page_size=1')).body.total
const recordOf = async (tenant: Tenant, { id }: Session) =>
  expectStatus(await tenant.get(`/delegated-sessions/${id}`), 200)

describe('a hundred at once', () => {
  test.each(['lifetime', 'rolling_24h', 'day_utc'])(
    'spend to a cap with the window %s and not above it',
    async (window) => {
      const { tenant, ada, session } = await begun(({ issuer }) => [
        { asset: { issuer, symbol: 'USDX' }, amount: '10.5', window },
      ])
      const holdings = await Promise.all(many(100, () => ada.receive('1')))
      const answers = await Promise.all(holdings.map((id) => race(session, { commands: [transfer(id)] })))
      expect(statusCounts(answers)).toEqual({ 200: 10, '403 spend_limit_exceeded': 90 })
      expect((await recordOf(tenant, session)).remaining.spend[0].remaining).toBe('0.5')
      expect(await holdingsOf(session)).toHaveLength(90)
      expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(10)
      const lefts = answers
        .filter(({ status }) => status === 200)
        .map(({ body }) => body.data.remaining.spend[0].remaining)
      expect(new Set(lefts).size).toBe(10)
    },
  )

  test('make as many uses as there are', async () => {
    const { tenant, ada, session } = await begun(() => [], { maxUses: 7 })
    const answers = await Promise.all(many(100, () => race(session, { commands: [note(ada)] })))
    expect(statusCounts(answers)).toEqual({ 200: 7, '410 delegated_session_exhausted': 93 })
    expect(await completed(tenant)).toBe(7)
    expect(await eventsOf(service, tenant, 'delegated_session.exhausted')).toHaveLength(1)
  })

  test('under one commandId happen once, and all have its answer', async () => {
    const { tenant, ada, session } = await begun(({ issuer }) => [unlimited(issuer)])
    const body = { commandId: 'once', commands: [transfer(await ada.receive('5'), '2')] }
    const answers = await Promise.all(many(100, () => race(session, body)))
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([200, answers[0]?.text])
    expect(await completed(tenant)).toBe(1)
    expect((await recordOf(tenant, session)).uses).toBe(1)
  })

  test('under one commandId with different commands: one happens, the others are in conflict with it', async () => {
    const { tenant, ada, session } = await begun(() => [])
    const answers = await Promise.all(
      many(50, (n) => race(session, { commandId: 'once', commands: [note(ada, `${n}`)] })),
    )
    expect(statusCounts(answers)).toEqual({ 200: 1, '409 duplicate_command': 49 })
    expect(await completed(tenant)).toBe(1)
  })

  test('spend one contract once, by five sessions of its wallet', async () => {
    const { tenant, ada, session } = await begun(({ issuer }) => [unlimited(issuer)])
    const policy = everything([unlimited(ada.issuer)])
    const sessions = [session, ...(await Promise.all(many(4, () => newSession(service, tenant, ada, { policy }))))]
    const id = await ada.receive('5')
    const answers = await Promise.all(many(100, (n) => race(sessions[n % 5] as Session, { commands: [transfer(id)] })))
    expect(statusCounts(answers)).toEqual({ 200: 1, '409 contract_archived': 99 })
    const uses = await Promise.all(sessions.map(async (one) => (await recordOf(tenant, one)).uses))
    expect(uses.sort()).toEqual([0, 0, 0, 0, 1])
  })

  test('of which every one is denied tell of it once', async () => {
    const { tenant, session } = await begun(() => [])
    const answers = await Promise.all(many(100, () => race(session, { commands: [create('Other:Thing', {})] })))
    expect(statusCounts(answers)).toEqual({ '403 policy_denied': 100 })
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toHaveLength(1)
  })

  test('by sessions and holdings that cross each other all come to an end, and nothing is lost', async () => {
    const tenant = await service.newTenant()
    const holders = await Promise.all(many(4, () => newHolder(tenant)))
    const sessions = await Promise.all(
      holders.map((holder) => newSession(service, tenant, holder, { policy: everything([unlimited(holder.issuer)]) })),
    )
    await Promise.all(holders.map((holder) => holder.receive('100')))
    const amountIn = (found: { amount: string }[]) => found.reduce((sum, { amount }) => sum + Number(amount), 0)
    for (let round = 0; round < 5; round += 1) {
      const found = await Promise.all(sessions.map((session) => holdingsOf(session)))
      const answers = await Promise.all(
        many(20, (n) => {
          const from = n % 4
          const to = holders[(from + 1 + (n % 3)) % 4]?.party as string
          return race(sessions[from] as Session, {
            commands: [transfer(found[from]?.[0]?.contractId as string, '1', to)],
          })
        }),
      )
      expect(statusCounts(answers)).toEqual({ 200: 4, '409 contract_archived': 16 })
    }
    const found = await Promise.all(sessions.map((session) => holdingsOf(session)))
    expect(found.reduce((sum, one) => sum + amountIn(one), 0)).toBe(400)
  })
})

describe('while fifty fly,', () => {
  type Of = Awaited<ReturnType<typeof begun>>
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
  ] as [string, number, string, (of: Of) => Promise<Answer>][])(
    '%s holds from its answer on, and what is done is what is counted',
    async (_, status, code, stop) => {
      const of = await begun(() => [])
      const { tenant, ada, session } = of
      let isStopped = false
      const answers: { isLate: boolean; answer: Answer }[] = []
      const flying = many(50, async () => {
        for (let turn = 0; turn < 3; turn += 1) {
          const isLate = isStopped
          answers.push({ isLate, answer: await race(session, { commands: [note(ada)] }) })
        }
      })
      await eventually('the first to land', async () => answers.length > 3)
      expectStatus(await stop(of), 200)
      isStopped = true
      const atAnswer = await completed(tenant)
      await Promise.all(flying)
      const done = answers.filter(({ answer }) => answer.status === 200).length
      for (const { isLate, answer } of answers) if (isLate || answer.status !== 200) expectError(answer, status, code)
      expect([done > 0, atAnswer, await completed(tenant)]).toEqual([true, done, done])
      const { uses } =
        (await service.sql<{ uses: number }>('select uses from delegated_sessions where id = $1', [session.id]))[0] ??
        {}
      expect(uses).toBe(done)
    },
  )
})

describe('a wallet in self-custody', () => {
  test('reserves no more than a cap, and a signature and a revocation that meet end in one way', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const spend = [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '10' }]
    for (let round = 0; round < 3; round += 1) {
      const session = await ownSession(service, ada, { policy: everything(spend) })
      const holdings = await Promise.all(many(30, () => ada.receive('1')))
      const asked = await Promise.all(holdings.map((id) => race(session, { commands: [transfer(id)] })))
      expect(statusCounts(asked)).toEqual({ 200: 10, '403 spend_limit_exceeded': 20 })
      const requests = asked.filter(({ status }) => status === 200).map(({ body }) => body.data.signingRequest)
      const sign = ({ id, preparedTransaction }: { id: string; preparedTransaction: string }) =>
        race(session, { signingRequestId: id, signature: ada.sign(digestOf(preparedTransaction)) })
      const [revoked, ...signed] = await Promise.all([
        tenant.delete(`/delegated-sessions/${session.id}`),
        ...requests.flatMap((request) => [sign(request), sign(request)]),
      ])
      expectStatus(revoked as Answer, 200)
      for (const answer of signed) if (answer.status !== 200) expectError(answer, 410, 'delegated_session_revoked')
      const done = (await tenant.get(`/transactions?delegated_session_id=${session.id}&status=completed`)).body.total
      expect(signed.filter(({ status }) => status === 200)).toHaveLength(2 * done)
    }
  })

  test('whose owner answers two requests for one holding at once completes one and fails the other', async () => {
    const tenant = await service.newTenant()
    const ada = await newKeyHolder(service, tenant)
    const policy = everything([unlimited(ada.issuer)])
    const sessions = await Promise.all(many(2, () => ownSession(service, ada, { policy })))
    const holding = await ada.receive('5')
    const asked = await Promise.all(sessions.map((session) => session.execute({ commands: [transfer(holding)] })))
    const answers = await Promise.all(
      many(20, (n) => {
        const { id, preparedTransaction } = expectStatus(asked[n % 2] as Answer, 200).signingRequest
        return race(sessions[n % 2] as Session, {
          signingRequestId: id,
          signature: ada.sign(digestOf(preparedTransaction)),
        })
      }),
    )
    expect(statusCounts(answers)).toEqual({ 200: 10, '409 contract_archived': 10 })
    expect(await eventsOf(service, tenant, 'tx.completed')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'tx.failed')).toHaveLength(1)
    expect(await holdingsOf(sessions[0] as Session)).toEqual([])
  })
})
