import { afterEach, expect, test } from 'vitest'
import { createThreads, type Threads } from './threads.ts'
import * as threshold from './threshold.ts'

let threads: Threads
afterEach(() => threads.close())

const { sharing, shares } = threshold.dealShares(threshold.SHARED_SIGNERS)

test('who asks for a thread alone waits for one, and is not sent away because another has it', async () => {
  threads = createThreads()
  const joined = await Promise.all(
    Array.from({ length: 10 }, () => threads.runAlone('joinShares', sharing, shares.slice(0, 2))),
  )
  for (const key of joined) expect(threshold.publicKeyOf(key)).toEqual(sharing.commitments[0])
})

test('more than can wait are told to come back, and the others are answered', async () => {
  threads = createThreads()
  const outcomes = await Promise.allSettled(Array.from({ length: 300 }, () => threads.run('verifyingShares', sharing)))
  const refused = outcomes.filter(({ status }) => status === 'rejected')
  expect(refused.length).toBeGreaterThan(0)
  expect(refused.length).toBeLessThan(100)
  for (const outcome of refused) expect(outcome).toMatchObject({ reason: { status: 429, code: 'rate_limited' } })
})

test('when they close, nobody waits for ever, and no thread begins any more', async () => {
  threads = createThreads()
  const asked = Promise.allSettled([
    ...Array.from({ length: 50 }, () => threads.run('verifyingShares', sharing)),
    ...Array.from({ length: 5 }, () => threads.runAlone('joinShares', sharing, shares.slice(0, 2))),
  ])
  await threads.close()
  for (const outcome of await asked) expect(outcome.status).toBe('rejected')
})
