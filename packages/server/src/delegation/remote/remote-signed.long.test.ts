import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Answer, Tenant } from '../../../test/harness/harness.ts'
import { eventsOf, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import type { Ledger } from '../../platform/ports/ledger.ts'
import { signatureOf } from '../../platform/ports/signature.ts'
import { onboardWallets } from '../../wallets/onboarding/onboarding.ts'
import { newWallet, newWalletKey } from '../../wallets/wallets/wallets.fixture.ts'
import {
  BOB,
  digestOf,
  expectStatus,
  newKeyHolder,
  newSession,
  ownSession,
  type Session,
  transfer,
  transfers,
} from '../delegated.fixture.ts'
import {
  expectSettled,
  newRemoteHolder,
  onRemote,
  type RemoteHolder,
  type RemoteService,
  runOut,
  startRemote,
} from './remote.fixture.ts'

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
  ada: RemoteHolder & { sign(digest: Buffer): string }
  session: Session
  holding: string
  person: Person
}

/** Somebody whose wallet on the remote ledger has a key of their own, 10 on it, and a session that may spend 5. */
async function newScene(more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant)
  const key = newWalletKey()
  const asked = { custody: 'self_custody', publicKey: key.publicKey, ledger: 'remote' }
  const { challengeId, message } = expectStatus(await person.post('/users/me/wallet/challenge', asked), 201)
  const proof = key.sign(message).toString('hex')
  const wallet = await newWallet(person, { ...asked, challengeId, proof })
  await onboardWallets(service.deps)
  const user = expectStatus(await tenant.get(`/users/${person.userId}`), 200)
  const holder = {
    userId: person.userId,
    walletId: wallet.id,
    party: wallet.partyId as string,
    issuer: `issuer::${user.partyId.split('::')[1]}`,
    asUser: { headers: { 'x-user-id': person.userId } },
    sign: (digest: Buffer) => key.sign(digest).toString('hex'),
  }
  const ada = onRemote(service, tenant, holder)
  const holding = await ada.receive('10')
  const session = await ownSession(service, { person }, { policy: transfers(ada, '5', more) })
  return { tenant, ada, session, holding, person }
}

async function asked({ session, holding }: Scene, commandId = 'a'): Promise<Answer['body']> {
  const answer = expectStatus(await session.execute({ commandId, commands: [transfer(holding, '3')] }), 200)
  expect(answer.status).toBe('signature_required')
  return answer.signingRequest
}

const signed = ({ ada }: Scene, request: { id: string; preparedTransaction: string }) => ({
  signingRequestId: request.id,
  signature: ada.sign(digestOf(request.preparedTransaction)),
})

const settledOf = ({ tenant, ada, session }: Scene) => expectSettled(service, tenant, ada, session)

describe('a wallet in self-custody on a ledger beyond a network', () => {
  test('reserves, asks for the signature, and sends what its owner has signed', async () => {
    const scene = await newScene()
    const { tenant, session } = scene
    const nodeSigned = service.remote.signed.length
    const request = await asked(scene)
    expect(digestOf(request.preparedTransaction).toString('hex')).toBe(request.digest)
    expect(await eventsOf(service, tenant, 'tx.submitted')).toEqual([])
    expect((await asked(scene)).id).toBe(request.id)
    const done = expectStatus(await session.execute(signed(scene, request)), 200)
    expect(done).toMatchObject({ status: 'completed', commandId: 'a', transactionId: request.id, signingRequest: null })
    expect(expectStatus(await session.execute(signed(scene, request)), 200)).toEqual(done)
    expect(service.remote.signed).toHaveLength(nodeSigned)
    expect(await eventsOf(service, tenant, 'tx.submitted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('sends nothing once the recipient is no longer in the address book, and gives back what it held', async () => {
    const scene = await newScene({ conditions: [{ recipients: 'address_book' }] })
    const { tenant, ada, session, person } = scene
    expectStatus(await tenant.patch(`/apps/${tenant.appId}`, { addressBook: { coolingOffSeconds: 0 } }), 200)
    const path = `/wallets/${ada.walletId}/recipients`
    const entry = expectStatus(await person.post(path, { recipient: BOB, label: 'Bob' }), 201)
    const request = await asked(scene)
    expectStatus(await tenant.delete(`${path}/${entry.id}`), 200)
    const sent = service.remote.sent.length
    const refused = await session.execute(signed(scene, request))
    expectError(refused, 403, 'policy_denied')
    expect(refused.body.details[0]).toMatchObject({ rule: 'conditions[0]', recipient: BOB })
    expect(service.remote.sent).toHaveLength(sent)
    expect(await eventsOf(service, tenant, 'delegated_session.denied')).toMatchObject([{ rule: 'conditions[0]' }])
    expectError(await session.execute(signed(scene, request)), 403, 'policy_denied')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('a wrong signature changes nothing and never reaches the ledger; the right one still does', async () => {
    const scene = await newScene()
    const { session } = scene
    const sent = service.remote.sent.length
    const [request, other] = [await asked(scene), await newScene().then((of) => asked(of))]
    const right = signed(scene, request)
    for (const signature of [
      signed(scene, other).signature,
      newWalletKey().sign(request.digest).toString('hex'),
      '0'.repeat(128),
      scene.ada.sign(Buffer.from(request.preparedTransaction, 'base64')),
    ])
      for (const headers of [{}, { 'idempotency-key': 'k' }]) {
        const answer = await session.execute({ ...right, signature }, { headers })
        expectError(answer, 400, 'signature_invalid')
        expect(answer.body.details[0].field).toBe('signature')
      }
    expect(service.remote.sent).toHaveLength(sent)
    const missing = await session.execute({ ...right, signingRequestId: other.id })
    expectError(missing, 404, 'not_found')
    expect(missing.body.details[0].field).toBe('signingRequestId')
    expectStatus(await session.execute(right, { headers: { 'idempotency-key': 'k' } }), 200)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('by twenty calls with the signature is sent once', async () => {
    const scene = await newScene()
    const body = signed(scene, await asked(scene))
    const answers = await Promise.all(Array.from({ length: 20 }, () => scene.session.execute(body)))
    for (const answer of answers) expect(['completed', 'submitted']).toContain(expectStatus(answer, 200).status)
    expect(service.remote.sent.filter(({ commandId }) => commandId.startsWith(scene.session.id))).toHaveLength(1)
    expect(await eventsOf(service, scene.tenant, 'tx.submitted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('what gets no answer is found out as for any other', async () => {
    const scene = await newScene()
    const body = signed(scene, await asked(scene))
    service.remote.next.submit = ['lose_before']
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('submitted')
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('submitted')
    service.advance(1_000)
    await service.reconcile()
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('completed')
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('a revoked session sends no signature any more, and what it had reserved is free', async () => {
    const scene = await newScene()
    const body = signed(scene, await asked(scene))
    const revoked = expectStatus(await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`), 200)
    expect(revoked.inFlight).toEqual([])
    expectError(await scene.session.execute(body), 410, 'delegated_session_revoked')
    expectError(await scene.session.execute(body), 410, 'delegated_session_revoked')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('what nobody signs in time is over, and free once the ledger has it neither', async () => {
    const scene = await newScene()
    const body = signed(scene, await asked(scene))
    service.advance(10 * MINUTE_MS)
    await service.reconcile()
    expect(
      await service.sql('select 1 from transactions where id = $1 and status = $2', [
        body.signingRequestId,
        'signature_required',
      ]),
    ).toHaveLength(1)
    await runOut(service)
    expectError(await scene.session.execute(body), 410, 'prepared_expired')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('one who signs late is told so, and that is the end of it', async () => {
    const scene = await newScene()
    const body = signed(scene, await asked(scene))
    service.advance(10 * MINUTE_MS)
    expectError(await scene.session.execute(body), 410, 'prepared_expired')
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
  })

  test('what its owner has sent to the ledger past us is counted', async () => {
    const scene = await newScene()
    const { id, preparedTransaction, publicKey } = await asked(scene)
    const bytes = Buffer.from(preparedTransaction, 'base64')
    const signature = Buffer.from(scene.ada.sign(digestOf(preparedTransaction)), 'hex')
    const by = [signatureOf(Buffer.from(publicKey, 'hex'), signature)]
    const embedded = service.deps.ledgers.get('embedded') as Ledger
    await embedded.submit(service.deps.db, scene.tenant.tenantId as never, bytes, by, service.deps.now())
    await runOut(service)
    expect(expectStatus(await scene.tenant.get(`/transactions/${id}`), 200).status).toBe('completed')
    expect(await eventsOf(service, scene.tenant, 'tx.submitted')).toHaveLength(1)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })
})

test('on the embedded ledger what nobody signs is free as soon as it has expired, and told of as failed', async () => {
  const tenant = await service.newTenant()
  const ada = await newKeyHolder(service, tenant)
  const holding = await ada.receive('10')
  const session = await ownSession(service, ada, { policy: transfers(ada, '5'), maxUses: 1 })
  const asked = expectStatus(await session.execute({ commands: [transfer(holding, '5')] }), 200)
  expectError(await session.execute({ commands: [transfer(holding, '5')] }), 409, 'uses_in_flight')
  service.advance(9 * MINUTE_MS)
  await service.reconcile()
  expectError(await session.execute({ commands: [transfer(holding, '5')] }), 409, 'uses_in_flight')
  service.advance(MINUTE_MS)
  await Promise.all(Array.from({ length: 20 }, () => service.reconcile()))
  const told = await eventsOf(service, tenant, 'tx.failed')
  expect(told).toMatchObject([{ transactionId: asked.transactionId, code: 'prepared_expired' }])
  const state = expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
  expect([state.uses, state.remaining.spend[0].spent]).toEqual([0, '0'])
  expect(expectStatus(await session.execute({ commands: [transfer(holding, '5')] }), 200).status).toBe(
    'signature_required',
  )
})

describe('an Idempotency-Key beside a command for a ledger beyond a network', () => {
  async function newPlain() {
    const tenant = await service.newTenant()
    const ada = await newRemoteHolder(service, tenant)
    const holding = await ada.receive('10')
    const session = await newSession(service, tenant, ada, { policy: transfers(ada, '5') })
    const keyed = (body: object, key = 'k') => session.execute(body, { headers: { 'idempotency-key': key } })
    return { tenant, ada, session, holding, keyed }
  }

  test('twenty calls without a command id are one transaction, answered again as it was', async () => {
    const { tenant, ada, session, holding, keyed } = await newPlain()
    const body = { commands: [transfer(holding, '3')] }
    const answers = await Promise.all(Array.from({ length: 20 }, () => keyed(body)))
    // A slow ledger's outcome is not known in time, and that answer is not kept.
    const done = await keyed(body)
    const { transactionId, status } = expectStatus(done, 200)
    expect(status).toBe('completed')
    for (const answer of answers)
      if (answer.status === 200) expect(answer.body.data.transactionId).toBe(transactionId)
      else expectError(answer, 409, 'idempotency_in_progress')
    const again = await keyed(body)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.text).toBe(done.text)
    expectError(await keyed({ commands: [transfer(holding, '2')] }), 409, 'idempotency_conflict')
    expect(await expectSettled(service, tenant, ada, session)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('an outcome that is not known is not kept as the answer: the same call finds it out', async () => {
    const { tenant, ada, session, holding, keyed } = await newPlain()
    const body = { commands: [transfer(holding, '3')] }
    service.remote.next.submit = ['lose_before']
    const first = expectStatus(await keyed(body), 200)
    expect(first.status).toBe('submitted')
    expect(expectStatus(await keyed(body), 200).status).toBe('submitted')
    service.advance(1_000)
    await service.reconcile()
    const last = await keyed(body)
    expect(expectStatus(last, 200)).toMatchObject({ status: 'completed', transactionId: first.transactionId })
    expect((await keyed(body)).text).toBe(last.text)
    expect(await expectSettled(service, tenant, ada, session)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('a process that dies after it has reserved is taken over by the repeat', async () => {
    const { tenant, ada, session, holding, keyed } = await newPlain()
    service.steps.reserved = async () => {
      delete service.steps.reserved
      throw new Error('killed')
    }
    const body = { commands: [transfer(holding, '3')] }
    expectError(await keyed(body), 500, 'internal_error')
    expect(expectStatus(await keyed(body), 200).status).toBe('completed')
    expect(await expectSettled(service, tenant, ada, session)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('queries and dry runs ask the ledger outside any transaction, and are refused when it is away', async () => {
    const { ada, session, holding, keyed } = await newPlain()
    const headers = { 'idempotency-key': 'q' }
    const body = { commands: [transfer(holding, '3')], dryRun: true }
    const from = service.remote.asked.length
    expect(expectStatus(await keyed(body), 200)).toMatchObject({ status: 'dry_run', transactionId: null })
    expect(expectStatus(await session.query({}, { headers }), 200).contracts).toHaveLength(1)
    expect((await session.query({}, { headers })).headers.get('idempotency-replayed')).toBe('true')
    const asked = service.remote.asked.slice(from)
    expect(asked.map(({ ask }) => ask)).toEqual(['prepare', 'declaredConsequences', 'query'])
    expect(asked.filter(({ inTransaction }) => inTransaction)).toEqual([])
    service.remote.isDown = true
    expectError(await session.query(), 500, 'ledger_unavailable')
    expectError(await session.execute({ ...body, commandId: 'other' }), 500, 'ledger_unavailable')
    expect(await ada.has(ada.party)).toBe('10')
  })
})
