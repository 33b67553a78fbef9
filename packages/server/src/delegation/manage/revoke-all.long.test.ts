import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import {
  create,
  everything,
  executeBeside,
  expectStatus,
  type Holder,
  newHolder,
  newSession,
  type Session,
  transfer,
} from '../delegated.fixture.ts'
import {
  newRemoteHolder,
  type RemoteHolder,
  type RemoteService,
  runOut,
  startRemote,
} from '../remote/remote.fixture.ts'

const many = <T>(n: number, one: (index: number) => T) => Array.from({ length: n }, (_, index) => one(index))
const note = ({ party }: Pick<Holder, 'party'>) => create('Note:Note', { author: party, text: 'x' })
const KEYS = 8
const FLYING = 50

/** The two kill switches: of the wallet, and of its app. */
const SWITCHES: [string, (tenant: Tenant, holder: Pick<Holder, 'walletId'>) => Promise<Answer>][] = [
  ['a wallet', (tenant, { walletId }) => tenant.post(`/wallets/${walletId}/sessions/revoke-all`)],
  ['an app', (tenant) => tenant.post(`/apps/${tenant.appId}/sessions/revoke-all`)],
]

describe('while fifty executes fly, revoking all sessions of', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService({ HALFKEY_ROLE: 'api' })
  })
  afterAll(() => service.stop())

  test.each(SWITCHES)('%s holds from its answer on, for every one of them', async (_, pull) => {
    for (let round = 0; round < 5; round += 1) {
      const tenant = await service.newTenant()
      const ada = await newHolder(tenant)
      const sessions = await Promise.all(many(5, () => newSession(service, tenant, ada, { policy: everything() })))
      const completed = async () => (await tenant.get('/transactions?status=completed&page_size=1')).body.total
      let isStopped = false
      const answers: { isLate: boolean; answer: Answer }[] = []
      const flying = many(FLYING, async (n) => {
        for (let turn = 0; turn < 3; turn += 1) {
          const isLate = isStopped
          const body = { commands: [note(ada)] }
          // By several keys, whose calls meet in the database only.
          const answer = await executeBeside(sessions[n % 5] as Session, body, n % KEYS)
          answers.push({ isLate, answer })
        }
      })
      await eventually('the first to land', async () => answers.length > 3 * round)
      expect(expectStatus(await pull(tenant, ada), 200)).toEqual({ revoked: 5, inFlight: [], moreInFlight: false })
      isStopped = true
      const atAnswer = await completed()
      await Promise.all(flying)
      const done = answers.filter(({ answer }) => answer.status === 200).length
      for (const { isLate, answer } of answers)
        if (isLate || answer.status !== 200) expectError(answer, 410, 'delegated_session_revoked')
      expect([done > 0, atAnswer, await completed()]).toEqual([true, done, done])
    }
  })

  test('an app, while sessions are created: those that were there have ended, each later one has or works', async () => {
    const tenant = await service.newTenant()
    const holders = await Promise.all(many(4, () => newHolder(tenant)))
    const created: { isBefore: boolean; session: Session; holder: Holder }[] = []
    let isPulled = false
    const creating = holders.map(async (holder) => {
      for (let turn = 0; turn < 20; turn += 1) {
        const session = await newSession(service, tenant, holder, { policy: everything() })
        created.push({ isBefore: !isPulled, session, holder })
      }
    })
    await eventually('some are there', async () => created.length > 20)
    isPulled = true
    const { revoked } = expectStatus(await tenant.post(`/apps/${tenant.appId}/sessions/revoke-all`), 200)
    await Promise.all(creating)
    const active: Session[] = []
    for (const { isBefore, session, holder } of created) {
      const answer = await session.execute({ commands: [note(holder)] })
      if (isBefore || answer.status !== 200) expectError(answer, 410, 'delegated_session_revoked')
      else active.push(session)
    }
    expect(revoked).toBe(created.length - active.length)
  })
})

describe('on a ledger behind a network, revoking all sessions of', () => {
  let service: RemoteService
  beforeAll(async () => {
    service = await startRemote()
  })
  afterAll(() => service.stop())

  async function begun() {
    const tenant = await service.newTenant()
    const ada: RemoteHolder = await newRemoteHolder(service, tenant)
    const spend = [{ asset: { issuer: ada.issuer, symbol: 'USDX' }, amount: '1000' }]
    const sessions = await Promise.all(many(2, () => newSession(service, tenant, ada, { policy: everything(spend) })))
    return { tenant, ada, sessions }
  }

  test.each(SWITCHES)('%s waits for a signature that is being made, and lists it', async (_, pull) => {
    const { tenant, ada, sessions } = await begun()
    const [holding] = await ada.receiveAll(['1'])
    const { sign } = service.remote
    let pulling: Promise<Answer> | undefined
    service.remote.sign = async (...given) => {
      service.remote.sign = sign
      pulling = pull(tenant, ada)
      await eventually('it waits for the signer', async () => {
        const [row] = await service.sql<{ n: number }>(
          `select count(*)::int as n from pg_locks join pg_stat_activity using (pid)
            where datname = current_database() and not granted`,
        )
        return (row?.n ?? 0) > 0
      })
      return sign(...given)
    }
    service.remote.next.submit = ['forget']
    const session = sessions[0] as Session
    const body = { commandId: 'order-0', commands: [transfer(holding as string)] }
    const answer = expectStatus(await session.execute(body), 200)
    expect(answer.status).toBe('submitted')
    const ended = expectStatus((await pulling) as Answer, 200)
    const entry = {
      transactionId: answer.transactionId,
      commandId: 'order-0',
      delegatedSessionId: session.id,
      walletId: ada.walletId,
      ledger: 'remote',
      expiresAt: expect.any(String),
    }
    expect(ended).toEqual({ revoked: 2, inFlight: [entry], moreInFlight: false })
    // It is listed as long as it may happen, although its session has ended.
    expect(expectStatus(await pull(tenant, ada), 200)).toEqual({ revoked: 0, inFlight: [entry], moreInFlight: false })
    await runOut(service)
    expect(expectStatus(await pull(tenant, ada), 200).inFlight).toEqual([])
  })

  test.each(SWITCHES)('%s leaves nothing that is signed later, and what is open is in its answer', async (_, pull) => {
    const { tenant, ada, sessions } = await begun()
    const holdings = await ada.receiveAll(many(30, () => '1'))
    const from = service.remote.signed.length
    const running = Promise.all(
      holdings.map((id, n) =>
        (sessions[n % 2] as Session).execute({ commandId: `order-${n}`, commands: [transfer(id)] }),
      ),
    )
    await eventually('some are signed', async () => service.remote.signed.length > from + 2)
    const ended = expectStatus(await pull(tenant, ada), 200)
    const signedByThen = service.remote.signed.slice(from)
    const atAnswer = await tenant.get('/transactions?status=completed&page_size=100')
    const answers = await running
    expect(service.remote.signed.slice(from)).toEqual(signedByThen)
    const idsOf = (rows: { commandId: string }[]) => rows.map(({ commandId }) => commandId)
    const done = answers.filter(({ status }) => status === 200).map(({ body }) => body.data.commandId)
    expect(done).toHaveLength(signedByThen.length)
    const known = new Set([...idsOf(ended.inFlight), ...idsOf(atAnswer.body.data)])
    for (const commandId of done) expect(known).toContain(commandId)
    await runOut(service)
  })
})
