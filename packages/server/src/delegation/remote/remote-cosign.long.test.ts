import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import type { Tenant } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../../keys/key-shares/key-shares.fixture.ts'
import { reshare } from '../../keys/recovery/recovery.fixture.ts'
import type { Ledger } from '../../platform/ports/ledger.ts'
import { signatureOf } from '../../platform/ports/signature.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { onboardWallets } from '../../wallets/onboarding/onboarding.ts'
import { BOB, digestOf, expectStatus, ownSession, type Session, transfer, transfers } from '../delegated.fixture.ts'
import { onRemote, type RemoteHolder, type RemoteService, runOut, startRemote } from './remote.fixture.ts'

let service: RemoteService
beforeAll(async () => {
  service = await startRemote()
})
afterEach(() => {
  service.remote.heal()
  for (const step of Object.keys(service.steps)) delete service.steps[step]
})
afterAll(() => service.stop())

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

interface Scene {
  tenant: Tenant
  split: SplitWallet
  ada: RemoteHolder
  session: Session
  holding: string
}

/** Somebody with a shared wallet on a ledger, 10 on it, and a session that may spend 5. */
async function newScene(ledger = 'remote', more: object = {}): Promise<Scene> {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant)
  const onLedger: Person = {
    ...person,
    post: (path, body, options) =>
      person.post(path, path.endsWith('/challenge') ? { ...(body as object), ledger } : body, options),
  }
  const split = { ...(await newSharedWallet(service, tenant, { person: onLedger })), person }
  await onboardWallets(service.deps)
  const user = expectStatus(await tenant.get(`/users/${person.userId}`), 200)
  const ada = onRemote(service, tenant, {
    userId: person.userId,
    walletId: split.walletId,
    party: split.wallet.partyId as string,
    issuer: `issuer::${user.partyId.split('::')[1]}`,
    asUser: { headers: { 'x-user-id': person.userId } },
  })
  const holding = await ada.receive('10')
  const session = await ownSession(service, split, { policy: transfers(ada, '5', more) })
  return { tenant, split, ada, session, holding }
}

/** The device's side of one signature. */
function signer(of: Pick<SplitWallet, 'sharing' | 'share'>) {
  const { nonces, commitments } = keys.commitNonces(of.share(2))
  return {
    wire: { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) },
    // biome-ignore lint/suspicious/noExplicitAny: as it came over the wire
    signing: (request: any) => {
      const { serverCommitments: theirs, serverSignatureShare } = request
      const [hiding, binding] = [keys.fromHex(theirs.hiding), keys.fromHex(theirs.binding)]
      const message = digestOf(request.preparedTransaction)
      return {
        signing: { sharing: of.sharing, commitments: [{ index: 1, hiding, binding }, commitments], message },
        part: { index: 1, value: keys.fromHex(serverSignatureShare) },
      }
    },
    // biome-ignore lint/suspicious/noExplicitAny: as it came over the wire
    sign(request: any): string {
      const { signing, part } = this.signing(request)
      return hex(keys.aggregate(signing, [part, keys.signShare(signing, of.share(2), nonces)]))
    },
  }
}

const remainingOf = async ({ tenant, session }: Scene): Promise<string> =>
  expectStatus(await tenant.get(`/delegated-sessions/${session.id}`), 200).remaining.spend[0].remaining

/** Asks for 3 of the 5. */
async function asked({ session, holding, split }: Scene, commandId = 'a') {
  const mine = signer(split)
  const body = { commandId, commands: [transfer(holding, '3')], commitments: mine.wire }
  const data = expectStatus(await session.execute(body), 200)
  expect(data.status).toBe('signature_required')
  return { mine, body, request: data.signingRequest }
}

/** As who has the whole signature and an entrance of their own to the ledger can. */
async function submitDirectly({ tenant, split }: Scene, preparedTransaction: string, signature: string) {
  const ledger = service.deps.ledgers.get('embedded') as Ledger
  const signed = signatureOf(Buffer.from(split.publicKey), Buffer.from(signature, 'hex'))
  const bytes = Buffer.from(preparedTransaction, 'base64')
  await service.deps.db.tx((tx) => ledger.submit(tx, tenant.tenantId as never, bytes, [signed], service.deps.now()))
}

describe('a shared key on a ledger beyond a network', () => {
  test('signs in two parts, and what is co-signed is sent once', async () => {
    const scene = await newScene()
    const { mine, request } = await asked(scene)
    const body = { signingRequestId: request.id, signature: mine.sign(request) }
    const answers = await Promise.all(Array.from({ length: 20 }, () => scene.session.execute(body)))
    for (const answer of answers) expect(answer.status, answer.text).toBe(200)
    expect(await scene.ada.has(BOB)).toBe('3')
    expect(service.remote.sent.filter(({ commandId }) => commandId.startsWith(scene.session.id))).toHaveLength(1)
  })

  test('revoked: the answer lists what was co-signed and can still be completed without us', async () => {
    const scene = await newScene()
    const { mine, request } = await asked(scene)
    const revoked = expectStatus(await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`), 200)
    expect(revoked.inFlight).toMatchObject([{ transactionId: request.id, commandId: 'a', ledger: 'remote' }])
    await submitDirectly(scene, request.preparedTransaction, mine.sign(request))
    expect(await scene.ada.has(BOB)).toBe('3')
    await runOut(service)
    expect(await remainingOf(scene)).toBe('2')
  })

  test('revoked: nothing is listed where only we could complete it', async () => {
    const scene = await newScene('embedded')
    await asked(scene)
    const revoked = expectStatus(await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`), 200)
    expect(revoked.inFlight).toEqual([])
  })

  test('what a whole signature spends stays spent when the ledger refuses it once: it could be sent again', async () => {
    const scene = await newScene()
    const { mine, request } = await asked(scene)
    const signature = mine.sign(request)
    service.remote.next.submit = ['refuse']
    const refused = await scene.session.execute({ signingRequestId: request.id, signature })
    expect(refused.status, refused.text).toBeGreaterThanOrEqual(400)
    expect(await remainingOf(scene)).toBe('2')
    await submitDirectly(scene, request.preparedTransaction, signature)
    await runOut(service)
    expect(await scene.ada.has(BOB)).toBe('3')
    expect(await remainingOf(scene)).toBe('2')
  })

  test('what was refused and never happens is given back once it is too late for it', async () => {
    const scene = await newScene()
    const { mine, request } = await asked(scene)
    service.remote.always.submit = () => 'refuse'
    await scene.session.execute({ signingRequestId: request.id, signature: mine.sign(request) })
    await runOut(service)
    expect(await remainingOf(scene)).toBe('5')
    expect(await scene.ada.has(BOB)).toBe('0')
  })

  test('a service that is too busy to co-sign says so, and does the same request later', async () => {
    const scene = await newScene()
    const mine = signer(scene.split)
    const dealt = keys.dealShares({ threshold: 15, total: 15 })
    let over = false
    // Whoever was done asks again before anybody else gets a turn: until the answer is there no place is free.
    const work = async () => {
      while (!over) await service.deps.threads.run('joinShares', dealt.sharing, dealt.shares)
    }
    const busy = Array.from({ length: 300 }, () => work().catch(() => undefined))
    const body = { commandId: 'busy', commands: [transfer(scene.holding, '3')], commitments: mine.wire }
    const answer = await scene.session.execute(body)
    over = true
    expect(answer.status, answer.text).toBe(429)
    await Promise.all(busy)
    expect(expectStatus(await scene.session.execute(body), 200).status).toBe('signature_required')
  }, 180_000)
})

describe('a co-signature on a ledger beyond a network', () => {
  const complete = ({ session }: Scene, { id }: { id: string }, signature: string) =>
    session.execute({ signingRequestId: id, signature })

  test('is made once: a repeat answers the same bytes, other commitments are a conflict', async () => {
    const scene = await newScene()
    const { body, request } = await asked(scene)
    expect((await scene.session.execute(body)).body.data.signingRequest).toEqual(request)
    const other = { ...body, commitments: signer(scene.split).wire }
    expectError(await scene.session.execute(other), 409, 'duplicate_command', 'commitments')
  })

  test('is refused for commitments that are none, which reserve nothing', async () => {
    const scene = await newScene()
    const commitments = { ...signer(scene.split).wire, hiding: `01${'00'.repeat(31)}` }
    const answer = await scene.session.execute({ commands: [transfer(scene.holding, '3')], commitments })
    expect([answer.status, answer.body.details[0].field]).toEqual([400, 'commitments'])
    expect(await remainingOf(scene)).toBe('5')
  })

  test('counts as spent until the ledger says that it is too late, whatever becomes of session and wallet', async () => {
    for (const end of ['revoke', 'freeze'] as const) {
      const scene = await newScene()
      const { mine, request } = await asked(scene)
      if (end === 'revoke') expectStatus(await scene.tenant.delete(`/delegated-sessions/${scene.session.id}`), 200)
      else expectStatus(await scene.tenant.post(`/wallets/${scene.split.walletId}/freeze`), 200)
      expect([409, 410]).toContain((await complete(scene, request, mine.sign(request))).status)
      await service.reconcile()
      expect(await remainingOf(scene)).toBe('2')
      await runOut(service)
      expect(await remainingOf(scene)).toBe('5')
    }
  })

  test('is not completed after the hours have ended, and counts as spent until the ledger says that it is too late', async () => {
    service.advance(60_000 - (service.deps.now().getTime() % 60_000))
    const clock = (minutes: number) =>
      new Date(service.deps.now().getTime() + minutes * 60_000).toISOString().slice(11, 16)
    const scene = await newScene('remote', {
      conditions: [{ hours: { from: clock(-60), to: clock(1), timeZone: 'UTC' } }],
    })
    const { mine, request } = await asked(scene)
    service.advance(61_000)
    expectError(await complete(scene, request, mine.sign(request)), 403, 'policy_denied')
    expect(service.remote.sent.filter(({ commandId }) => commandId.startsWith(scene.session.id))).toEqual([])
    expect(await remainingOf(scene)).toBe('2')
    await runOut(service)
    expect(await remainingOf(scene)).toBe('5')
    expect(await scene.ada.has(BOB)).toBe('0')
  })

  test('is the same after the process died when it was stored', async () => {
    const scene = await newScene()
    const mine = signer(scene.split)
    const body = { commandId: 'a', commands: [transfer(scene.holding, '3')], commitments: mine.wire }
    service.steps.reserved = async () => {
      throw new Error('the process died here')
    }
    expectError(await scene.session.execute(body), 500, 'internal_error')
    delete service.steps.reserved
    const { signingRequest } = expectStatus(await scene.session.execute(body), 200)
    expectStatus(await complete(scene, signingRequest, mine.sign(signingRequest)), 200)
    expect(await scene.ada.has(BOB)).toBe('3')
  })

  test('that is completed wrongly ten times ends the session, and nothing of it reaches the ledger', async () => {
    const scene = await newScene()
    const { mine, request } = await asked(scene)
    const wrong = hex(keys.signWithScalar(keys.utf8('another'), scene.split.share(2).scalar))
    for (let n = 0; n < 10; n += 1) expectError(await complete(scene, request, wrong), 400, 'signature_invalid')
    expectError(await complete(scene, request, mine.sign(request)), 410, 'delegated_session_revoked')
    expect(service.remote.sent.filter(({ commandId }) => commandId.startsWith(scene.session.id))).toEqual([])
  })
})

describe('a key that is shared anew while the service co-signs', () => {
  for (const ledger of ['embedded', 'remote'])
    test(`gets no part by the old share any more (${ledger})`, async () => {
      const scene = await newScene(ledger)
      const { split, session, holding } = scene
      const mine = signer(split)
      let done = false
      service.steps.cosigned = async () => {
        if (done) return
        done = true
        await reshare(split, [1, 3])
      }
      const answer = await session.execute({ commands: [transfer(holding, '3')], commitments: mine.wire })
      expect(done).toBe(true)
      // Refused, or made anew by the new share: with the old device share there is no signature.
      const request = answer.body.data?.signingRequest
      if (request === undefined)
        return expect([409, 'signing_request_superseded']).toEqual([answer.status, answer.body.code])
      const { signing, part } = mine.signing(request)
      expect(keys.isSignatureShare(signing, part)).toBe(false)
    })
})
