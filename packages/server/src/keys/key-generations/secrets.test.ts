import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { dump, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { openNewSeal } from '../../wallets/custody/share-seal.ts'
import type { ShareRow } from '../../wallets/custody/store.ts'
import {
  type BegunDkg,
  beginDkg,
  confirmBody,
  expectData,
  finishDkg,
  round2Body,
  type SharedKey,
} from './key-generations.fixture.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n
const toNumber = (scalar: Uint8Array) => BigInt(`0x${Buffer.from(scalar).reverse().toString('hex')}`)
const toScalar = (number: bigint) =>
  Buffer.from((((number % ORDER) + ORDER) % ORDER).toString(16).padStart(64, '0'), 'hex').reverse()

/** What the service has told 2 and 3 of its polynomial gives all of it away to whoever has both. */
async function secretsOf(
  dkg: BegunDkg,
  answered: { sealedSubshares: { to: number; enc: string; ct: string }[] },
  toService: readonly Uint8Array[],
): Promise<{ key: SharedKey; all: Record<string, Uint8Array> }> {
  const subshare = async (to: number) => {
    const participant = dkg.participants.find(({ index }) => index === to)
    const sealed = answered.sealedSubshares.find((one) => one.to === to)
    if (participant === undefined || sealed === undefined) throw new Error(`nothing for ${to}`)
    const recipientKey = threshold.toHex(participant.key.publicKey)
    const context = threshold.subshareContext(dkg.subject, { from: 1, to, recipientKey })
    const box = { enc: threshold.fromBase64Url(sealed.enc), ct: threshold.fromBase64Url(sealed.ct) }
    return threshold.openSealed(participant.key.privateKey, { purpose: 'dkg-subshare', context }, box)
  }
  const [two, three] = [await subshare(2), await subshare(3)]
  const slope = toNumber(three) - toNumber(two)
  const constant = toNumber(two) - 2n * slope
  const kept = toScalar(constant + slope)
  const share = toScalar(toService.reduce((sum, part) => sum + toNumber(part), toNumber(kept)))
  const key = await finishDkg(dkg, answered as never)
  const all = {
    constant: toScalar(constant),
    slope: toScalar(slope),
    'sub-share to itself': kept,
    'sub-share to 2': two,
    'sub-share to 3': three,
    'sub-share from 2': toService[0] as Uint8Array,
    'sub-share from 3': toService[1] as Uint8Array,
    'share 1': share,
    'share 2': key.device.scalar,
    'share 3': key.recovery.scalar,
    'the key': threshold.joinShares(key.sharing, [key.device, key.recovery]),
  }
  return { key, all }
}

/** A secret in every form in which it could stand in a text: as bytes too, which a dump shows as hex. */
function formsOf(secret: Uint8Array): string[] {
  const bytes = Buffer.from(secret)
  const reversed = Buffer.from(secret).reverse()
  return [bytes, reversed]
    .flatMap((each) => [
      each.toString('hex'),
      each.toString('base64').replace(/=+$/, ''),
      each.toString('base64url'),
      // Somewhere in the midst of something longer, that begins at another byte.
      each.subarray(1).toString('base64url').slice(0, 40),
      each.subarray(2).toString('base64url').slice(0, 40),
      each.join(','),
    ])
    .concat(toNumber(secret).toString())
}

function expectNone(text: string, secrets: Record<string, Uint8Array>): void {
  const lower = text.toLowerCase()
  for (const [what, secret] of Object.entries(secrets))
    for (const form of formsOf(secret)) {
      expect(text.includes(form), `${what} as ${form.length} characters`).toBe(false)
      expect(lower.includes(form.toLowerCase()), what).toBe(false)
    }
}

/** Both rounds, with all that is secret in them; `atRound1` is a dump between the two. */
async function exchanged(person: Person) {
  const dkg = await beginDkg(person)
  const atRound1 = await dump(service)
  const toService: Uint8Array[] = []
  const body = await round2Body(person, dkg, {
    change({ scalar }) {
      toService.push(scalar)
      return scalar
    },
  })
  const answer = expectData(await person.post(`${dkg.path}/round2`, body), 200)
  return { dkg, atRound1, answer, ...(await secretsOf(dkg, answer, toService)) }
}

const rowOf = async ({ dkgId }: BegunDkg) => {
  const [row] = await service.sql<{ status: string; state: Buffer | null; round2: object | null }>(
    'select status, state_sealed as state, round2 from key_generations where id = $1',
    [dkgId],
  )
  if (row === undefined) throw new Error('it is not there')
  return row
}

test('the forms are found where they stand', async () => {
  const secret = randomBytes(32)
  const { all } = await exchanged((await newPerson()).person)
  expect(new Set(Object.values(all).map((one) => threshold.toHex(one))).size).toBe(11)
  for (const form of formsOf(secret)) expect(() => expectNone(`x${form}x`, { secret })).toThrow()
  const longer = Buffer.concat([randomBytes(4), secret, randomBytes(3)]).toString('base64')
  expect(() => expectNone(longer.replaceAll('+', '-').replaceAll('/', '_'), { secret })).toThrow()
})

describe('what was secret in the exchange is never in the database in clear, nor in a log, and not kept at all once', () => {
  test('it is confirmed: the service has its share and nothing else', async () => {
    const { person } = await newPerson()
    const { dkg, atRound1, key, all } = await exchanged(person)
    expectNone(atRound1, all)
    expectNone(await dump(service), all)
    const before = await rowOf(dkg)
    const { wallet } = expectData(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
    expect(await rowOf(dkg)).toEqual({ status: 'confirmed', state: null, round2: null })
    const after = await dump(service)
    expectNone(after, all)
    // Not even sealed is there what was sealed before.
    expect(after).not.toContain(before.state?.toString('hex'))
    const [share] = await service.sql<ShareRow>(
      'select * from key_shares where wallet_id = $1 and share_sealed is not null',
      [wallet.id],
    )
    // That what is looked for above is the right thing: the share as the service has it.
    const kept = await openNewSeal(service.deps, share?.share_sealed as Buffer, share as ShareRow, 'shared')
    expect(kept?.toString('hex')).toBe(threshold.toHex(all['share 1'] as Uint8Array))
    expectNone(service.logs(), all)
  })

  test('it is canceled', async () => {
    const { person } = await newPerson()
    const { dkg, all } = await exchanged(person)
    const before = await rowOf(dkg)
    expectData(await person.delete(dkg.path), 200)
    expect(await rowOf(dkg)).toEqual({ status: 'canceled', state: null, round2: null })
    const after = await dump(service)
    expectNone(after, all)
    expect(after).not.toContain(before.state?.toString('hex'))
    const early = await beginDkg(person)
    expectData(await person.delete(early.path), 200)
    expect(await rowOf(early)).toEqual({ status: 'canceled', state: null, round2: null })
  })

  test('another one took its place', async () => {
    const { person } = await newPerson()
    const { dkg } = await exchanged(person)
    for (let n = 0; n < 5; n += 1) await beginDkg(person)
    expect(await rowOf(dkg)).toEqual({ status: 'canceled', state: null, round2: null })
  })

  test('its time is over, within moments; a day later it is forgotten', async () => {
    const { person } = await newPerson()
    const { dkg, all } = await exchanged(person)
    const early = await beginDkg(person)
    const before = await rowOf(dkg)
    service.advance(10 * MINUTE_MS)
    for (const each of [dkg, early])
      await eventually('it is wiped', async () => {
        const row = await rowOf(each)
        return row.state === null && row.round2 === null
      })
    const after = await dump(service)
    expectNone(after, all)
    expect(after).not.toContain(before.state?.toString('hex'))
    const again = await exchanged(person)
    expectData(await person.post(`${again.dkg.path}/confirm`, confirmBody(again.dkg, again.key)), 201)
    service.advance(HOUR_MS)
    expect(await rowOf(again.dkg)).toMatchObject({ status: 'confirmed' })
    service.advance(24 * HOUR_MS)
    for (const each of [dkg, early, again.dkg])
      await eventually('it is forgotten', async () => {
        const left = await service.sql('select from key_generations where id = $1', [each.dkgId])
        return left.length === 0
      })
    const [kept] = await service.sql('select from key_shares where share_sealed is not null')
    expect(kept).toBeDefined()
    expectNone(service.logs(), all)
  })
})

test('what is sealed is of no use in another place: round, key generation or tenant', async () => {
  const people = [await newPerson(), await newPerson()] as const
  const [mine, theirs] = [await beginDkg(people[0].person), await beginDkg(people[1].person)]
  const body = await round2Body(people[0].person, mine)
  const swap = (from: BegunDkg, to: BegunDkg) =>
    service.sql(
      'update key_generations set state_sealed = (select state_sealed from key_generations where id = $1) where id = $2',
      [from.dkgId, to.dkgId],
    )
  const [before] = await service.sql<{ state: Buffer }>(
    'select state_sealed as state from key_generations where id = $1',
    [mine.dkgId],
  )
  await swap(theirs, mine)
  expect((await people[0].person.post(`${mine.path}/round2`, body)).status).toBe(500)
  expect((await rowOf(mine)).status).toBe('round1')
  await service.sql('update key_generations set state_sealed = $1 where id = $2', [before?.state, mine.dkgId])
  const answer = await people[0].person.post(`${mine.path}/round2`, body)
  const key = await finishDkg(mine, expectData(answer, 200))
  // The polynomial where the share should be.
  await service.sql('update key_generations set state_sealed = $1 where id = $2', [before?.state, mine.dkgId])
  expect((await people[0].person.post(`${mine.path}/confirm`, confirmBody(mine, key))).status).toBe(500)
  expect((await people[0].person.get('/users/me/wallet')).status).toBe(404)
})
