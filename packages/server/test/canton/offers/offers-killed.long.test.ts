// Processes that are killed while they follow tell each offer, and its end, once.
import { afterAll, expect, test } from 'vitest'
import { expectStatus } from '../../../src/delegation/delegated.fixture.ts'
import { Mortal } from '../../faults/mortal.ts'
import { eventually, newDatabase } from '../../harness/harness.ts'
import { DataFolder, killAll } from '../../harness/service-process.ts'
import { settingsFile, settingsOf } from '../canton.fixture.ts'
import { SimulatedParticipant } from '../participant.ts'
import { FACTORY, HOLDING, INSTRUCTION, SimulatedRegistry } from '../tokens.ts'
import { answered, STRANGER } from './offers.fixture.ts'

const TEST_MS = 180_000
const STEP = 'tokens read'

afterAll(killAll)

test('a process that dies before it commits, beside another one that goes on, tells each offer and each end once', {
  timeout: TEST_MS,
}, async (context) => {
  const database = await newDatabase()
  const folder = new DataFolder()
  const participant = await new SimulatedParticipant().start()
  const registry = await new SimulatedRegistry(participant).start()
  const interfaces = { holding: HOLDING, transferFactory: FACTORY, transferInstruction: INSTRUCTION }
  const tokens = { ...interfaces, registries: [{ admin: registry.admin, url: registry.url }] }
  const one = new Mortal(folder, database.url)
  const two = new Mortal(folder, database.url, one)
  for (const each of [one, two])
    each.settings = { HALFKEY_LEDGERS: `canton:${settingsFile(settingsOf(participant, { tokens }))}` }
  await one.start()
  context.onTestFinished(async () => {
    await folder.remove()
    await database.drop()
    await Promise.all([participant.stop(), registry.stop()])
  })
  const userId = expectStatus(await one.call('POST', '/users', {}), 201).id as string
  const as = { 'x-user-id': userId }
  expectStatus(await one.call('POST', '/users/me/wallet', {}, as), 201)
  const wallet = await eventually('the wallet is followed', async () => {
    const { id, partyId } = (await one.call('GET', '/users/me/wallet', undefined, as)).body.data
    const read = await one.call('GET', `/wallets/${id}/holdings`)
    return read.body.data?.state === 'current' && { path: `/wallets/${id}/transfer-offers`, party: partyId as string }
  })
  await two.start()
  const events = async (type: string) =>
    (await one.sql<{ n: number }>('select count(*)::int as n from events where type = $1', [type]))[0]?.n
  const offersOf = async () => (await two.call('GET', wallet.path)).body.data.offers as { status: string }[]
  const contracts: string[] = []
  for (let round = 1; round <= 3; round += 1) {
    one.dieAt(STEP)
    contracts.push(...participant.happen([], [registry.offer(STRANGER, wallet.party, String(round))]))
    expect(await one.process.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await eventually('the offer is seen', async () => (await offersOf()).length === round)
    await one.start()
  }
  one.dieAt(STEP)
  for (const id of contracts) participant.happen([id], [], [answered(id, 'Accept', 'Completed')])
  expect(await one.process.exited).toEqual({ code: null, signal: 'SIGKILL' })
  await eventually('the offers are over', async () => (await offersOf()).every(({ status }) => status === 'accepted'))
  expect([await events('token.transfer_offered'), await events('token.transfer_settled')]).toEqual([3, 3])
})
