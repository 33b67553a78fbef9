import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import {
  type BegunDkg,
  beginDkg,
  confirmBody,
  type DkgClient,
  expectData,
  finishDkg,
  flipped,
  newClient,
  type Round1,
  round2Body,
  type SealChanges,
  type SealedSubshare,
  stateOf,
} from './key-generations.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const newPerson = async (): Promise<Person> => signInAs(service, await service.newTenant())

/** The order of the group, and what is added to a scalar modulo it (little-endian). */
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n
function plus(scalar: Uint8Array, add: bigint): Uint8Array {
  const sum = (BigInt(`0x${Buffer.from(scalar).reverse().toString('hex')}`) + add + ORDER) % ORDER
  return Buffer.from(sum.toString(16).padStart(64, '0'), 'hex').reverse()
}

describe('the second round refuses, and changes nothing', () => {
  interface StartedExecution {
    person: Person
    dkg: BegunDkg
  }
  const begun = async (): Promise<StartedExecution> => {
    const person = await newPerson()
    return { person, dkg: await beginDkg(person) }
  }
  /** That a body is refused, and the right one taken afterwards. */
  async function refused({ person, dkg }: StartedExecution, body: object, code: string) {
    const before = await stateOf(service, person)
    const [detail] = expectRefusal(await person.post(`${dkg.path}/round2`, body), code)
    expect(await stateOf(service, person)).toBe(before)
    const answer = await person.post(`${dkg.path}/round2`, await round2Body(person, dkg))
    await finishDkg(dkg, expectData(answer, 200))
    return detail
  }
  const sealed = async (change: (of: StartedExecution) => SealChanges | Promise<SealChanges>, code: string) => {
    const of = await begun()
    return refused(of, await round2Body(of.person, of.dkg, await change(of)), code)
  }

  const SCALARS: [string, number[], NonNullable<SealChanges['change']>][] = [
    ['one more', [2], ({ from, scalar }) => (from === 2 ? plus(scalar, 1n) : scalar)],
    ['one less', [3], ({ from, scalar }) => (from === 3 ? plus(scalar, -1n) : scalar)],
    ['two that even out', [2, 3], ({ from, scalar }) => plus(scalar, from === 2 ? 1n : -1n)],
    ['zero', [2], ({ from, scalar }) => (from === 2 ? Buffer.alloc(32) : scalar)],
    ['the order of the group', [2], ({ from, scalar }) => (from === 2 ? plus(Buffer.alloc(32), 0n).fill(255) : scalar)],
    ['31 bytes', [3], ({ from, scalar }) => (from === 3 ? scalar.subarray(1) : scalar)],
    ['nothing', [3], ({ from, scalar }) => (from === 3 ? Buffer.alloc(0) : scalar)],
    ['400 bytes', [2], ({ from, scalar }) => (from === 2 ? Buffer.alloc(400, 1) : scalar)],
  ]
  test.each(SCALARS)('a sub-share that is not what was committed to: %s', async (_, indices, change) => {
    expect(await sealed(() => ({ change }), 'share_invalid')).toMatchObject({ field: 'sealedSubshares', indices })
  })

  test('the same value plus the order of the group: a scalar is written in one way', async () => {
    const raise = (scalar: Uint8Array) => {
      const sum = BigInt(`0x${Buffer.from(scalar).reverse().toString('hex')}`) + ORDER
      return Buffer.from(sum.toString(16).padStart(64, '0'), 'hex').reverse()
    }
    const change: SealChanges['change'] = ({ from, scalar }) => (from === 2 ? raise(scalar) : scalar)
    expect(await sealed(() => ({ change }), 'share_invalid')).toMatchObject({ indices: [2] })
  })

  test.each(['tenantId', 'appId', 'userId', 'challengeId'] as const)('what is sealed for another %s', async (field) => {
    const detail = await sealed(
      ({ dkg: { subject } }) => ({ subject: { ...subject, [field]: flipped(subject[field] as string) } }),
      'seal_invalid',
    )
    expect(detail.field).toBe('sealedSubshares.0')
  })

  test('what is sealed for another generation or wallet, purpose or key', async () => {
    await sealed(({ dkg: { subject } }) => ({ subject: { ...subject, generation: 2 } }), 'seal_invalid')
    await sealed(({ dkg: { subject } }) => ({ subject: { ...subject, walletId: '' } }), 'seal_invalid')
    for (const purpose of ['store-share', 'reshare-subshare', 'recover', 'read-share'] as const)
      await sealed(() => ({ purpose }), 'seal_invalid')
    const { publicKey } = await threshold.newEncryptionKey()
    await sealed(() => ({ publicKey }), 'seal_invalid')
  })

  test("another key generation's sealed sub-shares, be it the same user's and from the same polynomials", async () => {
    const person = await newPerson()
    const client = await newClient()
    const [first, second] = [await beginDkg(person, {}, client), await beginDkg(person, {}, client)]
    const { sealedSubshares } = await round2Body(person, first)
    const { transcriptHash } = second
    await refused({ person, dkg: second }, { sealedSubshares, transcriptHash }, 'seal_invalid')
  })

  test('sealed sub-shares with another sender or recipient than they were sealed for', async () => {
    const of = await begun()
    const body = await round2Body(of.person, of.dkg)
    const [two, three] = body.sealedSubshares as [object, object]
    const swapped = {
      ...body,
      sealedSubshares: [
        { ...two, from: 3 },
        { ...three, from: 2 },
      ],
    }
    await refused(of, swapped, 'seal_invalid')
  })

  test('a changed bit of what is sealed', async () => {
    for (const part of ['enc', 'ct'] as const) {
      const of = await begun()
      const body = await round2Body(of.person, of.dkg)
      const spoilt = body.sealedSubshares.map((one) => {
        const bytes = Buffer.from(one[part], 'base64url')
        bytes[7] = (bytes[7] as number) ^ 1
        return { ...one, [part]: bytes.toString('base64url') }
      })
      await refused(of, { ...body, sealedSubshares: spoilt }, 'seal_invalid')
    }
  })

  test('a key of the service that there is not', async () => {
    const of = await begun()
    const body = await round2Body(of.person, of.dkg)
    const [two, three] = body.sealedSubshares as [object, object]
    const detail = await refused(
      of,
      { ...body, sealedSubshares: [two, { ...three, kid: '0123456789abcdef' }] },
      'validation_failed',
    )
    expect(detail).toMatchObject({ field: 'sealedSubshares.1.kid', code: 'unknown_key' })
  })

  test('another transcript', async () => {
    for (const transcriptHash of [(await begun()).dkg.transcriptHash, '00'.repeat(32)]) {
      const of = await begun()
      const body = await round2Body(of.person, of.dkg)
      const detail = await refused(of, { ...body, transcriptHash }, 'protocol_violated')
      expect(detail).toMatchObject({ field: 'transcriptHash', code: 'transcript_differs' })
    }
  })

  test('sub-shares from or to others, missing, double or too many', async () => {
    const of = await begun()
    const body = await round2Body(of.person, of.dkg)
    const [two, three] = body.sealedSubshares as [SealedSubshare, SealedSubshare]
    for (const sealedSubshares of [
      [two],
      [two, two],
      [two, three, three],
      [two, { ...three, from: 1 }],
      [two, { ...three, from: 4 }],
      [two, { ...three, to: 2 }],
      [],
    ]) {
      const answer = await of.person.post(`${of.dkg.path}/round2`, { ...body, sealedSubshares })
      expect(expectRefusal(answer, 'validation_failed')[0].field).toBe('sealedSubshares')
    }
    await refused(of, { ...body, sealedSubshares: undefined }, 'validation_failed')
  })

  test('a polynomial that was made to be zero at the index of the service', async () => {
    const person = await newPerson()
    const client = await newClient()
    const [, three] = client.participants as [unknown, DkgClient['participants'][number]]
    // The constant stays, so that its proof does: f(x) = a − a·x.
    const [constant] = three.state.coefficients as [Uint8Array]
    const slope = plus(Buffer.alloc(32), -BigInt(`0x${Buffer.from(constant).reverse().toString('hex')}`))
    const commitments = [three.round1.commitments[0] as Uint8Array, threshold.publicKeyOf(slope)]
    three.state.coefficients = [constant, slope]
    three.state.commitments = three.round1.commitments = commitments
    ;(client.body.round1[1] as Round1).commitments = commitments.map(threshold.toHex)
    const dkg = await beginDkg(person, {}, client)
    const body = await round2Body(person, dkg, {
      change: ({ from, scalar }) => (from === 3 ? Buffer.alloc(32) : scalar),
    })
    const [detail] = expectRefusal(await person.post(`${dkg.path}/round2`, body), 'share_invalid')
    expect(detail).toMatchObject({ field: 'sealedSubshares', indices: [3] })
  })

  test('a second body, after it has answered one, which it answers again as it did', async () => {
    const { person, dkg } = await begun()
    const body = await round2Body(person, dkg)
    const post = (sent: object) => person.post(`${dkg.path}/round2`, sent)
    const first = await post(body)
    expect(first.status, first.text).toBe(200)
    const reversed = { ...body, sealedSubshares: [...body.sealedSubshares].reverse() }
    for (const again of [body, reversed]) expect((await post(again)).text).toBe(first.text)
    const before = await stateOf(service, person)
    // Sealed anew, the same sub-shares are another request.
    expectError(await post(await round2Body(person, dkg)), 409, 'dkg_conflict')
    const wrong = await round2Body(person, dkg, { change: ({ scalar }) => plus(scalar, 1n) })
    expectError(await post(wrong), 409, 'dkg_conflict')
    expectError(await post({ ...body, transcriptHash: '00'.repeat(32) }), 409, 'dkg_conflict')
    expect(await stateOf(service, person)).toBe(before)
    const key = await finishDkg(dkg, first.body.data)
    expectData(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
    expectError(await post(body), 409, 'dkg_conflict')
  })
})
