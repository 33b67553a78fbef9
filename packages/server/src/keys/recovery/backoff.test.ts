import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newRecipient, newSharedWallet, type SplitWallet } from '../key-shares/key-shares.fixture.ts'
import { as, challengeOf, dealAnew, type Held, receive, releaseBody, start } from './recovery.fixture.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

let service: Service
beforeAll(async () => {
  service = await startService({
    HALFKEY_ROLE: 'api',
    HALFKEY_RATE_LIMITS: 'on',
    HALFKEY_RATE_LIMIT_PUBLISHABLE: '1000/1000',
    HALFKEY_RATE_LIMIT_SIGN_IN: '1000/1000',
    HALFKEY_RATE_LIMIT_ACCOUNT: '1000/1000',
  })
})
afterAll(() => service.stop())

const recover = ({ person }: Pick<Held, 'person'>, body: object) => person.post('/mpc/recover', body)

async function newShared(): Promise<SplitWallet> {
  return newSharedWallet(service, await service.newTenant())
}

/** So much later, signed in anew. */
async function later(split: SplitWallet, ms: number): Promise<Held> {
  service.advance(ms)
  return as(split, await signInAs(service, split.tenant, { userId: split.person.userId }))
}

const rightly = async (held: Held) => recover(held, (await releaseBody(held)).body)
async function wrongly(held: Held): Promise<Answer> {
  const { body } = await releaseBody(held)
  return recover(held, { ...body, proofs: body.proofs.map(({ index }) => ({ index, proof: '00'.repeat(64) })) })
}

function expectWait(answer: Answer, hours: number): void {
  expectError(answer, 429, 'rate_limited')
  const seconds = Number(answer.headers.get('retry-after'))
  expect(Math.abs(seconds - hours * 3600)).toBeLessThan(60)
}

test('five tries an hour, right or wrong; then a delay that doubles with every five more, until a day was quiet', async () => {
  const split = await newShared()
  let held: Held = split
  for (let n = 0; n < 3; n += 1) expectRefusal(await wrongly(held), 'share_invalid')
  for (let n = 0; n < 2; n += 1) expect((await rightly(held)).status).toBe(200)
  for (const hours of [1, 2, 4, 8, 16, 24, 24]) {
    expectWait(await rightly(held), hours)
    expectWait(await wrongly(held), hours)
    held = await later(split, hours * HOUR_MS - 30_000)
    expectError(await rightly(held), 429, 'rate_limited')
    held = await later(split, 30_000)
    for (let n = 0; n < 5; n += 1) expectRefusal(await wrongly(held), 'share_invalid')
  }
  expectWait(await rightly(held), 24)
  held = await later(split, 24 * HOUR_MS)
  expect((await rightly(held)).status).toBe(200)
  held = await later(split, DAY_MS)
  for (let n = 0; n < 5; n += 1) expect((await rightly(held)).status).toBe(200)
  expectWait(await rightly(held), 1)
})

test('five within any hour, not within one by the clock', async () => {
  const split = await newShared()
  let held: Held = split
  for (let n = 0; n < 4; n += 1) expect((await rightly(held)).status).toBe(200)
  held = await later(split, HOUR_MS / 2)
  held = await later(split, HOUR_MS / 2)
  for (let n = 0; n < 4; n += 1) expect((await rightly(held)).status).toBe(200)
  held = await later(split, HOUR_MS / 2)
  expect((await rightly(held)).status).toBe(200)
  expectWait(await rightly(held), 1)
})

test('a delay is of one wallet, refuses without using a challenge up, and lets a resharing be confirmed', async () => {
  const split = await newShared()
  const other = await newSharedWallet(service, split.tenant)
  const begun = await start(split, [1, 2])
  for (let n = 0; n < 4; n += 1) expectRefusal(await wrongly(split), 'share_invalid')
  const asked = await challengeOf(split, 'reshare')
  const dealt = await dealAnew(split, [1, 2], { asked })
  expectWait(await recover(split, dealt.body), 1)
  const [row] = await service.sql<{ used_at: Date | null }>('select used_at from challenges where id = $1', [
    asked.challengeId,
  ])
  expect(row?.used_at).toBeNull()
  expect((await rightly(other)).status).toBe(200)
  expect((await recover(split, begun.body)).status).toBe(200)
})

test('what does not get as far as the challenge counts for nothing', async () => {
  const split = await newShared()
  const { body, asked } = await releaseBody(split)
  const recipient = { ...(await newRecipient()), publicKey: '00'.repeat(32) }
  const unsealable = await releaseBody(split, { asked, recipient })
  for (let n = 0; n < 8; n += 1) {
    expectError(await recover(split, { ...body, challengeId: 'chl_x' }), 404, 'not_found')
    expectRefusal(await recover(split, unsealable.body), 'validation_failed')
    expectRefusal(await recover(split, { walletId: split.walletId }), 'validation_failed')
  }
  const dealt = await dealAnew(split, [1, 2])
  const answer = await recover(split, dealt.body)
  expect(answer.status, answer.text).toBe(200)
  const { body: confirm } = await receive(dealt, answer.body.data)
  for (let n = 0; n < 8; n += 1) expect((await recover(split, confirm)).status).toBe(200)
})

test('twenty wrong ones at once, each by a challenge of its own, are five tries', async () => {
  const split = await newShared()
  const answers = await Promise.all(Array.from({ length: 20 }, () => wrongly(split)))
  expect(statusCounts(answers)).toEqual({ '400 share_invalid': 5, '429 rate_limited': 15 })
})
