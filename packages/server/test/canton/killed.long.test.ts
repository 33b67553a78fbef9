import { afterAll, expect, test } from 'vitest'
import { expectStatus } from '../../src/delegation/delegated.fixture.ts'
import { Mortal, outcome } from '../faults/mortal.ts'
import { eventually, newDatabase } from '../harness/harness.ts'
import { DataFolder, killAll } from '../harness/service-process.ts'
import { coins, ISSUER, pay, settingsFile, settingsOf } from './canton.fixture.ts'
import { COIN } from './daml.ts'
import { SimulatedParticipant } from './participant.ts'

const TEST_MS = 180_000
const AMOUNT = '3'
/** Past the lease of what was signed and not sent, and before it expires. */
const PAST_LEASE_MS = 32_000
const STEPS = ['reserved', 'signed', 'submitted', 'settled']

afterAll(killAll)

async function newMortal() {
  const database = await newDatabase()
  const folder = new DataFolder()
  const participant = await new SimulatedParticipant().start()
  const service = new Mortal(folder, database.url)
  service.settings = { HALFKEY_LEDGERS: `canton:${settingsFile(settingsOf(participant, { outcomeMs: 3_000 }))}` }
  await service.start()
  const close = async () => {
    await folder.remove()
    await database.drop()
    await participant.stop()
  }
  return { service, participant, close }
}

/** Creates a user with a wallet, whose process is killed when the party is there and nobody was told. */
async function newWallet(service: Mortal) {
  const userId = expectStatus(await service.call('POST', '/users', {}), 201).id as string
  const as = { 'x-user-id': userId }
  service.dieAt('wallet onboarded')
  // The worker may end the process before the answer has left.
  await service.call('POST', '/users/me/wallet', {}, as).catch(() => undefined)
  expect(await service.process.exited).toEqual({ code: null, signal: 'SIGKILL' })
  // Past the claim of the process that died.
  await service.start(3 * 60_000)
  const read = async () => (await service.call('GET', '/users/me/wallet', undefined, as)).body.data
  const wallet = await eventually('the wallet is ready', async () => {
    const found = await read()
    return found?.status === 'ready' && found
  })
  return { as, party: wallet.partyId as string }
}

test('at whichever step the service is killed, a wallet gets one party, and each payment happens once', {
  timeout: TEST_MS,
}, async (context) => {
  const { service, participant, close } = await newMortal()
  context.onTestFinished(close)
  let aheadMs = 0
  participant.now = () => new Date(Date.now() + aheadMs)
  const { as, party } = await newWallet(service)
  aheadMs += 3 * 60_000
  expect([...participant.parties.keys()]).toEqual([party])
  const topologies = participant.asked.filter(({ path }) => path.endsWith('/generate-topology'))
  expect(topologies).toHaveLength(1)
  const mint = () => participant.mint(COIN, { issuer: ISSUER, owner: party, symbol: 'CC', amount: '10' })
  const cap = String(Number(AMOUNT) * STEPS.length)
  const body = { policy: coins(cap), expiresInSeconds: 86_400 }
  const { id } = expectStatus(await service.call('POST', '/delegated-sessions', body, as), 201)
  const path = `/delegated-sessions/${id}/execute`
  for (const [index, step] of STEPS.entries()) {
    const order = { commandId: `c${index}`, commands: [pay(mint(), AMOUNT)] }
    service.dieAt(step)
    await expect(service.call('POST', path, order)).rejects.toThrow()
    expect(await service.process.exited, step).toEqual({ code: null, signal: 'SIGKILL' })
    const laterMs = step === 'signed' ? PAST_LEASE_MS : 0
    aheadMs += laterMs
    await service.start(laterMs)
    const done = await outcome(service, path, order)
    expect(done.status, done.text).toBe(200)
    const rest = participant.active(COIN, { owner: party }).map(({ fields }) => fields.amount)
    expect(rest).toEqual(Array(index + 1).fill('7.0000000000'))
    expect(participant.outcomes()).toEqual({ accepted: index + 1, rejected: 0 })
  }
  const over = await service.call('POST', path, { commands: [pay(mint(), '0.0000000001')] })
  expect(over.body.code).toBe('spend_limit_exceeded')
})
