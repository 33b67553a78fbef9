// A client that signs for its wallet on Canton: with a share and the service, or with the user's own key.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  CantonError,
  executeOnCanton,
  readCantonTransaction,
  readOnboarding,
  signOnboarding,
  wordsOf,
} from '../../../keys/src/canton/index.ts'
import { type HeldShare, reshare } from '../../../keys/src/index.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { BOB, type CantonService, coinsOf, pay, startCanton } from './canton.fixture.ts'
import { COIN, MEMO, RELAY } from './daml.ts'
import { EVE, type madeBy, nodeOf, set } from './forged.ts'
import { delegated, newOwn, newShared, type Owner, type Place, ready, receive, refusal } from './owner.fixture.ts'
import { PARTICIPANT } from './participant.ts'
import { SYNCHRONIZER } from './sequenced.ts'

let service: CantonService
let place: Place
beforeAll(async () => {
  service = await startCanton({}, { HALFKEY_RATE_LIMITS: 'off' })
  place = { service, tenant: await service.newTenant() }
})
afterEach(() => service.participant.heal())
afterAll(() => service.stop())

describe.each([
  ['a shared key', newShared as (place: Place) => Promise<Owner>],
  ['a key of the user’s own', newOwn],
])('%s', (_, newOwner) => {
  test('signs for its party, says what it signs, and pays within the cap and not beyond it', async () => {
    const owner = await newOwner(place)
    const said: string[] = []
    const answer = await signOnboarding(owner.mine, {
      key: owner.key,
      approve: ({ words, participant }) => {
        expect(participant).toBe(PARTICIPANT)
        said.push(...words)
      },
    })
    expect(answer).toMatchObject({ state: 'pending', partyId: owner.party })
    expect(said.join(' ')).toContain(owner.party)
    expect(said.join(' ')).toContain(PARTICIPANT)
    await onboardWallets(service.deps)
    expect(service.participant.parties.get(owner.party)?.toString('hex')).toBe(owner.key.publicKey)
    // Once more does nothing.
    expect((await signOnboarding(owner.mine, { key: owner.key, participant: PARTICIPANT })).state).toBe('ready')

    const { sessionId, delegate } = await delegated(owner)
    const words: string[] = []
    const paid = await executeOnCanton(delegate, {
      sessionId,
      key: owner.key,
      commands: [pay(receive(owner), '3')],
      synchronizer: SYNCHRONIZER,
      approve: ({ view }) => void words.push(...wordsOf(view)),
    })
    expect(paid).toMatchObject({ status: 'completed', signingRequest: null })
    expect(words).toHaveLength(3)
    expect(words[0]).toMatch(
      /^Exercises Transfer on a contract Test\.Coin:Coin \(receiver: "bob::1220.*amount: "3\.0+"/,
    )
    expect(words[0]).toContain('This uses the contract up.')
    expect(coinsOf(service, owner.party)).toEqual(['7.0000000000'])
    const [rest] = service.participant.active(COIN, { owner: owner.party })
    const beyond = executeOnCanton(delegate, {
      sessionId,
      key: owner.key,
      commands: [pay(rest?.contractId as string, '3')],
    })
    expect((await refusal(beyond)).code).toBe('spend_limit_exceeded')
  })

  test('signs nothing that its person refuses', async () => {
    const owner = await newOwner(place)
    const no = () => {
      throw new Error('no')
    }
    await expect(signOnboarding(owner.mine, { key: owner.key, approve: no })).rejects.toThrow('no')
    expect((await owner.mine.wallets.onboarding(owner.walletId)).state).toBe('signature_required')
    await ready(owner)
    const { sessionId, delegate } = await delegated(owner)
    const commands = [pay(receive(owner), '3')]
    await expect(executeOnCanton(delegate, { sessionId, key: owner.key, commands, approve: no })).rejects.toThrow('no')
    expect(coinsOf(service, owner.party)).toEqual(['10'])
  })
})

test('without knowing the participant, and without asking anybody, nothing is signed', async () => {
  const owner = await newOwn(place)
  expect(await refusal(signOnboarding(owner.mine, { key: owner.key }))).toMatchObject({ code: 'topology_mismatch' })
})

test('a choice that exercises others is signed only where the caller allows each of them', async () => {
  const owner = await ready(await newShared(place))
  const relay = service.participant.mint(RELAY, { owner: owner.party })
  const command = () => ({
    exercise: {
      templateId: RELAY,
      contractId: relay,
      choice: 'Run',
      arguments: { coin: receive(owner), receiver: BOB, amount: '2' },
    },
  })
  const allow = [
    { templateId: RELAY, choices: ['Run'] },
    { templateId: COIN, choices: ['Transfer'] },
  ]
  const { sessionId, delegate } = await delegated(owner, { allow })
  const run = (also: object) => executeOnCanton(delegate, { sessionId, key: owner.key, commands: [command()], ...also })
  expect((await refusal(run({}))).message).toMatch(/also exercises Transfer/)
  const transfer = { templateId: COIN, choice: 'Transfer' }
  expect(await run({ also: { choices: [transfer] } })).toMatchObject({ status: 'completed' })
})

test('structured arguments are compared value by value; what nobody gave must be absent', async () => {
  const owner = await ready(await newOwn(place))
  const { sessionId, delegate } = await delegated(owner)
  const create = {
    templateId: MEMO,
    arguments: { author: owner.party, text: 'a', tags: ['1', '2'], detail: { count: '3', done: true } },
  }
  let text = ''
  await executeOnCanton(delegate, {
    sessionId,
    key: owner.key,
    commands: [{ create }] as never[],
    approve: ({ view }) => {
      text = wordsOf(view)[0] ?? ''
    },
  })
  expect(text).toMatch(/^Creates a contract Test\.Memo:Memo/)
  service.participant.lie = ({ transaction }) => {
    const { create: made } = nodeOf<{ create: ReturnType<typeof madeBy> }>(transaction, 0)
    set(made.argument, 'tags', { list: { elements: [{ text: '1' }] } })
  }
  expect(
    (await refusal(executeOnCanton(delegate, { sessionId, key: owner.key, commands: [{ create }] as never[] }))).name,
  ).toMatch(/Error/)
})

test('recovery: a new device signs for the wallet on Canton, and the lost one never again', async () => {
  const owner = await newShared(place)
  // Lost before the party is there: the new shares sign for it.
  const fresh = await reshare(owner.mine, [owner.recovery], () => undefined)
  const lost = owner.key
  const byLost = signOnboarding(owner.mine, { key: lost, participant: PARTICIPANT })
  expect((await refusal(byLost)).name).toBe('ShareError')
  await ready({ ...owner, key: fresh.device })
  const { sessionId, delegate } = await delegated(owner)
  const run = (key: HeldShare, coin: string) =>
    executeOnCanton(delegate, { sessionId, key, commands: [pay(coin, '1')] })
  expect(await run(fresh.device, receive(owner))).toMatchObject({ status: 'completed' })
  // Lost afterwards: the same party goes on.
  const again = await reshare(owner.mine, [fresh.recovery], () => undefined)
  const next = await delegated(owner)
  const paid = executeOnCanton(next.delegate, {
    sessionId: next.sessionId,
    key: again.device,
    commands: [pay(receive(owner), '1')],
  })
  expect(await paid).toMatchObject({ status: 'completed' })
  expect((await refusal(run(fresh.device, receive(owner)))).name).toMatch(/ShareError|HalfkeyError/)
  expect(coinsOf(service, BOB).filter((amount) => amount === '1').length).toBeGreaterThanOrEqual(2)
})

test('what is read of a prepared transaction is what it says', async () => {
  expect(() => readCantonTransaction('')).toThrow(CantonError)
  expect(() => readOnboarding('', { party: EVE, publicKey: '00'.repeat(32) })).toThrow(CantonError)
})
