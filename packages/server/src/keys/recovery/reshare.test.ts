import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { digestOf, everything, ownSession, type Session } from '../../delegation/delegated.fixture.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { dump, eventsOf, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { newSharedWallet, newSplitWallet, type SplitWallet, spellingsOf } from '../key-shares/key-shares.fixture.ts'
import {
  as,
  challengeOf,
  dealAnew,
  expectData,
  expectSigns,
  type Held,
  hex,
  receive,
  release,
  releaseBody,
  reshare,
  start,
} from './recovery.fixture.ts'
import { sweepResharings } from './reshare.ts'

const HOUR_MS = 3_600_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newShared(options: Parameters<typeof newSharedWallet>[2] = {}): Promise<SplitWallet> {
  return newSharedWallet(service, await service.newTenant(), options)
}

const recover = ({ person }: Pick<Held, 'person'>, body: object) => person.post('/mpc/recover', body)
const walletOf = async ({ tenant, walletId }: SplitWallet) => expectData(await tenant.get(`/wallets/${walletId}`), 200)

/** Signs a note by a share of the user's and the service's. @returns the execution's state, or the error */
async function coSign(session: Session, held: Held, { index = 2, party }: { index?: number; party: string }) {
  const share = held.share(index)
  const { nonces, commitments } = keys.commitNonces(share)
  const asked = await session.execute({
    commands: [{ create: { templateId: 'Note:Note', arguments: { author: party, text: 'x' } } }],
    commitments: { index, hiding: hex(commitments.hiding), binding: hex(commitments.binding) },
  })
  const { signingRequest } = expectData(asked, 200)
  const { serverCommitments: other, serverSignatureShare: value } = signingRequest
  const theirs = { index: 1, hiding: keys.fromHex(other.hiding), binding: keys.fromHex(other.binding) }
  const message = digestOf(signingRequest.preparedTransaction)
  const signing = { sharing: held.sharing, commitments: [theirs, commitments], message }
  const mine = keys.signShare(signing, share, nonces)
  let signature: Uint8Array
  try {
    signature = keys.aggregate(signing, [{ index: 1, value: keys.fromHex(value) }, mine])
  } catch (error) {
    return (error as keys.ShareError).code
  }
  const done = await session.execute({ signingRequestId: signingRequest.id, signature: hex(signature) })
  return done.status === 200 ? done.body.data.status : done.body.code
}

async function sessionOf(split: SplitWallet) {
  const { partyId } = await walletOf(split)
  return { session: await ownSession(service, split, { policy: everything() }), party: partyId as string }
}

/** What there is of the key, and what it was told. */
const stateOf = async ({ tenant, walletId }: SplitWallet) =>
  JSON.stringify([
    await service.sql('select generation, key_origin, exported_at, status from wallets where id = $1', [walletId]),
    await service.sql(
      'select id, generation, index, status, share_sealed from key_shares where wallet_id = $1 order by id',
      [walletId],
    ),
    await eventsOf(service, tenant, 'key.recovered'),
  ])

describe('a resharing', () => {
  test.for([
    { set: [1, 2], lost: 'the recovery share' },
    { set: [1, 3], lost: 'the device’s share' },
    { set: [2, 3], lost: 'the service’s share' },
    { set: [3, 1], lost: 'the device’s share, in another order' },
  ])(
    'by $set, $lost being lost, gives new shares of the same key, and the old ones are worth nothing',
    async ({ set }) => {
      const split = await newShared()
      const { session, party } = await sessionOf(split)
      if (!set.includes(1)) {
        expectData(await split.person.delete(`/mpc/shares/${split.walletId}`), 200)
        const { commitments } = keys.commitNonces(split.share(2))
        const wire = { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) }
        const command = { create: { templateId: 'Note:Note', arguments: { author: party, text: 'x' } } }
        const refused = await session.execute({ commands: [command], commitments: wire })
        expectError(refused, 409, 'share_missing')
      } else expect(await coSign(session, split, { party })).toBe('completed')
      const { data, next, done } = await reshare(split, set)
      expect(data).toMatchObject({
        mode: 'reshare',
        generation: 2,
        threshold: 2,
        total: 3,
        publicKey: hex(split.publicKey),
      })
      expect(data.dealings.map(({ from }: { from: number }) => from)).toEqual([1])
      expect(data.commitments[0]).toBe(hex(split.publicKey))
      expect(done).toMatchObject({ mode: 'reshare', generation: 2, commitments: data.commitments })
      expect(done.shares).toMatchObject([
        { index: 1, holder: 'server', generation: 2, status: 'active', stored: true, protection: 'service' },
        { index: 2, holder: 'device', generation: 2, status: 'active', stored: false, protection: 'client' },
        { index: 3, holder: 'recovery', generation: 2, status: 'active', stored: false, protection: 'client' },
      ])
      // The user's new ones are the key, and sign with the service's.
      expectSigns(split, keys.joinShares(next.sharing, [next.share(2), next.share(3)]))
      expect(await coSign(session, next, { party })).toBe('completed')
      expect(await coSign(session, next, { party, index: 3 })).toBe('completed')
      expect(await coSign(session, split, { party })).toBe('share_invalid')
      const { share } = await release(next)
      expectSigns(split, keys.joinShares(next.sharing, [share, next.share(3)]))
      // Old and new ones make nothing together, and an old one releases nothing.
      for (const old of [2, 3])
        for (const sharing of [split.sharing, next.sharing])
          expect(() => keys.joinShares(sharing, [share, split.share(old)])).toThrow(/share/i)
      const { body } = await releaseBody(split)
      expect(expectRefusal(await recover(split, body), 'share_invalid')[0].indices).toEqual([2])
    },
  )

  test('destroys what was kept of the old shares, is told of once, and exports nothing', async () => {
    const split = await newShared()
    const { session } = await sessionOf(split)
    await reshare(split, [1, 2])
    const rows = await service.sql<{ generation: number; status: string; kept: boolean }>(
      `select generation, status, share_sealed is not null as kept from key_shares where wallet_id = $1 order by generation, index`,
      [split.walletId],
    )
    expect(rows).toEqual([
      ...[1, 2, 3].map(() => ({ generation: 1, status: 'superseded', kept: false })),
      { generation: 2, status: 'active', kept: true },
      ...[2, 3].map(() => ({ generation: 2, status: 'active', kept: false })),
    ])
    expect(await service.sql('select share_sealed from resharings where wallet_id = $1', [split.walletId])).toEqual([
      { share_sealed: null },
    ])
    const told = { walletId: split.walletId, userId: split.person.userId, mode: 'reshare' }
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toEqual([told])
    expect(await walletOf(split)).toMatchObject({ generation: 2, exportedAt: null, publicKey: hex(split.publicKey) })
    expect((await split.tenant.get(`/users/${split.person.userId}`)).body.data.trustLevel).toBe('shared')
    expect((await split.tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('active')
  })

  test('can be followed by others, and makes a wallet ready whose device share was never proven', async () => {
    const split = await newShared({ proofs: [] })
    expect((await walletOf(split)).status).toBe('pending')
    const first = await reshare(split, [1, 2])
    expect((await walletOf(split)).status).toBe('ready')
    const second = await reshare(first.next, [2, 3])
    const third = await reshare(second.next, [1, 3])
    expect(third.done.generation).toBe(4)
    expectSigns(split, keys.joinShares(third.next.sharing, [third.next.share(2), third.next.share(3)]))
    expect(await eventsOf(service, split.tenant, 'wallet.ready')).toHaveLength(1)
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toHaveLength(3)
  })

  test('ends open signing requests of the old shares', async () => {
    const split = await newShared()
    const { session, party } = await sessionOf(split)
    const share = split.share(2)
    const { nonces, commitments } = keys.commitNonces(share)
    const command = { create: { templateId: 'Note:Note', arguments: { author: party, text: 'x' } } }
    const wire = { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) }
    const { signingRequest } = expectData(await session.execute({ commands: [command], commitments: wire }), 200)
    await reshare(split, [1, 2])
    const { serverCommitments: other, serverSignatureShare: value, id } = signingRequest
    const theirs = { index: 1, hiding: keys.fromHex(other.hiding), binding: keys.fromHex(other.binding) }
    const message = digestOf(signingRequest.preparedTransaction)
    const signing = { sharing: split.sharing, commitments: [theirs, commitments], message }
    const mine = keys.signShare(signing, share, nonces)
    const signature = hex(keys.aggregate(signing, [{ index: 1, value: keys.fromHex(value) }, mine]))
    const done = await session.execute({ signingRequestId: id, signature })
    expect(done.status, done.text).toBeGreaterThanOrEqual(400)
  })
})

describe('until it is confirmed', () => {
  test('the deletion of the shares ends it: what is to be destroyed does not come back', async () => {
    const split = await newShared()
    const begun = await start(split, [1, 2])
    expect((await split.person.delete(`/mpc/shares/${split.walletId}`)).status).toBe(200)
    expectError(await recover(split, begun.body), 410, 'reshare_expired')
    expect(
      await service.sql('select 1 from resharings where wallet_id = $1 and share_sealed is not null', [split.walletId]),
    ).toEqual([])
    // Both of the user's shares bring the wallet back, if the user wants it.
    const { next } = await reshare(split, [2, 3])
    expectSigns(split, keys.joinShares(next.sharing, [next.share(2), next.share(3)]))
  })

  test('the old shares work, and after an hour they are all there is', async () => {
    const split = await newShared()
    const { session, party } = await sessionOf(split)
    const before = await stateOf(split)
    const begun = await start(split, [1, 2])
    expect(Date.parse(begun.data.expiresAt) - service.deps.now().getTime()).toBeGreaterThan(HOUR_MS - 60_000)
    expect(await coSign(session, split, { party })).toBe('completed')
    await sweepResharings(service.deps)
    const [pending] = await service.sql<{ share_sealed: Buffer | null }>(
      'select share_sealed from resharings where wallet_id = $1',
      [split.walletId],
    )
    expect(pending?.share_sealed).toBeInstanceOf(Buffer)
    service.advance(HOUR_MS)
    const held = as(split, await signInAs(service, split.tenant, { userId: split.person.userId }))
    expectError(await recover(held, begun.body), 410, 'reshare_expired')
    await sweepResharings(service.deps)
    expect(await service.sql('select share_sealed from resharings where wallet_id = $1', [split.walletId])).toEqual([
      { share_sealed: null },
    ])
    expectError(await recover(held, begun.body), 410, 'reshare_expired')
    expect(await stateOf(split)).toBe(before)
    const { next } = await reshare(held, [1, 2])
    expectSigns(split, keys.joinShares(next.sharing, [next.share(2), next.share(3)]))
    service.advance(26 * HOUR_MS)
    await sweepResharings(service.deps)
    expect(await service.sql('select 1 from resharings where wallet_id = $1', [split.walletId])).toEqual([])
  })

  test('another start takes its place, and it can be confirmed no more', async () => {
    const split = await newShared()
    const first = await start(split, [1, 2])
    const second = await start(split, [1, 3])
    const before = await stateOf(split)
    const refused = await recover(split, first.body)
    expectError(refused, 404, 'not_found')
    expect(refused.body.details[0].field).toBe('reshareId')
    expect(await stateOf(split)).toBe(before)
    expect((await recover(split, second.body)).status).toBe(200)
    expectError(await recover(split, first.body), 404, 'not_found')
  })

  test('of twenty confirmations at once one makes the switch, and all are answered the same', async () => {
    const split = await newShared()
    const { body, next } = await start(split, [1, 2])
    const answers = await Promise.all(Array.from({ length: 20 }, () => recover(split, body)))
    expect(statusCounts(answers)).toEqual({ 200: 20 })
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect((await recover(split, body)).text).toBe(answers[0]?.text)
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toHaveLength(1)
    expect((await walletOf(split)).generation).toBe(2)
    const rows = await service.sql('select 1 from key_shares where wallet_id = $1', [split.walletId])
    expect(rows).toHaveLength(6)
    expectSigns(split, keys.joinShares(next.sharing, [next.share(2), next.share(3)]))
  })

  test('twenty starts at once by as many challenges leave one that can be confirmed', async () => {
    const split = await newShared()
    const dealt = await Promise.all(Array.from({ length: 20 }, () => dealAnew(split, [1, 2])))
    const answers = await Promise.all(dealt.map(({ body }) => recover(split, body)))
    expect(statusCounts(answers)).toEqual({ 200: 20 })
    const begun = await Promise.all(answers.map((answer, at) => receive(dealt[at] as never, answer.body.data)))
    const confirmed = await Promise.all(begun.map(({ body }) => recover(split, body)))
    expect(statusCounts(confirmed)).toEqual({ 200: 1, '404 not_found': 19 })
    const { next } = begun[confirmed.findIndex(({ status }) => status === 200)] as (typeof begun)[0]
    const { share } = await release(next)
    expectSigns(split, keys.joinShares(next.sharing, [share, next.share(2)]))
  })

  test('a failure in the middle of the switch leaves the old shares as they were', async () => {
    const split = await newShared()
    const { session, party } = await sessionOf(split)
    const { body } = await start(split, [1, 2])
    const before = await stateOf(split)
    await service.sql(`create function refuse() returns trigger language plpgsql as $$ begin
      if new.tenant_id = '${split.tenant.tenantId}' and new.type = 'key.recovered' then raise 'refused'; end if; return new; end $$`)
    await service.sql('create trigger refuse before insert on events for each row execute function refuse()')
    expectError(await recover(split, body), 500, 'internal_error')
    await service.sql('drop trigger refuse on events')
    await service.sql('drop function refuse()')
    expect(await stateOf(split)).toBe(before)
    expect(await coSign(session, split, { party })).toBe('completed')
    expect((await recover(split, body)).status).toBe(200)
  })
})

describe('a start is refused', () => {
  test('for what was not dealt by the old shares of the set for this challenge, and uses it up', async () => {
    const split = await newShared()
    const other = await newShared()
    const before = await stateOf(split)
    const flipped = (text: string) => (text.startsWith('0') ? '1' : '0') + text.slice(1)
    // biome-ignore lint/suspicious/noExplicitAny: bodies that are wrong on purpose
    type Body = any
    const [first] = (await dealAnew(split, [1, 2])).body.dealings
    const foreign = await dealAnew({ ...other, walletId: split.walletId, person: split.person }, [1, 2])
    const wrong: [what: string, set: number[], change: (body: Body) => Body, code: string][] = [
      ['of another challenge', [1, 2], (body) => ({ ...body, dealings: [first] }), 'seal_invalid'],
      ['of another key', [1, 2], (body) => ({ ...body, dealings: foreign.body.dealings }), 'seal_invalid'],
      ['proof of nothing', [1, 2], (body) => with1(body, { proof: '00'.repeat(64) }), 'share_invalid'],
      ['changed proof', [1, 2], (body) => with1(body, { proof: flipped(body.dealings[0].proof) }), 'share_invalid'],
      ['commitments of another', [1, 2], (body) => with1(body, { commitments: first.commitments }), 'share_invalid'],
      ['another dealer', [1, 2], (body) => with1(body, { from: 3 }), 'seal_invalid'],
      ['another set', [1, 2], (body) => ({ ...body, set: [1, 3] }), 'share_invalid'],
      [
        'the service’s too',
        [1, 2],
        (body) => ({ ...body, dealings: [...body.dealings, { ...body.dealings[0], from: 1 }] }),
        'seal_invalid',
      ],
      ['one twice', [1, 2], (body) => ({ ...body, dealings: [body.dealings[0], body.dealings[0]] }), 'share_invalid'],
      ['none', [1, 2], (body) => ({ ...body, dealings: [] }), 'share_invalid'],
      ['one missing', [2, 3], (body) => ({ ...body, dealings: [body.dealings[0]] }), 'share_invalid'],
      ['the same set twice', [1, 2], (body) => ({ ...body, set: [2, 2] }), 'share_invalid'],
      ['too small a set', [1, 2], (body) => ({ ...body, set: [2] }), 'shares_insufficient'],
      ['no set', [1, 2], (body) => ({ ...body, set: [] }), 'shares_insufficient'],
      ['beyond the total', [1, 2], (body) => ({ ...body, set: [2, 4] }), 'share_invalid'],
      [
        'changed seal',
        [1, 2],
        (body) =>
          with1(body, {
            sealedSubshare: {
              ...body.dealings[0].sealedSubshare,
              ct: flipped(body.dealings[0].sealedSubshare.ct),
            },
          }),
        'seal_invalid',
      ],
    ]
    function with1(body: Body, more: object) {
      return { ...body, dealings: [{ ...body.dealings[0], ...more }] }
    }
    for (const [what, set, change, code] of wrong) {
      const { body, asked } = await dealAnew(split, set)
      const changed = change(body)
      expectRefusal(await recover(split, changed), code, what)
      const right = await dealAnew(split, set, { asked })
      expectError(await recover(split, right.body), 410, 'challenge_expired', what)
    }
    expect(await stateOf(split)).toBe(before)
    expect(await service.sql('select 1 from resharings where wallet_id = $1', [split.walletId])).toEqual([])
  })

  test('for participants or commitments that the dealer did not deal for: the service’s share goes to no one on the way', async () => {
    const split = await newShared()
    const { body } = await dealAnew(split, [1, 2])
    const { body: other } = await dealAnew(split, [1, 2])
    const [detail] = expectRefusal(await recover(split, { ...body, participants: other.participants }), 'share_invalid')
    expect(detail).toMatchObject({ field: 'dealings', indices: [2] })
  })

  test('for a sub-share that is not what its dealing says, naming the dealer', async () => {
    const split = await newShared()
    const asked = await challengeOf(split, 'reshare')
    const made = await dealAnew(split, [1, 2], { asked })
    const again = await dealAnew(split, [1, 2], { asked })
    const [dealing] = made.body.dealings
    const mixed = { ...dealing, sealedSubshare: again.body.dealings[0].sealedSubshare }
    const [detail] = expectRefusal(await recover(split, { ...made.body, dealings: [mixed] }), 'share_invalid')
    expect(detail).toMatchObject({ field: 'dealings', indices: [2] })
  })

  test('for seals and proofs bound to somebody else, another wallet or generation', async () => {
    const split = await newShared()
    for (const more of [{ userId: 'usr_x' }, { walletId: 'wal_x' }, { generation: 2 }, { challengeId: 'chl_x' }]) {
      const asked = await challengeOf(split, 'reshare')
      const { body } = await dealAnew(split, [1, 2], { asked, subject: { ...asked.subject, ...more } })
      expectRefusal(await recover(split, body), 'seal_invalid')
    }
    // Sealed rightly, but proven for another challenge.
    const [one, two] = [await challengeOf(split, 'reshare'), await challengeOf(split, 'reshare')]
    const proven = await dealAnew(split, [1, 2], { asked: one })
    const share = proven.dealt[0] as (typeof proven.dealt)[0]
    const { body } = await dealAnew(split, [1, 2], { asked: two })
    const proof = hex(
      keys.prove(
        share.weight,
        'reshare-dealing',
        one.subject,
        keys.dealingDetails(share.dealing, { set: [1, 2], participants: body.participants }),
      ),
    )
    const [dealing] = body.dealings
    const [detail] = expectRefusal(
      await recover(split, { ...body, dealings: [{ ...dealing, proof }] }),
      'share_invalid',
    )
    expect(detail).toMatchObject({ indices: [2] })
  })

  test('where fields are missing, beside the point, or not well-formed; and leaves the challenge as it was', async () => {
    const split = await newShared()
    const { body } = await dealAnew(split, [1, 2])
    for (const field of ['challengeId', 'set', 'participants', 'dealings', 'commitments']) {
      const { [field]: _, ...rest } = body
      expect(expectRefusal(await recover(split, rest), 'validation_failed', field)[0].field).toBe(field)
    }
    const [two, three] = body.participants
    const changes: [object, string][] = [
      [{ proofs: [] }, 'proofs'],
      [{ shares: [] }, 'shares'],
      [{ generation: 1 }, 'generation'],
      [{ recipientPublicKey: '00'.repeat(32) }, 'recipientPublicKey'],
      [{ signature: '00'.repeat(64) }, 'signature'],
      [{ participants: [two, two] }, 'participants'],
      [{ participants: [two, { ...three, holder: 'device' }] }, 'participants'],
      [{ participants: [{ ...two, index: 1 }, three] }, 'participants'],
      [{ participants: [two] }, 'participants'],
      [{ participants: [two, { ...three, encryptionKey: '00'.repeat(32) }] }, 'participants.1.encryptionKey'],
      [{ commitments: { ...body.commitments, index: 3 } }, 'commitments.index'],
      [{ set: [0, 2] }, 'set.0'],
      [{ dealings: [{ ...body.dealings[0], from: 0 }] }, 'dealings.0.from'],
      [
        { dealings: [{ ...body.dealings[0], commitments: body.dealings[0].commitments.slice(1) }] },
        'dealings.0.commitments',
      ],
      [{ mode: 'other' }, 'mode'],
    ]
    for (const [change, field] of changes)
      expect(expectRefusal(await recover(split, { ...body, ...change }), 'validation_failed', field)[0].field).toBe(
        field,
      )
    const again = { ...body, participants: [three, two] }
    expect((await recover(split, again)).status).toBe(200)
  })

  test('without the service’s old share, where it is in the set; and in self-custody', async () => {
    const split = await newShared()
    expectData(await split.person.delete(`/mpc/shares/${split.walletId}`), 200)
    const { body } = await dealAnew(split, [1, 2])
    expectError(await recover(split, body), 409, 'share_missing')
    const own = await newSplitWallet(service, await service.newTenant())
    const dealt = await dealAnew(own, [1, 2])
    expectRefusal(await recover(own, dealt.body), 'custody_unsupported')
    const confirm = {
      walletId: own.walletId,
      mode: 'reshare',
      reshareId: 'rsh_x',
      signature: '00'.repeat(64),
      proofs: [],
    }
    expectRefusal(await recover(own, confirm), 'custody_unsupported')
  })
})

test('a confirmation is refused, and changes nothing, unless all new shares have shown themselves', async () => {
  const split = await newShared()
  const { body, dealt, next, data } = await start(split, [1, 2])
  const before = await stateOf(split)
  const { subject } = dealt.asked
  const transcript = data.transcriptHash
  const by = (scalar: Uint8Array, purpose: keys.ProofPurpose, of: keys.Subject, details: keys.ProofDetails) =>
    hex(keys.prove(scalar, purpose, of, details))
  const three = next.share(3).scalar
  const details = { index: 3, transcript }
  const proofs: [what: string, proofs: { index: number; proof: string }[], code: string][] = [
    ['none', [], 'shares_insufficient'],
    [
      'of the old share',
      [{ index: 3, proof: by(split.share(3).scalar, 'reshare-confirm', subject, details) }],
      'share_invalid',
    ],
    ['for another purpose', [{ index: 3, proof: by(three, 'dkg-confirm', subject, details) }], 'share_invalid'],
    [
      'of the new generation',
      [{ index: 3, proof: by(three, 'reshare-confirm', { ...subject, generation: 2 }, details) }],
      'share_invalid',
    ],
    [
      'of another challenge',
      [{ index: 3, proof: by(three, 'reshare-confirm', { ...subject, challengeId: null }, details) }],
      'share_invalid',
    ],
    [
      'of another transcript',
      [{ index: 3, proof: by(three, 'reshare-confirm', subject, { ...details, transcript: '00' }) }],
      'share_invalid',
    ],
    [
      'of share 2',
      [{ index: 2, proof: by(next.share(2).scalar, 'reshare-confirm', subject, { index: 2, transcript }) }],
      'share_invalid',
    ],
    ['twice', [body.proofs[0], body.proofs[0]], 'share_invalid'],
  ]
  for (const [what, wrong, code] of proofs)
    expect(expectRefusal(await recover(split, { ...body, proofs: wrong }), code, what)[0].field).toBe('proofs')
  const flipped = (body.signature.startsWith('0') ? '1' : '0') + body.signature.slice(1)
  const message = keys.fromHex(transcript)
  const signatures = [
    flipped,
    '00'.repeat(64),
    hex(keys.signWithScalar(keys.utf8(transcript), split.scalar)),
    hex(keys.signWithScalar(message, three)),
  ]
  for (const signature of signatures)
    expect(expectRefusal(await recover(split, { ...body, signature }), 'share_invalid')[0].field).toBe('signature')
  for (const reshareId of ['rsh_01jb2m7x9kq4t8v6w0r3s5y1zc', 'x', dealt.asked.challengeId]) {
    const answer = await recover(split, { ...body, reshareId })
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('reshareId')
  }
  // Another user's is nobody's, whoever asks.
  const other = await newSharedWallet(service, split.tenant)
  expectError(await recover(other, { ...body, walletId: other.walletId }), 404, 'not_found')
  expectError(await recover(other, body), 404, 'not_found')
  expect(await stateOf(split)).toBe(before)
  expect((await recover(split, body)).status).toBe(200)
})

test('neither tables nor logs hold a share of either generation, before and after it is confirmed', async () => {
  const split = await newShared()
  const { body, next, dealt } = await start(split, [1, 2])
  const subshares = dealt.dealt.flatMap((one) => one.subshares.map(({ scalar }) => scalar))
  const shares = [split.scalar, ...[1, 2, 3].map((index) => split.share(index).scalar)]
  const secrets = [...shares, ...subshares, next.share(2).scalar, next.share(3).scalar].flatMap(spellingsOf)
  for (const step of [async () => {}, async () => void expectData(await recover(split, body), 200)]) {
    await step()
    const held = (await dump(service)) + service.logs()
    expect(secrets.filter((text) => held.includes(text))).toEqual([])
  }
  const { share } = await release(next)
  const held = (await dump(service)) + service.logs()
  expect(spellingsOf(share.scalar).filter((text) => held.includes(text))).toEqual([])
})
