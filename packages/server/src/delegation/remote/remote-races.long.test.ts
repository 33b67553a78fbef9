import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Fault } from '../../../test/harness/faulty-ledger.ts'
import type { Answer, Tenant } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import { LedgerError } from '../../platform/ports/ledger.ts'
import { expectStatus, newSession, type Session, transfer, transfers } from '../delegated.fixture.ts'
import {
  expectSettled,
  newRemoteHolder,
  type RemoteHolder,
  type RemoteService,
  runOut,
  startRemote,
} from './remote.fixture.ts'

const LEASE_MS = 61_000

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
  holdings: string[]
}

/** Somebody with so many holdings of 1, and a session that may spend 10. */
async function newScene(holdings = 1, more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const ada = await newRemoteHolder(service, tenant)
  const ids = await ada.receiveAll(Array.from({ length: holdings }, () => '1'))
  const session = await newSession(service, tenant, ada, { policy: transfers(ada, '10'), ...more })
  return { tenant, ada, session, holdings: ids }
}

const settledOf = ({ tenant, ada, session }: Scene) => expectSettled(service, tenant, ada, session)
const order = ({ holdings }: Scene, index = 0) => ({
  commandId: `order-${index}`,
  commands: [transfer(holdings[index] as string)],
})
const sentBy = ({ session }: Scene) => service.remote.sent.filter(({ commandId }) => commandId.startsWith(session.id))

/** Does it the next time that a step is reached. */
function once(step: string, act: () => Promise<unknown>): void {
  service.steps[step] = async () => {
    delete service.steps[step]
    await act()
  }
}

/** A number below `n`, the same at every run. */
function dice(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * n)
  }
}

describe('what ends between reserving and signing', () => {
  const ends: [string, (scene: Scene) => Promise<unknown>, number, string][] = [
    [
      'the session is revoked',
      ({ tenant, session }) => tenant.delete(`/delegated-sessions/${session.id}`),
      410,
      'delegated_session_revoked',
    ],
    ['the session expires', async () => service.advance(2 * 3_600_000), 410, 'delegated_session_expired'],
    ['the wallet is frozen', ({ tenant, ada }) => tenant.post(`/wallets/${ada.walletId}/freeze`), 409, 'wallet_frozen'],
    [
      'the user is suspended',
      ({ tenant, ada }) => tenant.patch(`/users/${ada.userId}`, { status: 'suspended' }),
      403,
      'user_suspended',
    ],
    ['what was prepared expires', async () => service.advance(LEASE_MS), 410, 'prepared_expired'],
  ]
  test.each(ends)('%s: nothing is signed, what was reserved is free', async (_, end, status, code) => {
    const scene = await newScene()
    const signed = service.remote.signed.length
    once('reserved', () => end(scene))
    expectError(await scene.session.execute(order(scene)), status, code)
    expect(service.remote.signed).toHaveLength(signed)
    expect(sentBy(scene)).toEqual([])
    expect(await eventsOf(service, scene.tenant, 'tx.submitted')).toEqual([])
    expect(await eventsOf(service, scene.tenant, 'tx.failed')).toMatchObject([{ code }])
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('and what ends while it is prepared: it is not even reserved', async () => {
    for (const [what, end, status, code] of ends.slice(0, 4)) {
      const scene = await newScene()
      const { prepare } = service.remote
      service.remote.prepare = async (...given) => {
        service.remote.prepare = prepare
        const prepared = await prepare(...given)
        await end(scene)
        return prepared
      }
      let reserved = 0
      service.steps.reserved = async () => {
        reserved += 1
      }
      expectError(await scene.session.execute(order(scene)), status, code, what)
      expect(reserved).toBe(0)
      expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
    }
  })

  test('a user who is deleted meanwhile: nothing is signed', async () => {
    const scene = await newScene()
    const signed = service.remote.signed.length
    once('reserved', () => scene.tenant.delete(`/users/${scene.ada.userId}`))
    expectError(await scene.session.execute(order(scene)), 404, 'not_found')
    expect(service.remote.signed).toHaveLength(signed)
  })
})

test('once a revoke has answered nothing is signed: what was is in its answer, or had ended', async () => {
  const roll = dice(7)
  for (let round = 0; round < 4; round += 1) {
    const scene = await newScene(40, {})
    const { tenant, session } = scene
    service.remote.delayMs = { prepare: () => roll(60), submit: () => roll(120) }
    const from = service.remote.signed.length
    const running = Promise.all(scene.holdings.map((_, index) => session.execute(order(scene, index))))
    await expect
      .poll(() => service.remote.signed.length - from, { interval: 2, timeout: 30_000 })
      .toBeGreaterThan(round)
    const revoked = expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
    const signedByThen = service.remote.signed.slice(from)
    const answers = await running
    service.remote.heal()
    expect(service.remote.signed.slice(from)).toEqual(signedByThen)
    for (const { digest } of sentBy(scene)) expect(signedByThen).toContain(digest)
    const done = answers.filter(({ status }) => status === 200).map(({ body }) => body.data.commandId)
    expect(done).toHaveLength(signedByThen.length)
    const inFlight = revoked.inFlight.map((each: { commandId: string }) => each.commandId)
    // What is not listed had ended by then, for the session counted it.
    const rows = await service.sql<{ command_id: string; completed_at: Date }>(
      `select command_id, completed_at from transactions where delegated_session_id = $1 and status = 'completed'`,
      [session.id],
    )
    for (const row of rows)
      if (!inFlight.includes(row.command_id))
        expect(row.completed_at.getTime()).toBeLessThanOrEqual(Date.parse(revoked.revokedAt))
    for (const commandId of inFlight) expect(done).toContain(commandId)
    await runOut(service)
    expect((await settledOf(scene)).completed).toBe(done.length)
  }
})

test('a revoke that meets a signature being made waits for it, and lists it', async () => {
  const scene = await newScene()
  const { sign } = service.remote
  let revoking: Promise<Answer> | undefined
  service.remote.sign = async (...given) => {
    service.remote.sign = sign
    revoking = scene.tenant.delete(`/delegated-sessions/${scene.session.id}`)
    // Time enough for a revoke that does not wait.
    await new Promise((resolve) => setTimeout(resolve, 300))
    return sign(...given)
  }
  service.remote.next.submit = ['forget']
  const answer = expectStatus(await scene.session.execute(order(scene)), 200)
  expect(answer.status).toBe('submitted')
  const revoked = expectStatus((await revoking) as Answer, 200)
  expect(revoked).toMatchObject({
    status: 'revoked',
    inFlight: [{ transactionId: answer.transactionId, commandId: 'order-0', ledger: 'remote' }],
  })
  expect(Date.parse(revoked.inFlight[0].expiresAt)).toBeGreaterThan(Date.parse(revoked.revokedAt))
  // Nobody lists it any more once it has an outcome, which may well be that it happened.
  await service.remote.remember(service.deps.now())
  await runOut(service)
  expect((await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`)).body.data.inFlight).toEqual([])
  expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
})

describe('a request that is slower than its lease', () => {
  const reconciled = async () => {
    service.advance(LEASE_MS)
    await service.reconcile()
  }

  test('finds what it had received ended, and reserves nothing', async () => {
    const scene = await newScene()
    const { prepare } = service.remote
    service.remote.prepare = async (...given) => {
      service.remote.prepare = prepare
      const prepared = await prepare(...given)
      await reconciled()
      return prepared
    }
    expectError(await scene.session.execute(order(scene)), 409, 'transaction_failed')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('finds what it had reserved released, and signs nothing', async () => {
    const scene = await newScene()
    const signed = service.remote.signed.length
    once('reserved', async () => {
      service.advance(31_000)
      await service.reconcile()
    })
    expectError(await scene.session.execute(order(scene)), 409, 'transaction_failed')
    expect(service.remote.signed).toHaveLength(signed)
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('finds what it had signed sent by another, and that it happened once', async () => {
    const scene = await newScene()
    once('signed', async () => {
      service.advance(31_000)
      await service.reconcile()
    })
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('completed')
    expect(sentBy(scene)).toHaveLength(2)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
  })

  test('releases nothing on a refusal once another has sent it too: that one may have arrived', async () => {
    const scene = await newScene()
    const { submit } = service.remote
    service.remote.submit = async () => {
      service.remote.submit = submit
      service.remote.next.submit = ['forget']
      service.advance(31_000)
      await service.reconcile()
      throw new LedgerError('contract_archived', 'Refused, the first time.')
    }
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('submitted')
    expect(await service.remote.remember(service.deps.now())).toBe(0)
    await runOut(service)
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('completed')
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
  })

  test('nor on the refusal of what is sent again: the first may be under way', async () => {
    const scene = await newScene()
    service.remote.next.submit = ['forget', 'refuse']
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('submitted')
    service.advance(1_000)
    await service.reconcile()
    expect(sentBy(scene)).toHaveLength(2)
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('submitted')
    expect(await service.remote.remember(service.deps.now())).toBe(0)
    await runOut(service)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
  })
})

test.each(['reserved', 'signed', 'submitted', 'settled'])(
  'a request that dies after it has %s is finished by the next one under its command id, once',
  async (step) => {
    const scene = await newScene()
    once(step, async () => {
      throw new Error('killed')
    })
    expectError(await scene.session.execute(order(scene)), 500, 'internal_error')
    const next = expectStatus(await scene.session.execute(order(scene)), 200)
    if (step === 'signed') {
      expect(next.status).toBe('submitted')
      service.advance(31_000)
      await service.reconcile()
    }
    expect(expectStatus(await scene.session.execute(order(scene)), 200).status).toBe('completed')
    expect(sentBy(scene)).toHaveLength(1)
    expect(await eventsOf(service, scene.tenant, 'tx.submitted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '1' })
  },
)

test.each(['reserved', 'signed', 'submitted', 'settled'])(
  'a request that dies after it has %s and is never asked for again leaves nothing reserved',
  async (step) => {
    const scene = await newScene()
    once(step, async () => {
      throw new Error('killed')
    })
    expectError(await scene.session.execute(order(scene)), 500, 'internal_error')
    service.advance(3_600_000 / 2)
    await runOut(service)
    const happened = step === 'submitted' || step === 'settled'
    expect(await settledOf(scene)).toEqual(
      happened ? { completed: 1, failed: 0, moved: '1' } : { completed: 0, failed: 1, moved: '0' },
    )
  },
)

describe('a hundred executions at once', () => {
  const statusCounts = (answers: readonly Answer[]) => {
    const counts: Record<string, number> = {}
    for (const { status, body } of answers) {
      const what = status === 200 ? body.data.status : body.code
      counts[what] = (counts[what] ?? 0) + 1
    }
    return counts
  }

  test('spend the cap and no more', async () => {
    const scene = await newScene(100)
    const answers = await Promise.all(scene.holdings.map((_, index) => scene.session.execute(order(scene, index))))
    expect(statusCounts(answers)).toEqual({ completed: 10, spend_limit_exceeded: 90 })
    expect(await settledOf(scene)).toEqual({ completed: 10, failed: 90, moved: '10' })
    expect(await eventsOf(service, scene.tenant, 'delegated_session.denied')).toHaveLength(1)
  })

  test('use a session as often as it may be used and no more', async () => {
    const scene = await newScene(100, { maxUses: 5 })
    const answers = await Promise.all(scene.holdings.map((_, index) => scene.session.execute(order(scene, index))))
    const {
      completed,
      uses_in_flight: inFlight = 0,
      delegated_session_exhausted: exhausted = 0,
    } = statusCounts(answers)
    expect([completed, inFlight + exhausted]).toEqual([5, 95])
    expect((await settledOf(scene)).moved).toBe('5')
  })

  test.each([1, 2, 3])(
    'through a ledger that fails in every way never spend more, and leave nothing reserved (%i)',
    async (seed) => {
      const scene = await newScene(100)
      const roll = dice(seed)
      const faults: (Fault | null)[] = [
        null,
        null,
        null,
        'refuse',
        'refuse_for_now',
        'lose_before',
        'lose_after',
        'forget',
        'break',
      ]
      const any = () => faults[roll(faults.length)] as Fault | null
      service.remote.always = { prepare: () => (roll(10) === 0 ? any() : null), submit: any, getTransaction: any }
      service.remote.delayMs = { prepare: () => roll(30), submit: () => roll(30) }
      // What is left lying happens later, if there is time.
      const remember = () => service.remote.remember(service.deps.now())
      const spentMax: string[] = []
      for (let burst = 0; burst < 3; burst += 1) {
        const calls = scene.holdings.map((_, index) => scene.session.execute(order(scene, index)))
        const [answers] = await Promise.all([Promise.all(calls), service.reconcile(), remember()])
        for (const { status } of answers) expect([200, 403, 404, 409, 410, 500]).toContain(status)
        service.advance(5_000)
        await Promise.all([service.reconcile(), service.reconcile(), remember()])
        spentMax.push(await scene.ada.has(`bob::1220${'b0'.repeat(32)}`))
      }
      for (const spent of spentMax) expect(Number(spent)).toBeLessThanOrEqual(10)
      service.remote.heal()
      await runOut(service)
      await remember()
      await runOut(service)
      const { completed, moved } = await settledOf(scene)
      expect(completed).toBeGreaterThan(0)
      expect(Number(moved)).toBeLessThanOrEqual(10)
      // Each signed once, and so at most one thing under each command id.
      const digests = new Map<string, Set<string>>()
      for (const { commandId, digest } of sentBy(scene))
        digests.set(commandId, (digests.get(commandId) ?? new Set()).add(digest))
      for (const of of digests.values()) expect(of.size).toBe(1)
    },
  )
})
