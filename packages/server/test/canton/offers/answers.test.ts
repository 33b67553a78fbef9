// Answers to transfers in two steps: by a delegated session, with the policy and the signature of any other transaction.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { executeOnCanton, type OwnKey } from '../../../../keys/src/canton/index.ts'
import type { TransferOffer } from '../../../../sdk/src/index.ts'
import { expectStatus, newSession } from '../../../src/delegation/delegated.fixture.ts'
import { expectError } from '../../harness/envelope.ts'
import { call } from '../../harness/harness.ts'
import type { CantonHolder } from '../canton.fixture.ts'
import { newOwn, newShared, type Owner, ready } from '../owner.fixture.ts'
import { INSTRUCTION, OFFER, TOKEN } from '../tokens.ts'
import {
  ANSWERS,
  answered,
  contractOf,
  newAnswering,
  type OffersScene,
  STRANGER,
  startOffers,
} from './offers.fixture.ts'

let scene: OffersScene
beforeAll(async () => {
  scene = await startOffers()
})
afterEach(() => scene.service.participant.heal())
afterAll(() => scene.stop())

/** The id of an offer, once it was seen. */
async function offerId(sender: string, receiver: string, of: CantonHolder, amount = '3'): Promise<string> {
  const contract = scene.offered(sender, receiver, amount)
  await scene.follow()
  const offers = await scene.offersOf(of)
  return offers.find(({ contractId }) => contractId === contract)?.id as unknown as string
}

const statusOf = async ({ walletId }: CantonHolder, id: string) =>
  expectStatus(await scene.tenant.get(`/wallets/${walletId}/transfer-offers/${id}`), 200).status
const tokensOf = (owner: string) =>
  scene.service.participant.active(TOKEN, { owner }).map(({ fields }) => fields.amount)
const isOpen = (id: string) => scene.service.participant.active(OFFER, {}).some(({ contractId }) => contractId === id)

test('a receiver accepts, which is no payment and happens once for each command id', async () => {
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const { answer } = await newAnswering(scene, ada)
  const body = { commandId: 'take' }
  const dry = expectStatus(await answer(id, 'accept', { ...body, dryRun: true }), 200)
  expect([dry.status, dry.decision.allowed, tokensOf(ada.party)]).toEqual(['dry_run', true, []])
  const done = expectStatus(await answer(id, 'accept', body), 200)
  expect(done).toMatchObject({ status: 'completed', commandId: 'take' })
  expect(done.effects[0]).toMatchObject({ templateId: INSTRUCTION, choice: 'TransferInstruction_Accept' })
  await scene.follow()
  expect([await statusOf(ada, id), await scene.sums(ada)]).toEqual(['accepted', { GOLD: '3' }])
  const { settled } = await scene.told(ada)
  expect(settled).toMatchObject([{ offerId: id, outcome: 'accepted' }])
  // A repeat is the same answer; another one comes too late.
  expect(expectStatus(await answer(id, 'accept', body), 200).updateId).toBe(done.updateId)
  expectError(await answer(id, 'accept'), 409, 'offer_settled')
  expectError(await answer(id, 'reject', body), 409, 'duplicate_command')
  expect(tokensOf(ada.party)).toEqual(['3'])
})

test('a receiver rejects, a sender withdraws, and neither does what is the other’s', async () => {
  const [ada, bob] = [await scene.newHolder(), await scene.newHolder()]
  const [his, hers] = [await newAnswering(scene, bob), await newAnswering(scene, ada)]
  const [rejected, withdrawn] = [await offerId(ada.party, bob.party, bob), await offerId(ada.party, bob.party, ada)]
  expectError(await his.answer(rejected, 'withdraw'), 403, 'offer_not_yours')
  for (const how of ['accept', 'reject']) expectError(await hers.answer(withdrawn, how), 403, 'offer_not_yours')
  expectStatus(await his.answer(rejected, 'reject'), 200)
  expectStatus(await hers.answer(withdrawn, 'withdraw'), 200)
  await scene.follow()
  expect([await statusOf(bob, rejected), await statusOf(ada, withdrawn)]).toEqual(['rejected', 'withdrawn'])
  expect([tokensOf(ada.party), tokensOf(bob.party)]).toEqual([['3', '3'], []])
})

test('a policy that does not name the answer, or what it causes, allows none', async () => {
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const [first, ...rest] = ANSWERS.allow
  const only = (choices: string[]) => ({ allow: [{ ...first, choices }, ...rest] })
  const policies = [
    { allow: [first] },
    { allow: rest },
    { allow: ANSWERS.allow.slice(0, 2) },
    only(['TransferInstruction_Reject']),
  ]
  for (const policy of policies) {
    const { answer } = await newAnswering(scene, ada, policy)
    expectError(await answer(id, 'accept'), 403, 'policy_denied')
  }
  expect([await statusOf(ada, id), tokensOf(ada.party)]).toEqual(['open', []])
})

test('nobody answers by a session that is not theirs, ended, or of another wallet', async () => {
  const { service, tenant } = scene
  const [ada, bob] = [await scene.newHolder(), await scene.newHolder()]
  const [his, hers] = [await newAnswering(scene, bob), await newAnswering(scene, ada)]
  const id = await offerId(STRANGER, ada.party, ada)
  // His offer on her wallet, her offer on his session, her offer on his wallet, his token with her session.
  const own = await offerId(STRANGER, bob.party, bob)
  expectError(await his.answer(own, 'accept', {}, ada.walletId), 404, 'not_found')
  expectError(await his.answer(id, 'accept', {}, ada.walletId), 404, 'not_found')
  expectError(await his.answer(id, 'accept'), 404, 'not_found')
  expectError(await his.answer(id, 'accept', { delegatedSessionId: hers.session.id }, ada.walletId), 404, 'not_found')
  for (const delegatedSessionId of ['dse_x', 'dse_00000000000000000000000000', ''])
    expectError(await hers.answer(id, 'accept', { delegatedSessionId }), 404, 'not_found')
  expectError(await hers.answer('ofr_00000000000000000000000000', 'accept'), 404, 'not_found')
  expectError(await hers.answer(id, 'accept', { commands: [] }), 400, 'validation_failed')
  expectError(await hers.answer(id, 'accept', { delegatedSessionId: 7 }), 400, 'validation_failed')
  const path = `/wallets/${ada.walletId}/transfer-offers/${id}/accept`
  const body = { delegatedSessionId: hers.session.id, contractId: await contractOf(scene, id) }
  const publishable = await tenant.newKey({ publishable: true })
  expectError(await tenant.post(path, body, { key: publishable }), 401, 'session_missing')
  const elsewhere = await service.newTenant()
  expectError(await elsewhere.post(path, body), 404, 'not_found')
  expectStatus(await tenant.post(`/wallets/${ada.walletId}/freeze`, {}), 200)
  expectError(await hers.answer(id, 'accept'), 409, 'wallet_frozen')
  expectStatus(await tenant.post(`/wallets/${ada.walletId}/unfreeze`, {}), 200)
  expectStatus(await tenant.delete(`/delegated-sessions/${hers.session.id}`), 200)
  expectError(await hers.answer(id, 'accept'), 410, 'delegated_session_revoked')
  expect([tokensOf(ada.party), tokensOf(bob.party)]).toEqual([[], []])
})

test('a server answers without the token where the session has serverExecute, and only there', async () => {
  const { tenant, service } = scene
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const answer = async (serverExecute: boolean) => {
    const session = await newSession(service, tenant, ada, { policy: ANSWERS, serverExecute })
    return tenant.post(`/wallets/${ada.walletId}/transfer-offers/${id}/accept`, {
      delegatedSessionId: session.id,
      contractId: await contractOf(scene, id),
    })
  }
  expectError(await answer(false), 401, 'session_missing')
  expectStatus(await answer(true), 200)
  expect(tokensOf(ada.party)).toEqual(['3'])
})

test('of answers at once by several sessions, one happens', async () => {
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const sessions = await Promise.all(Array.from({ length: 4 }, () => newAnswering(scene, ada)))
  const answers = await Promise.all(sessions.map(({ answer }, at) => answer(id, at % 2 === 0 ? 'accept' : 'reject')))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  await scene.follow()
  const { offered, settled } = await scene.told(ada)
  expect([offered.length, settled.length]).toEqual([1, 1])
})

test('an answer whose response is lost is repeated by its Idempotency-Key', async () => {
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const { session } = await newAnswering(scene, ada)
  const key = await scene.tenant.newKey({ publishable: true })
  const headers = { authorization: `Bearer ${session.token}`, 'idempotency-key': 'once' }
  const path = `/v1/wallets/${ada.walletId}/transfer-offers/${id}/accept`
  const body = { delegatedSessionId: session.id, contractId: await contractOf(scene, id) }
  const run = () => call(scene.service.url, 'POST', path, { key, headers, body })
  const first = expectStatus(await run(), 200)
  await scene.follow()
  expect(expectStatus(await run(), 200)).toEqual(first)
  expect(tokensOf(ada.party)).toEqual(['3'])
})

test('an answer is to the contract that its caller read, whatever the offer is by now', async () => {
  const { service, registry } = scene
  const ada = await scene.newHolder()
  const id = await offerId(STRANGER, ada.party, ada)
  const first = await contractOf(scene, id)
  const { answer } = await newAnswering(scene, ada)
  const next = registry.offer(STRANGER, ada.party, '3', { original: first })
  service.participant.happen([first], [next], [answered(first, 'Accept', 'Pending')])
  await scene.follow()
  for (const contractId of [first, await contractOf(scene, await offerId(STRANGER, ada.party, ada)), '', 'x'])
    expectError(await answer(id, 'accept', { contractId, commandId: 'take' }), 409, 'offer_changed')
  expectError(await answer(id, 'accept', { contractId: undefined }), 400, 'validation_failed')
  expectError(await answer(id, 'accept', { contractId: 'x'.repeat(511) }), 400, 'validation_failed')
  expect(tokensOf(ada.party)).toEqual([])
  const contractId = await contractOf(scene, id)
  const done = expectStatus(await answer(id, 'accept', { contractId, commandId: 'take' }), 200)
  await scene.follow()
  // A repeat is by its command id and the contract of then.
  expect(expectStatus(await answer(id, 'accept', { contractId, commandId: 'take' }), 200).updateId).toBe(done.updateId)
  expectError(await answer(id, 'accept', { contractId: first, commandId: 'take' }), 409, 'duplicate_command')
  expect(tokensOf(ada.party)).toEqual(['3'])
})

/** Somebody who signs themselves, to whom something was offered, with a session that may accept it. */
async function offeredTo<T extends Owner>(owner: T) {
  await scene.follow()
  scene.offered(STRANGER, owner.party, '3')
  await scene.follow()
  const [offer] = (await owner.mine.wallets.transferOffers(owner.walletId)).offers
  const { id: sessionId, token } = await owner.mine.delegatedSessions.create({ policy: ANSWERS as never })
  return { offer: offer as TransferOffer, sessionId, delegate: owner.delegateOf(token) }
}

test('a user’s own key signs an answer, and without it nothing happens', async () => {
  const owner = await ready(await newOwn(scene))
  const { offer, sessionId, delegate } = await offeredTo(owner)
  const body = { delegatedSessionId: sessionId, contractId: offer.contractId, commandId: 'take' }
  const { status, signingRequest } = await delegate.wallets.acceptOffer(owner.walletId, offer.id, body)
  expect([status, isOpen(offer.contractId)]).toEqual(['signature_required', true])
  const { sign } = owner.key as OwnKey
  const signature = Buffer.from(await sign(Buffer.from(signingRequest?.digest ?? '', 'hex'))).toString('hex')
  const signingRequestId = signingRequest?.id as string
  const done = await delegate.delegatedSessions.execute(sessionId, { signingRequestId, signature })
  expect([done.status, tokensOf(owner.party)]).toEqual(['completed', ['3']])
  expect((await delegate.wallets.acceptOffer(owner.walletId, offer.id, body)).updateId).toBe(done.updateId)
})

test('a shared key signs an answer with commitments, as the command that the offer names', async () => {
  const owner = await ready(await newShared(scene))
  const { offer, sessionId, delegate } = await offeredTo(owner)
  const alone = delegate.wallets.acceptOffer(owner.walletId, offer.id, {
    delegatedSessionId: sessionId,
    contractId: offer.contractId,
  })
  await expect(alone).rejects.toMatchObject({ code: 'validation_failed' })
  const { templateId, contractId } = offer
  const done = await executeOnCanton(delegate, {
    sessionId,
    key: owner.key,
    commands: [{ exercise: { templateId, contractId, choice: 'TransferInstruction_Accept', arguments: {} } }],
    also: { filled: ['extraArgs'], templates: [TOKEN] },
  })
  expect([done.status, tokensOf(owner.party)]).toEqual(['completed', ['3']])
})

test('wallets on a ledger that is not followed have no offers to list or answer', async () => {
  const { tenant, service } = scene
  const userId = expectStatus(await tenant.post('/users', {}), 201).id as string
  const asUser = { headers: { 'x-user-id': userId } }
  const { id } = expectStatus(await tenant.post('/users/me/wallet', { ledger: 'embedded' }, asUser), 201)
  const session = await newSession(service, tenant, { asUser }, { policy: ANSWERS, serverExecute: true })
  const path = `/wallets/${id}/transfer-offers`
  const unknown = `${path}/ofr_00000000000000000000000000`
  expectError(await tenant.get(path), 409, 'offers_unavailable')
  expectError(await tenant.get(unknown), 404, 'not_found')
  expectError(
    await tenant.post(`${unknown}/accept`, { delegatedSessionId: session.id, contractId: '00' }),
    404,
    'not_found',
  )
})
