import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import type * as threshold from '../../platform/security/threshold/threshold.ts'
import { type DkgClient, flipped, newClient, type Round1, stateOf } from './key-generations.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const newPerson = async (): Promise<Person> => signInAs(service, await service.newTenant())

describe('the first round refuses', () => {
  const begin = async (change: (client: DkgClient, other: DkgClient) => object) => {
    const person = await newPerson()
    const client = await newClient()
    const before = await stateOf(service, person)
    const answer = await person.post('/mpc/dkg', { ...client.body, ...change(client, await newClient()) })
    expect(await stateOf(service, person)).toBe(before)
    return answer
  }
  const round1 = (change: (said: [Round1, Round1], other: [Round1, Round1]) => Round1[]) =>
    begin(({ body }, other) => ({
      round1: change(body.round1 as [Round1, Round1], other.body.round1 as [Round1, Round1]),
    }))

  const PROOFS: [string, number[], Parameters<typeof round1>[0]][] = [
    ["the other index's message", [2], ([, three]) => [{ ...three, index: 2 }, three]],
    ["the other index's proof", [2], ([two, three]) => [{ ...two, proofOfKnowledge: three.proofOfKnowledge }, three]],
    [
      'two that are swapped',
      [2, 3],
      ([two, three]) => [
        { ...two, index: 3 },
        { ...three, index: 2 },
      ],
    ],
    [
      "another one's proof",
      [3],
      ([two, three], [, other]) => [two, { ...three, proofOfKnowledge: other.proofOfKnowledge }],
    ],
    [
      'a proof with one bit changed',
      [2],
      ([two, three]) => [{ ...two, proofOfKnowledge: flipped(two.proofOfKnowledge) }, three],
    ],
    ['a proof of nothing', [3], ([two, three]) => [two, { ...three, proofOfKnowledge: '00'.repeat(64) }]],
    [
      'commitments in another order',
      [2],
      ([two, three]) => [{ ...two, commitments: [...two.commitments].reverse() }, three],
    ],
    [
      'a commitment to what one does not know',
      [3],
      ([two, three], [other]) => [
        two,
        { ...three, commitments: [other.commitments[0] as string, three.commitments[1] as string] },
      ],
    ],
  ]
  test.each(PROOFS)('%s', async (_, indices, change) => {
    const [detail] = expectRefusal(await round1(change), 'protocol_violated')
    expect(detail).toMatchObject({ field: 'round1', indices })
  })

  const POINTS = {
    identity: `01${'00'.repeat(31)}`,
    'identity, not canonical': `${'ee'}${'ff'.repeat(30)}7f`,
    'of order 2': `ec${'ff'.repeat(30)}7f`,
    'of order 4': '00'.repeat(32),
    'of order 8': 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'not on the curve': `02${'00'.repeat(31)}`,
    'above the field': 'ff'.repeat(32),
  }
  test.each(Object.entries(POINTS))('a commitment that is no point of prime order: %s', async (_, point) => {
    for (const at of [0, 1]) {
      const answer = await round1(([two, three]) => [
        two,
        { ...three, commitments: three.commitments.map((one, n) => (n === at ? point : one)) },
      ])
      const [detail] = expectRefusal(answer, 'protocol_violated')
      expect(detail).toMatchObject({ field: 'round1', indices: [3] })
    }
  })

  const participants = (change: (two: threshold.Participant, three: threshold.Participant) => object[]) =>
    begin(({ body }) => {
      const [two, three] = body.participants as [threshold.Participant, threshold.Participant]
      return { participants: change(two, three) }
    })

  test('other participants than the device at 2 and the recovery at 3', async () => {
    const wrong: Parameters<typeof participants>[0][] = [
      (two) => [two, two],
      (two, three) => [two, { ...three, index: 4 }],
      (two, three) => [{ ...two, index: 1 }, three],
      (two, three) => [{ ...two, holder: 'server' }, three],
      (two, three) => [
        { ...two, holder: 'recovery' },
        { ...three, holder: 'device' },
      ],
      (two, three) => [
        { ...two, index: 3 },
        { ...three, index: 2 },
      ],
    ]
    for (const change of wrong)
      expect(expectRefusal(await participants(change), 'validation_failed')[0].field).toBe('participants')
    for (const change of [([two]: Round1[]) => [two, two], ([two, three]: Round1[]) => [two, { ...three, index: 1 }]])
      expect(expectRefusal(await round1(change as never), 'validation_failed')[0].field).toBe('round1')
  })

  test('a key that nothing can be sealed to, of which it says which', async () => {
    for (const encryptionKey of ['00'.repeat(32), `01${'00'.repeat(31)}`, `ec${'ff'.repeat(30)}7f`]) {
      const [detail] = expectRefusal(
        await participants((two, three) => [two, { ...three, encryptionKey }]),
        'validation_failed',
      )
      expect(detail.field).toBe('participants.1.encryptionKey')
    }
  })

  test('what is missing, too much, unknown or malformed, by the field', async () => {
    const person = await newPerson()
    const { body } = await newClient()
    const [two, three] = body.round1 as [Round1, Round1]
    const [device, recovery] = body.participants as [threshold.Participant, threshold.Participant]
    const wrong: [object, string][] = [
      [{ participants: undefined }, 'participants'],
      [{ round1: undefined }, 'round1'],
      [{ participants: [device] }, 'participants'],
      [{ participants: [device, recovery, recovery] }, 'participants'],
      [{ round1: [] }, 'round1'],
      [{ round1: [two, three, three] }, 'round1'],
      [{ round1: [two, { ...three, index: 0 }] }, 'round1.1.index'],
      [{ round1: [two, { ...three, index: '3' }] }, 'round1.1.index'],
      [{ round1: [two, { ...three, commitments: [] }] }, 'round1.1.commitments'],
      [
        { round1: [two, { ...three, commitments: [...three.commitments, ...three.commitments] }] },
        'round1.1.commitments',
      ],
      [{ round1: [two, { ...three, commitments: ['x', 'y'] }] }, 'round1.1.commitments.0'],
      [{ round1: [two, { ...three, proofOfKnowledge: 'AB'.repeat(64) }] }, 'round1.1.proofOfKnowledge'],
      [{ round1: [two, { ...three, secret: '1' }] }, 'round1.1.secret'],
      [{ participants: [device, { ...recovery, encryptionKey: 'x' }] }, 'participants.1.encryptionKey'],
      [{ participants: [device, { ...recovery, holder: 'me' }] }, 'participants.1.holder'],
      [{ dkgId: 'dkg_1' }, 'dkgId'],
      [{ threshold: 1 }, 'threshold'],
    ]
    for (const [change, field] of wrong) {
      const details = expectRefusal(await person.post('/mpc/dkg', { ...body, ...change }), 'validation_failed')
      expect(details.map((detail) => detail.field)).toContain(field)
    }
  })
})
