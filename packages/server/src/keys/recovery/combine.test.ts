import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { everything, ownSession } from '../../delegation/delegated.fixture.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { dump, eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import {
  deal,
  newRecipient,
  newSharedWallet,
  newSplitWallet,
  protectedShare,
  type SplitWallet,
  sealedShare as sealedFor,
  spellingsOf,
  storeShare,
} from '../key-shares/key-shares.fixture.ts'
import {
  type Asked,
  challengeOf,
  expectData,
  expectSigns,
  type Held,
  hex,
  type Recipient,
  sealedShare,
} from './recovery.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

/** A key in self-custody of which the service keeps share 1, in an app that lets it put keys together. */
async function newBackup(signers = { threshold: 3, total: 5 }, serverCombine = true): Promise<SplitWallet> {
  const tenant = await service.newTenant()
  await tenant.patch(`/apps/${tenant.appId}`, { recovery: { serverCombine } })
  const split = await newSplitWallet(service, tenant, { dealt: deal(signers) })
  await storeShare(split.person, await sealedFor(split, 1, { holder: 'server' }))
  return split
}

interface Options {
  asked?: Asked
  /** What the seals are bound to, if not what the challenge says. */
  subject?: keys.Subject
  recipient?: Recipient
}

async function combineBody(held: Held, indices: readonly number[], options: Options = {}) {
  const asked = options.asked ?? (await challengeOf(held, 'combine'))
  const recipient = options.recipient ?? (await newRecipient())
  const subject = options.subject ?? asked.subject
  const answerKey = recipient.publicKey
  const shares = await Promise.all(indices.map((index) => sealedShare(held, { subject }, index, { answerKey })))
  const { challengeId } = asked
  const { walletId } = held
  return {
    body: { walletId, mode: 'combine', challengeId, shares, recipientPublicKey: recipient.publicKey },
    asked,
    recipient,
  }
}

const recover = ({ person }: Pick<Held, 'person'>, body: object) => person.post('/mpc/recover', body)

const openKey = (
  { sealedKey: { format, enc, ct } }: { sealedKey: { format: string; enc: string; ct: string } },
  { asked, recipient }: { asked: Asked; recipient: Recipient },
) => recipient.open('recover', { ...asked.subject, format, recipientKey: recipient.publicKey }, { enc, ct })

/** Nothing has come of it. */
async function expectUntouched({ tenant, walletId }: SplitWallet): Promise<void> {
  expect(expectData(await tenant.get(`/wallets/${walletId}`), 200).exportedAt).toBeNull()
  expect(await eventsOf(service, tenant, 'key.recovered')).toEqual([])
}

describe('a combination', () => {
  test('of the client’s shares and the service’s is the key, sealed to the recipient', async () => {
    const split = await newBackup()
    const session = await ownSession(service, split, { policy: everything() })
    const made = await combineBody(split, [2, 3])
    const data = expectData(await recover(split, made.body), 200)
    expect(data).toMatchObject({
      mode: 'combine',
      walletId: split.walletId,
      publicKey: hex(split.publicKey),
      generation: 1,
      threshold: 3,
      total: 5,
      sealedShare: null,
      sealedKey: { format: 'ed25519-scalar-le' },
    })
    const scalar = await openKey(data, made)
    expect(hex(scalar)).toBe(hex(split.scalar))
    expectSigns(split, scalar)
    const { tenant, walletId, person } = split
    expect(expectData(await tenant.get(`/wallets/${walletId}`), 200).exportedAt).toEqual(expect.any(String))
    expect((await tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('revoked')
    const told = { walletId, userId: person.userId, mode: 'combine' }
    expect(await eventsOf(service, tenant, 'key.recovered')).toEqual([told])
    const read = expectData(await person.get(`/mpc/shares/${walletId}`), 200)
    expect(read.shares[0].lastUsedAt).toEqual(expect.any(String))
  })

  test.for([
    { threshold: 2, total: 2 },
    { threshold: 2, total: 3 },
    { threshold: 4, total: 15 },
  ])('works for $threshold of $total, and with more shares than are needed', async (signers) => {
    const split = await newBackup(signers)
    const few = Array.from({ length: signers.threshold - 1 }, (_, at) => signers.total - at)
    const all = Array.from({ length: signers.total - 1 }, (_, at) => at + 2)
    for (const indices of [few, all]) {
      const made = await combineBody(split, indices)
      expect(hex(await openKey(expectData(await recover(split, made.body), 200), made))).toBe(hex(split.scalar))
    }
  })

  test('takes the holder from the body, from the record, or as it is usual for the index', async () => {
    const split = await newBackup({ threshold: 2, total: 5 })
    await storeShare(split.person, protectedShare(split, 4, { holder: 'recovery' }))
    const asked = async () => challengeOf(split, 'combine')
    for (const [index, holder, said] of [
      [2, 'device', undefined],
      [3, 'recovery', undefined],
      [4, 'recovery', undefined],
      [5, 'recovery', undefined],
      [5, 'device', 'device'],
    ] as const) {
      const made = await combineBody(split, [], { asked: await asked() })
      const share = {
        ...(await sealedShare(split, made.asked, index, { holder, answerKey: made.recipient.publicKey })),
        ...(said && { holder: said }),
      }
      const data = expectData(await recover(split, { ...made.body, shares: [share] }), 200)
      expect(hex(await openKey(data, made))).toBe(hex(split.scalar))
    }
    const made = await combineBody(split, [])
    const share = {
      ...(await sealedShare(split, made.asked, 3, { answerKey: made.recipient.publicKey })),
      holder: 'device',
    }
    const [detail] = expectRefusal(await recover(split, { ...made.body, shares: [share] }), 'seal_invalid')
    expect(detail.field).toBe('shares.0')
  })

  test('of twenty at once by one challenge one is answered', async () => {
    const split = await newBackup({ threshold: 2, total: 3 })
    const { body } = await combineBody(split, [2])
    let open = Array.from({ length: 20 }, () => body)
    const counts: Record<string, number> = {}
    // Threads that end with a call are few: who finds none asks again, and has used nothing up.
    while (open.length > 0) {
      const answers = await Promise.all(open.map((one) => recover(split, one)))
      const { '429 rate_limited': waiting = 0, ...settled } = statusCounts(answers)
      for (const [name, n] of Object.entries(settled)) counts[name] = (counts[name] ?? 0) + n
      open = open.slice(0, waiting)
    }
    expect(counts).toEqual({ 200: 1, '410 challenge_expired': 19 })
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toHaveLength(1)
  })
})

describe('a combination is refused', () => {
  test('unless the app lets the service put keys together, which names the setting', async () => {
    const split = await newBackup({ threshold: 2, total: 3 }, false)
    const { body } = await combineBody(split, [2])
    const answer = await recover(split, body)
    expectError(answer, 409, 'custody_violation')
    expect(answer.body.details[0].message).toContain('recovery.serverCombine')
    await split.tenant.patch(`/apps/${split.tenant.appId}`, { recovery: { serverCombine: true } })
    expect((await recover(split, body)).status).toBe(200)
  })

  test('for a shared wallet, whatever the app says', async () => {
    const tenant = await service.newTenant()
    await tenant.patch(`/apps/${tenant.appId}`, { recovery: { serverCombine: true } })
    const split = await newSharedWallet(service, tenant)
    const { body } = await combineBody(split, [2])
    expectError(await recover(split, body), 409, 'custody_violation')
    await expectUntouched(split)
  })

  test('for too few, wrong, changed, doubled and mixed shares, with their indices; each uses the challenge up', async () => {
    const split = await newBackup()
    const other = deal({ threshold: 3, total: 5 })
    const again = keys.dealShares({ threshold: 3, total: 5 }, split.scalar)
    const flip = (scalar: Uint8Array) => scalar.map((byte, at) => (at === 7 ? byte ^ 4 : byte))
    const scalarOf = (index: number) => split.share(index).scalar
    const wrong: [what: string, given: [number, Uint8Array][], code: string, indices: number[]][] = [
      ['none', [], 'shares_insufficient', []],
      ['one too few', [[2, scalarOf(2)]], 'shares_insufficient', []],
      [
        'a flipped bit',
        [
          [2, scalarOf(2)],
          [3, flip(scalarOf(3))],
        ],
        'share_invalid',
        [3],
      ],
      [
        'another index',
        [
          [2, scalarOf(2)],
          [4, scalarOf(3)],
        ],
        'share_invalid',
        [4],
      ],
      [
        'twice',
        [
          [2, scalarOf(2)],
          [2, scalarOf(2)],
        ],
        'share_invalid',
        [2],
      ],
      [
        'the service’s own',
        [
          [1, scalarOf(1)],
          [2, scalarOf(2)],
        ],
        'share_invalid',
        [1],
      ],
      [
        'of another key',
        [2, 3].map((index) => [index, other.shares[index - 1]?.scalar as Uint8Array]),
        'share_invalid',
        [2, 3],
      ],
      [
        'of another generation',
        [
          [2, scalarOf(2)],
          [3, again.shares[2]?.scalar as Uint8Array],
        ],
        'share_invalid',
        [3],
      ],
      [
        'of another generation, all of them',
        [2, 3, 4].map((index) => [index, again.shares[index - 1]?.scalar as Uint8Array]),
        'share_invalid',
        [2, 3, 4],
      ],
      [
        'beyond the total',
        [
          [2, scalarOf(2)],
          [6, scalarOf(3)],
        ],
        'share_invalid',
        [6],
      ],
      [
        'zero',
        [
          [2, scalarOf(2)],
          [3, new Uint8Array(32)],
        ],
        'share_invalid',
        [3],
      ],
      [
        'no scalar',
        [
          [2, scalarOf(2)],
          [3, new Uint8Array(32).fill(255)],
        ],
        'share_invalid',
        [3],
      ],
      [
        'too short',
        [
          [2, scalarOf(2)],
          [3, scalarOf(3).slice(1)],
        ],
        'share_invalid',
        [3],
      ],
    ]
    for (const [what, given, code, indices] of wrong) {
      const made = await combineBody(split, [])
      const shares = await Promise.all(
        given.map(([index, scalar]) =>
          sealedShare(split, made.asked, index, { holder: 'device', scalar, answerKey: made.recipient.publicKey }),
        ),
      )
      const answer = await recover(split, { ...made.body, shares: shares.map((one) => ({ ...one, holder: 'device' })) })
      const [detail] = expectRefusal(answer, code, what)
      expect(detail, what).toMatchObject({ field: 'shares', indices })
      const right = await combineBody(split, [2, 3], made)
      expectError(await recover(split, right.body), 410, 'challenge_expired', what)
    }
    await expectUntouched(split)
  })

  test('for a recipient that who sealed the shares did not name: the key goes to no one on the way', async () => {
    const split = await newBackup()
    const made = await combineBody(split, [2, 3])
    const { publicKey: recipientPublicKey } = await newRecipient()
    expectRefusal(await recover(split, { ...made.body, recipientPublicKey }), 'seal_invalid')
    await expectUntouched(split)
  })

  test('for seals of another challenge, generation or user, or changed, and index 0', async () => {
    const split = await newBackup()
    const flipped = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
    const subjects: ((subject: keys.Subject) => keys.Subject)[] = [
      (subject) => ({ ...subject, challengeId: 'chl_x' }),
      (subject) => ({ ...subject, challengeId: null }),
      (subject) => ({ ...subject, generation: 2 }),
      (subject) => ({ ...subject, userId: 'usr_x' }),
    ]
    for (const change of subjects) {
      const asked = await challengeOf(split, 'combine')
      const { body } = await combineBody(split, [2, 3], { asked, subject: change(asked.subject) })
      expect(expectRefusal(await recover(split, body), 'seal_invalid')[0].field).toBe('shares.0')
    }
    const { body } = await combineBody(split, [2, 3])
    const [two, three] = body.shares as [(typeof body.shares)[0], (typeof body.shares)[0]]
    const changed = { ...body, shares: [two, { ...three, ct: flipped(three.ct) }] }
    expect(expectRefusal(await recover(split, changed), 'seal_invalid')[0].field).toBe('shares.1')
    const asked = await challengeOf(split, 'combine')
    const zero = await combineBody(split, [2, 3], { asked })
    const none = { ...zero.body, shares: [zero.body.shares[0], { ...zero.body.shares[1], index: 0 }] }
    expect(expectRefusal(await recover(split, none), 'validation_failed')[0].field).toBe('shares.1.index')
    const unknown = { ...zero.body, shares: [{ ...zero.body.shares[0], kid: 'none' }] }
    expect(expectRefusal(await recover(split, unknown), 'validation_failed')[0].field).toBe('shares.0.kid')
    await expectUntouched(split)
    expect((await recover(split, zero.body)).status).toBe(200)
  })
})

test('neither tables nor logs hold a share or the key afterwards', async () => {
  const split = await newBackup()
  const { body } = await combineBody(split, [2, 3])
  const headers = { 'idempotency-key': 'k' }
  const first = await split.person.post('/mpc/recover', body, { headers })
  expect(first.headers.get('cache-control')).toBe('no-store')
  expect((await split.person.post('/mpc/recover', body, { headers })).text).toBe(first.text)
  const held = (await dump(service)) + service.logs()
  const secrets = [split.scalar, ...split.shares.map(({ scalar }) => scalar)].flatMap(spellingsOf)
  expect(secrets.filter((text) => held.includes(text))).toEqual([])
  expect(held).not.toContain(first.body.data.sealedKey.ct)
})
