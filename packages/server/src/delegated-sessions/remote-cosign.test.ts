import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../test/envelope.ts'
import type { Answer, Tenant } from '../../test/harness.ts'
import * as keys from '../core/threshold.ts'
import { runDkg, type SharedWallet } from '../key-generations/key-generations.fixture.ts'
import { signInAs } from '../sessions/sessions.fixture.ts'
import { onboardWallets } from '../wallets/onboarding-service.ts'
import { digestOf, expectStatus, ownSession, type Session, transfer, transfers } from './delegated.fixture.ts'
import {
  expectSettled,
  onRemote,
  type RemoteHolder,
  type RemoteService,
  runOut,
  startRemote,
} from './remote.fixture.ts'

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
  key: SharedWallet
  session: Session
  holding: string
}

/** Somebody whose wallet on the remote ledger has a shared key, 10 on it, and a session that may spend 5. */
async function newScene(): Promise<Scene> {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant)
  const key = await runDkg(person, { ledger: 'remote' })
  await onboardWallets(service.deps)
  const user = expectStatus(await tenant.get(`/users/${person.userId}`), 200)
  const ada = onRemote(service, tenant, {
    userId: person.userId,
    walletId: key.wallet.id as string,
    party: key.wallet.partyId as string,
    issuer: `issuer::${user.partyId.split('::')[1]}`,
    asUser: { headers: { 'x-user-id': person.userId } },
  })
  const holding = await ada.receive('10')
  const session = await ownSession(service, { person }, { policy: transfers(ada, '5') })
  return { tenant, ada, key, session, holding }
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytes = (text: string) => Buffer.from(text, 'hex')

/** The delegate's side of one signature. */
function signer({ key }: Scene) {
  const { nonces, commitments } = keys.commitNonces(key.device)
  const wire = { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) }
  const sign = ({ id, preparedTransaction, serverCommitments, serverSignatureShare }: Answer['body']) => {
    const { index, hiding, binding } = serverCommitments
    const theirs = { index, hiding: bytes(hiding), binding: bytes(binding) }
    const message = digestOf(preparedTransaction)
    const signing = { sharing: key.sharing, commitments: [theirs, commitments], message }
    const mine = keys.signShare(signing, key.device, nonces)
    const signature = keys.aggregate(signing, [{ index: 1, value: bytes(serverSignatureShare) }, mine])
    return { signingRequestId: id as string, signature: hex(signature) }
  }
  return { wire, sign }
}

const ask = ({ session, holding }: Scene, commitments: object, commandId = 'a') =>
  session.execute({ commandId, commands: [transfer(holding, '3')], commitments })

const settledOf = ({ tenant, ada, session }: Scene) => expectSettled(service, tenant, ada, session)

describe('a shared wallet on a ledger beyond a network', () => {
  test('reserves, answers the service’s part of the signature, and sends what both have signed', async () => {
    const scene = await newScene()
    const mine = signer(scene)
    const asked = await ask(scene, mine.wire)
    const { status, signingRequest } = expectStatus(asked, 200)
    expect(status).toBe('signature_required')
    expect((await ask(scene, mine.wire)).text).toBe(asked.text)
    expectError(await ask(scene, signer(scene).wire), 409, 'duplicate_command', 'commitments')
    const done = expectStatus(await scene.session.execute(mine.sign(signingRequest)), 200)
    expect(done).toMatchObject({ status: 'completed', signingRequest: null })
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('refuses commitments that are none, and reserves nothing for them', async () => {
    const scene = await newScene()
    const { wire } = signer(scene)
    const answer = await ask(scene, { ...wire, hiding: `01${'00'.repeat(31)}` })
    expect([answer.status, answer.body.details[0].field]).toEqual([400, 'commitments'])
    expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
    expectStatus(await ask(scene, wire, 'b'), 200)
  })

  test('a part that has left counts as spent until the ledger says that it is too late, whatever becomes of the session', async () => {
    for (const end of ['revoke', 'freeze'] as const) {
      const scene = await newScene()
      const { tenant, session, ada } = scene
      const mine = signer(scene)
      const { signingRequest } = expectStatus(await ask(scene, mine.wire), 200)
      if (end === 'revoke') expectStatus(await tenant.delete(`/delegated-sessions/${session.id}`), 200)
      else expectStatus(await tenant.post(`/wallets/${ada.walletId}/freeze`), 200)
      const refused = await session.execute(mine.sign(signingRequest))
      expect([409, 410]).toContain(refused.status)
      await service.reconcile()
      const state = async () => expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200)
      expect((await state()).remaining.spend[0].spent).toBe('3')
      await runOut(service)
      expect((await state()).remaining.spend[0].spent).toBe('0')
      expect(await settledOf(scene)).toEqual({ completed: 0, failed: 1, moved: '0' })
    }
  })

  test('is answered the same part where the process died after it was stored', async () => {
    const scene = await newScene()
    const mine = signer(scene)
    service.steps.reserved = async () => {
      throw new Error('the process died here')
    }
    expectError(await ask(scene, mine.wire), 500, 'internal_error')
    delete service.steps.reserved
    const { signingRequest } = expectStatus(await ask(scene, mine.wire), 200)
    expect((await ask(scene, mine.wire)).body.data.signingRequest).toEqual(signingRequest)
    expectStatus(await scene.session.execute(mine.sign(signingRequest)), 200)
    expect(await settledOf(scene)).toEqual({ completed: 1, failed: 0, moved: '3' })
  })

  test('the tenth wrong signature ends the session, and none of them reaches the ledger', async () => {
    const scene = await newScene()
    const mine = signer(scene)
    const { signingRequest } = expectStatus(await ask(scene, mine.wire), 200)
    const sent = service.remote.sent.length
    const right = mine.sign(signingRequest)
    const wrong = { ...right, signature: hex(keys.signWithScalar(keys.utf8('another'), scene.key.device.scalar)) }
    for (let n = 0; n < 10; n += 1) expectError(await scene.session.execute(wrong), 400, 'signature_invalid')
    expectError(await scene.session.execute(right), 410, 'delegated_session_revoked')
    expect(service.remote.sent).toHaveLength(sent)
  })
})
