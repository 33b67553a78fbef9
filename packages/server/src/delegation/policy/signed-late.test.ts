import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import {
  BOB,
  digestOf,
  expectStatus,
  holdingsOf,
  newKeyHolder,
  ownSession,
  transfer,
  transfers,
} from '../delegated.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const MINUTE_MS = 60_000

/** The time of day at UTC, some minutes from now. */
const clock = (minutes: number) =>
  new Date(service.deps.now().getTime() + minutes * MINUTE_MS).toISOString().slice(11, 16)

/** Somebody with a key of their own, whose address book has Bob, and what a session of theirs has asked to sign: all of its cap. */
async function asked(conditions: object[]) {
  const tenant = await service.newTenant()
  expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 0 } }), 200)
  const ada = await newKeyHolder(service, tenant)
  const path = `/wallets/${ada.walletId}/recipients`
  const entry = expectStatus(await ada.person.post(path, { recipient: BOB, label: 'Bob' }), 201)
  const session = await ownSession(service, ada, { policy: transfers(ada, '3', { conditions }) })
  const commands = [transfer(await ada.receive('10'), '3')]
  const ask = async (commandId: string) => {
    const { status, signingRequest } = expectStatus(await session.execute({ commandId, commands }), 200)
    expect(status).toBe('signature_required')
    const signature = ada.sign(digestOf(signingRequest.preparedTransaction))
    return { signingRequestId: signingRequest.id, signature }
  }
  const leftOf = async () => {
    const { uses, remaining } = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
    return [uses, remaining.spend[0].remaining]
  }
  return { tenant, session, signed: await ask('a'), ask, leftOf, entry: `${path}/${entry.id}` }
}

type Scene = Awaited<ReturnType<typeof asked>>

const amounts = async ({ session }: Scene) => (await holdingsOf(session)).map(({ amount }) => amount)

/** Refused by the first condition, also when it is sent again; nothing was paid, and nothing is held. */
async function expectRefused(scene: Scene): Promise<void> {
  const { tenant, session, signed, leftOf } = scene
  expect(await leftOf()).toEqual([1, '0'])
  const answers: Answer[] = [await session.execute(signed), await session.execute(signed)]
  for (const answer of answers) {
    expectError(answer, 403, 'policy_denied')
    expect(answer.body.details[0]).toMatchObject({ field: 'commands', rule: 'conditions[0]' })
  }
  expect(await amounts(scene)).toEqual(['10'])
  expect(await leftOf()).toEqual([0, '3'])
  expect(await eventsOf(service, tenant, 'tx.failed')).toMatchObject([{ transactionId: signed.signingRequestId }])
  expect(await eventsOf(service, tenant, 'tx.completed')).toEqual([])
  expect(await eventsOf(service, tenant, 'delegated_session.denied')).toMatchObject([{ rule: 'conditions[0]' }])
}

describe('a signature that comes after a condition has ceased to be met', () => {
  test('pays nobody whom the owner has removed from their address book meanwhile', async () => {
    const scene = await asked([{ recipients: 'address_book' }])
    expectStatus(await scene.tenant.delete(scene.entry), 200)
    await expectRefused(scene)
  })

  test('pays nothing after the end of the hours', async () => {
    service.advance(MINUTE_MS - (service.deps.now().getTime() % MINUTE_MS))
    const scene = await asked([{ hours: { from: clock(-60), to: clock(3), timeZone: 'UTC' } }])
    service.advance(4 * MINUTE_MS)
    await expectRefused(scene)
  })
})

test('what a request holds itself does not stand in the way of its signature', async () => {
  const scene = await asked([
    { rate: { executions: 1, withinSeconds: 3600 } },
    { recipients: 'address_book' },
    { hours: { from: '00:00', to: '24:00', timeZone: 'UTC' } },
  ])
  expect(expectStatus(await scene.session.execute(scene.signed), 200).status).toBe('completed')
  expect(await amounts(scene)).toEqual(['7'])
  expect(await scene.leftOf()).toEqual([1, '0'])
})
