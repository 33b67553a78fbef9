import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Fault } from '../../../test/harness/faulty-ledger.ts'
import type { Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { onboardWallets } from '../../wallets/onboarding/onboarding.ts'
import { BOB, expectStatus, newSession, type Session, transfer, transfers } from '../delegated.fixture.ts'
import {
  expectSettled,
  newRemoteHolder,
  type RemoteHolder,
  type RemoteService,
  runOut,
  startRemote,
} from './remote.fixture.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60_000

let service: RemoteService
beforeAll(async () => {
  service = await startRemote()
})
afterEach(() => {
  service.remote.heal()
  for (const step of Object.keys(service.steps)) delete service.steps[step]
})
afterAll(() => service.stop())

interface Scene {
  tenant: Tenant
  ada: RemoteHolder
  session: Session
  holding: string
}

/** Somebody with 10 on the remote ledger, and a session that may spend 5 of it. */
async function newScene(more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const ada = await newRemoteHolder(service, tenant)
  const holding = await ada.receive('10')
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5'), ...more })
  return { tenant, ada, session, holding }
}

const statesOf = ({ session }: Scene) =>
  service.sql<{ status: string; error: { code: string } | null; signed: boolean; check_at: Date | null }>(
    'select status, error, signatures is not null as signed, check_at from transactions where delegated_session_id = $1',
    [session.id],
  )

const spentBy = async ({ tenant, session }: Scene) => {
  const { uses, remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  return [uses, remaining.spend[0].spent]
}

const settledOf = ({ tenant, ada, session }: Scene) => expectSettled(service, tenant, ada, session)

/** What the ledger is asked for a transaction of this scene's. */
const sentBy = ({ session }: Scene) => service.remote.sent.filter(({ commandId }) => commandId.startsWith(session.id))

describe('an execution on a ledger beyond a network', () => {
  test('is answered as on the embedded one, told of as submitted and completed, and the ledger is never asked inside a transaction', async () => {
    const scene = await newScene()
    const { tenant, ada, session, holding } = scene
    const open: unknown[] = []
    service.remote.delayMs.submit = () => 1_000
    service.remote.delayMs.prepare = () => 1_000
    const watching = { on: true }
    const watch = (async () => {
      while (watching.on)
        open.push(
          ...(await service.sql(
            `select query from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'
             and now() - state_change > interval '700 ms'`,
          )),
        )
    })()
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const done = expectStatus(await session.execute(body), 200)
    watching.on = false
    await watch
    expect(open).toEqual([])
    expect(done).toMatchObject({ commandId: 'a', status: 'completed', signingRequest: null, decision: null })
    expect(done.offset).toBeGreaterThan(0)
    expect(done.remaining.spend[0]).toMatchObject({ limit: '5', spent: '3', remaining: '2' })
    expect(expectStatus(await session.execute(body), 200)).toEqual(done)
    expect(sentBy(scene)).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'tx.submitted')).toHaveLength(1)
    const [told] = await eventsOf(service, tenant, 'tx.completed')
    expect(told).toMatchObject({ transactionId: done.transactionId, ledger: 'remote', updateId: done.updateId })
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
    expect(await ada.has(ada.party)).toBe('7')
    expect((await statesOf(scene))[0]).toMatchObject({ signed: false, check_at: null })
  })

  test('is denied as on the embedded one, and a repeat under its command id is denied again', async () => {
    const scene = await newScene()
    const { tenant, session, holding } = scene
    const body = { commandId: 'a', commands: [transfer(holding, '6')] }
    for (const again of [false, true]) {
      const denied = await session.execute(body)
      expectError(denied, 403, 'spend_limit_exceeded')
      expect(denied.body.details[0], `${again}`).toMatchObject({ rule: 'spend[0]', remaining: '5', asked: '6' })
    }
    expectError(await session.execute({ ...body, commands: [transfer(holding, '1')] }), 409, 'duplicate_command')
    expectError(await session.execute({ commands: [transfer(holding, '7')] }), 403, 'spend_limit_exceeded')
    // Nothing that the policy denies as it was asked for reaches the ledger, or is kept.
    const asked = service.remote.asked.length
    expectError(await session.execute({ commands: [{ create: { templateId: 'Note:Note' } }] }), 403, 'policy_denied')
    expect(service.remote.asked).toHaveLength(asked)
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toHaveLength(2)
    expect(await eventsOf(service, tenant, 'tx.submitted')).toEqual([])
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 2, moved: '0' })
    expect(sentBy(scene)).toEqual([])
  })

  test('waits for a wallet that is not on its ledger yet', async () => {
    const tenant = await service.newTenant()
    service.remote.isDown = true
    const ada = await newRemoteHolder(service, tenant)
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5') })
    const body = { commandId: 'a', commands: [transfer('00', '1')] }
    expectError(await session.execute(body), 409, 'wallet_not_ready')
    service.remote.heal()
    service.advance(MINUTE_MS)
    await onboardWallets(service.deps)
    expectError(await session.execute(body), 404, 'contract_not_found')
  })

  test('by twenty calls under one command id happens once', async () => {
    const scene = await newScene()
    const body = { commandId: 'a', commands: [transfer(scene.holding, '3')] }
    const answers = await Promise.all(Array.from({ length: 20 }, () => scene.session.execute(body)))
    for (const answer of answers) {
      // A call that finds it sent answers that it is submitted.
      expect(['submitted', 'completed']).toContain(expectStatus(answer, 200).status)
      expect(answer.body.data.transactionId).toBe(answers[0]?.body.data.transactionId)
    }
    expect(sentBy(scene)).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('uses up the session by its last use, and meanwhile holds it', async () => {
    const scene = await newScene({ maxUses: 1 })
    const { session, holding, tenant } = scene
    service.remote.next.submit = ['forget']
    expect(expectStatus(await session.execute({ commands: [transfer(holding, '1')] }), 200).status).toBe('submitted')
    expectError(await session.execute({ commands: [transfer(holding, '2')] }), 409, 'uses_in_flight')
    await service.remote.remember(service.deps.now())
    service.advance(SECOND_MS)
    await service.reconcile()
    expectError(await session.execute({ commands: [transfer(holding, '2')] }), 410, 'delegated_session_exhausted')
    expect(await eventsOf(service, tenant, 'delegated_session.exhausted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
  })
})

describe('when what is sent gets no answer', () => {
  const unanswered: Fault[] = ['lose_before', 'lose_after', 'forget', 'refuse_for_now', 'break']
  test.each(unanswered)('(%s) it counts as spent until the outcome is found, which happened once', async (fault) => {
    const scene = await newScene()
    const { session, holding, tenant } = scene
    service.remote.next.submit = [fault]
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const first = expectStatus(await session.execute(body), 200)
    expect(first).toMatchObject({ status: 'submitted', updateId: null, offset: null })
    expect(await spentBy(scene)).toEqual([1, '3'])
    expect(expectStatus(await tenant.get(`/transactions/${first.transactionId}`), 200).status).toBe('submitted')
    // Whoever asks again learns what the ledger knows by then, and sends nothing.
    const again = expectStatus(await session.execute(body), 200)
    expect(again.status).toBe(fault === 'lose_after' ? 'completed' : 'submitted')
    expect(sentBy(scene)).toHaveLength(1)
    expectError(await session.execute({ ...body, commands: [transfer(holding, '1')] }), 409, 'duplicate_command')
    service.advance(SECOND_MS)
    await service.reconcile()
    const last = expectStatus(await session.execute(body), 200)
    expect(last).toMatchObject({ status: 'completed', transactionId: first.transactionId })
    // The same bytes, however often.
    expect(new Set(sentBy(scene).map(({ digest }) => digest)).size).toBe(1)
    expect(await eventsOf(service, tenant, 'tx.submitted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('and it never arrives, it is released once it is too late for it, and not before', async () => {
    const scene = await newScene()
    const { session, holding } = scene
    service.remote.always.submit = () => 'forget'
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const { transactionId } = expectStatus(await session.execute(body), 200)
    for (let seconds = 0; seconds < 115; seconds += 5) {
      await service.reconcile()
      expect(await spentBy(scene), `after ${seconds} s`).toEqual([1, '3'])
      service.advance(5 * SECOND_MS)
    }
    const sent = sentBy(scene)
    // At growing intervals, and no longer once it has expired.
    expect(sent.length).toBeGreaterThan(3)
    expect(sent.length).toBeLessThan(9)
    await runOut(service)
    expect(sentBy(scene)).toHaveLength(sent.length)
    expectError(await session.execute(body), 410, 'prepared_expired')
    expectError(await session.execute(body), 410, 'prepared_expired')
    expect(await service.remote.remember(service.deps.now())).toBe(sent.length)
    const { error } = expectStatus(await scene.tenant.get(`/transactions/${transactionId}`), 200)
    expect(error.code).toBe('prepared_expired')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('what happened in its last moment is found long after it has expired', async () => {
    const scene = await newScene()
    service.remote.next.submit = ['lose_after']
    const body = { commandId: 'a', commands: [transfer(scene.holding, '3')] }
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('submitted')
    service.advance(30 * MINUTE_MS)
    await service.reconcile()
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('completed')
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('and the ledger stays away, nothing is released on its silence', async () => {
    const scene = await newScene()
    const { session, holding } = scene
    service.remote.next.submit = ['lose_after']
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    expectStatus(await session.execute(body), 200)
    service.remote.isDown = true
    for (let minutes = 0; minutes < 40; minutes += 10) {
      service.advance(10 * MINUTE_MS)
      await service.reconcile()
      expect(expectStatus(await session.execute(body), 200).status).toBe('submitted')
    }
    expect(await spentBy(scene)).toEqual([1, '3'])
    service.remote.heal()
    service.advance(MINUTE_MS)
    await service.reconcile()
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('a ledger that hangs holds a call up for ten seconds and no longer', async () => {
    const [one, two] = [await newScene(), await newScene()]
    const timed = async ({ session, holding }: Scene) => {
      const startedAt = performance.now()
      const answer = await session.execute({ commandId: 'a', commands: [transfer(holding, '3')] })
      return { answer, tookMs: performance.now() - startedAt }
    }
    service.remote.next = { submit: ['hang'] }
    const sending = timed(one)
    await expect.poll(() => sentBy(one).length, { timeout: 30_000 }).toBe(1)
    service.remote.next = { prepare: ['hang'] }
    const [sent, prepared] = await Promise.all([sending, timed(two)])
    expect(expectStatus(sent.answer, 200).status).toBe('submitted')
    expectError(prepared.answer, 500, 'ledger_unavailable')
    for (const { tookMs } of [sent, prepared]) {
      expect(tookMs).toBeGreaterThan(9_900)
      expect(tookMs).toBeLessThan(30_000)
    }
    await runOut(service)
    expect((await settledOf(one)).moved).toBe('0')
    expect((await settledOf(two)).moved).toBe('0')
  })
})

describe('when the ledger refuses', () => {
  test('what is sent, for good, it is released at once, and a repeat is refused the same way', async () => {
    const scene = await newScene()
    const { session, holding, tenant } = scene
    service.remote.next.submit = ['refuse']
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    const refused = await session.execute(body)
    expectError(refused, 409, 'contract_archived')
    expect(refused.body.details[0].field).toBe('commands.0')
    expect((await session.execute(body)).text).toBe(refused.text)
    const [told] = await eventsOf(service, tenant, 'tx.failed')
    expect(told).toMatchObject({ commandId: 'a', code: 'contract_archived' })
    expect(await spentBy(scene)).toEqual([0, '0'])
    expectStatus(await session.execute({ commands: [transfer(holding, '5')] }), 200)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 1, moved: '5' })
  })

  test('to prepare, for good, nothing was reserved or signed, and that is final', async () => {
    const scene = await newScene()
    const signed = service.remote.signed.length
    const body = { commandId: 'a', commands: [transfer(`00${'9'.repeat(64)}`)] }
    for (let call = 0; call < 2; call += 1) expectError(await scene.session.execute(body), 404, 'contract_not_found')
    expect(service.remote.signed).toHaveLength(signed)
    expect((await statesOf(scene)).map(({ status }) => status)).toEqual(['failed'])
    expect(await eventsOf(service, scene.tenant, 'tx.submitted')).toEqual([])
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  const passing: Fault[] = ['refuse_for_now', 'lose_before', 'lose_after', 'break']
  test('or fails to prepare, the same command id does it once that has passed', async () => {
    const cases = (['prepare', 'declaredConsequences'] as const).flatMap((ask) =>
      passing.map((fault) => ({ ask, fault })),
    )
    const scenes = await Promise.all(cases.map(() => newScene()))
    const bodyOf = ({ holding }: Scene) => ({ commandId: 'a', commands: [transfer(holding, '3')] })
    for (const [index, { ask, fault }] of cases.entries()) {
      const scene = scenes[index] as Scene
      service.remote.next[ask] = [fault]
      expectError(await scene.session.execute(bodyOf(scene)), 500, 'ledger_unavailable', `${ask} ${fault}`)
      expect(await spentBy(scene)).toEqual([0, '0'])
    }
    await Promise.all(
      scenes.map(async (scene) => {
        expect(expectStatus(await scene.session.execute(bodyOf(scene)), 200).status).toBe('completed')
        expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
      }),
    )
  })

  test('or fails to prepare and nobody asks again, the transaction ends as failed', async () => {
    const scene = await newScene()
    const body = { commandId: 'a', commands: [transfer(scene.holding, '3')] }
    service.remote.isDown = true
    expectError(await scene.session.execute(body), 500, 'ledger_unavailable')
    await service.reconcile()
    expect((await statesOf(scene)).map(({ status }) => status)).toEqual(['received'])
    service.advance(2 * MINUTE_MS)
    await service.reconcile()
    const answer = await scene.session.execute(body)
    expectError(answer, 409, 'transaction_failed')
    expect(answer.body.details[0].code).toBe('abandoned')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })
})

describe('a ledger that prepares what was not asked for', () => {
  test.each([
    'another actor',
    'a further root',
    'another receiver',
    'a further consequence',
    'another command id',
    'a later expiry',
  ] as const)('(%s) is found out by the bytes: nothing is signed', async (lie) => {
    const scene = await newScene()
    const { session, holding, tenant } = scene
    const signed = service.remote.signed.length
    service.remote.lie = lie
    const body = { commandId: 'a', commands: [transfer(holding, '3')] }
    for (let call = 0; call < 2; call += 1) {
      const denied = await session.execute(body)
      expectError(denied, 403, 'policy_denied')
      expect(denied.body.details[0].rule).toBe('effects')
    }
    expect(service.remote.signed).toHaveLength(signed)
    expect(sentBy(scene)).toEqual([])
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('(more than was asked for) is held against the cap by what the bytes move', async () => {
    const scene = await newScene()
    service.remote.lie = 'a greater amount'
    const denied = await scene.session.execute({ commands: [transfer(scene.holding, '3')] })
    expectError(denied, 403, 'spend_limit_exceeded')
    expect(denied.body.details[0].asked).toBe('10')
    expect(sentBy(scene)).toEqual([])
  })

  test.each(['no expiry', 'no transaction'] as const)('(%s) is refused', async (lie) => {
    const scene = await newScene()
    service.remote.lie = lie
    expectError(await scene.session.execute({ commands: [transfer(scene.holding, '3')] }), 409, 'transaction_failed')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
    expect(await scene.ada.has(BOB)).toBe('0')
  })
})
