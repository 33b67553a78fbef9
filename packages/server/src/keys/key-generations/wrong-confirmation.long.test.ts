import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import { beginDkg, confirmBody, expectData, flipped, stateOf, twoRounds } from './key-generations.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const newPerson = async (): Promise<Person> => signInAs(service, await service.newTenant())

describe('a confirmation is refused, and changes nothing, with', () => {
  type Body = ReturnType<typeof confirmBody>
  async function refused(change: (body: Body, of: Awaited<ReturnType<typeof twoRounds>>) => object, code: string) {
    const person = await newPerson()
    const of = await twoRounds(person)
    const right = confirmBody(of.dkg, of.key)
    const before = await stateOf(service, person)
    const [detail] = expectRefusal(
      await person.post(`${of.dkg.path}/confirm`, { ...right, ...change(right, of) }),
      code,
    )
    expect(await stateOf(service, person)).toBe(before)
    expectData(await person.post(`${of.dkg.path}/confirm`, right), 201)
    // The same wrong message is refused by what is confirmed, too.
    expectRefusal(await person.post(`${of.dkg.path}/confirm`, { ...right, ...change(right, of) }), code)
    return detail
  }
  type Of = Parameters<Parameters<typeof refused>[0]>[1]

  test('another transcript', async () => {
    const { dkg } = await twoRounds(await newPerson())
    const { transcriptHash } = dkg
    const detail = await refused(() => ({ transcriptHash }), 'protocol_violated')
    expect(detail.field).toBe('transcriptHash')
  })

  test('another key', async () => {
    const { key } = await twoRounds(await newPerson())
    const { publicKey } = key
    const detail = await refused(() => ({ publicKey }), 'protocol_violated')
    expect(detail).toMatchObject({ field: 'publicKey', code: 'key_differs' })
  })

  test('a wrong verifying share, of which it says which', async () => {
    for (const index of [1, 2, 3]) {
      const detail = await refused(
        ({ verifyingShares, publicKey }) => ({
          verifyingShares: verifyingShares.map((one) =>
            one.index === index ? { index, verifyingShare: publicKey } : one,
          ),
        }),
        'share_invalid',
      )
      expect(detail).toMatchObject({ field: 'verifyingShares', indices: [index] })
    }
  })

  test('verifying shares that are missing, double or of others', async () => {
    const changes: ((all: Body['verifyingShares']) => object[])[] = [
      ([one, two]) => [one, two, two] as object[],
      (all) => all.slice(1),
      (all) => [...all, ...all],
      ([one, two, three]) => [one, two, { ...three, index: 4 }] as object[],
    ]
    for (const change of changes) {
      const detail = await refused(
        ({ verifyingShares }) => ({ verifyingShares: change(verifyingShares) }),
        'validation_failed',
      )
      expect(detail.field).toBe('verifyingShares')
    }
  })

  const prove = (
    { key, dkg }: Of,
    change: {
      purpose?: threshold.ProofPurpose
      subject?: Partial<threshold.Subject>
      index?: number
      transcript?: string
      of?: 'device' | 'recovery'
    },
  ) => {
    const { purpose = 'dkg-confirm', index = 2, transcript = dkg.transcriptHash, of = 'device' } = change
    const subject = { ...dkg.subject, ...change.subject }
    const proof = threshold.toHex(threshold.prove(key[of].scalar, purpose, subject, { index, transcript }))
    return (body: Body) => ({ proofs: [{ index: 2, proof }, body.proofs[1]] })
  }

  const WRONG: [string, (of: Of) => Parameters<typeof prove>[1]][] = [
    ['by the other share', () => ({ of: 'recovery' })],
    ['for the other index', () => ({ index: 3 })],
    ['for another purpose', () => ({ purpose: 'store-share' })],
    ['for another purpose', () => ({ purpose: 'create-wallet' })],
    ['for another key generation', () => ({ subject: { challengeId: 'dkg_01jb2m7x9kq4t8v6w0r3s5y1zq' } })],
    ['for another user', () => ({ subject: { userId: 'usr_01jb2m7x9kq4t8v6w0r3s5y1zq' } })],
    ['for another app', () => ({ subject: { appId: 'app_01jb2m7x9kq4t8v6w0r3s5y1zq' } })],
    ['for another tenant', () => ({ subject: { tenantId: 'ten_01jb2m7x9kq4t8v6w0r3s5y1zq' } })],
    ['for another wallet', () => ({ subject: { walletId: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zq' } })],
    ['for another generation', () => ({ subject: { generation: 2 } })],
    ['for another transcript', () => ({ transcript: '00'.repeat(32) })],
  ]
  test.each(WRONG)('a proof %s', async (_, change) => {
    const detail = await refused((body, of) => prove(of, change(of))(body), 'share_invalid')
    expect(detail).toMatchObject({ field: 'proofs', indices: [2] })
  })

  test('proofs that are swapped, of nothing, or changed by a bit', async () => {
    const changes: [(proofs: Body['proofs']) => object[], number[]][] = [
      [
        ([two, three]) => [
          { ...two, proof: three?.proof },
          { ...three, proof: two?.proof },
        ],
        [2, 3],
      ],
      [([two, three]) => [two as object, { ...three, proof: '00'.repeat(64) }], [3]],
      [([two, three]) => [two as object, { ...three, proof: flipped(three?.proof as string) }], [3]],
    ]
    for (const [change, indices] of changes)
      expect(await refused(({ proofs }) => ({ proofs: change(proofs) }), 'share_invalid')).toMatchObject({ indices })
  })

  test('proofs that are missing, double, or of the share of the service', async () => {
    const changes: ((proofs: Body['proofs']) => unknown)[] = [
      () => undefined,
      () => [],
      ([two]) => [two],
      ([two]) => [two, two],
      ([two, three]) => [{ ...two, index: 1 }, three],
      ([two, three]) => [two, three, three],
    ]
    for (const change of changes)
      expect((await refused(({ proofs }) => ({ proofs: change(proofs) }), 'validation_failed')).field).toBe('proofs')
  })

  test('another key generation’s whole body', async () => {
    const person = await newPerson()
    const [first, second] = [await twoRounds(person), await twoRounds(person)]
    const body = confirmBody(first.dkg, first.key)
    const before = await stateOf(service, person)
    expectRefusal(await person.post(`${second.dkg.path}/confirm`, body), 'protocol_violated')
    expect(await stateOf(service, person)).toBe(before)
    expectData(await person.post(`${first.dkg.path}/confirm`, body), 201)
  })
})

test('a confirmation before the second round is a conflict', async () => {
  const person = await newPerson()
  const { dkg, key } = await twoRounds(person)
  const open = await beginDkg(person)
  const before = await stateOf(service, person)
  const answer = await person.post(`${open.path}/confirm`, {
    ...confirmBody(dkg, key),
    transcriptHash: open.transcriptHash,
  })
  expectError(answer, 409, 'dkg_conflict')
  expect(answer.body.details[0].code).toBe('too_early')
  expect(await stateOf(service, person)).toBe(before)
})
