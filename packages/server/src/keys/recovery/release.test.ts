import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService } from '../../../test/harness/harness.ts'
import { everything, ownSession } from '../../delegation/delegated.fixture.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { dump, eventsOf, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { runDkg } from '../key-generations/key-generations.fixture.ts'
import {
  deal,
  hexOf,
  newRecipient,
  newSharedWallet,
  newSplitWallet,
  type SplitWallet,
  sealedShare as sealedFor,
  storeShare,
} from '../key-shares/key-shares.fixture.ts'
import {
  challengeOf,
  expectData,
  expectSigns,
  type Held,
  hex,
  openReleased,
  type ReleaseOptions,
  release,
  releaseBody,
} from './recovery.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newShared(): Promise<SplitWallet> {
  return newSharedWallet(service, await service.newTenant())
}

const recover = ({ person }: Pick<Held, 'person'>, body: object) => person.post('/mpc/recover', body)

const walletOf = async ({ tenant, walletId }: SplitWallet) => expectData(await tenant.get(`/wallets/${walletId}`), 200)
const userOf = async ({ tenant, person }: SplitWallet) => expectData(await tenant.get(`/users/${person.userId}`), 200)

describe('a release', () => {
  test.for([2, 3])('for a proof of share %i gives the share by which the device has the key', async (index) => {
    const split = await newShared()
    const { data, share } = await release(split, { of: [index] })
    expect(data).toMatchObject({
      mode: 'release',
      walletId: split.walletId,
      publicKey: hex(split.publicKey),
      generation: 1,
      threshold: 2,
      total: 3,
      commitments: hexOf(split.sharing.commitments),
      index: 1,
      holder: 'server',
    })
    expect(share).toEqual(split.share(1))
    const scalar = keys.joinShares(split.sharing, [share, split.share(index)])
    expect(scalar).toEqual(split.scalar)
    expectSigns(split, scalar)
  })

  test('of a key that was generated with the service gives the key that nobody had before', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    const { wallet, sharing, publicKey, device } = await runDkg(person)
    const held: Held = {
      person,
      walletId: wallet.id,
      publicKey: keys.fromHex(publicKey),
      sharing,
      share: () => device,
    }
    const { share } = await release(held)
    expectSigns(held, keys.joinShares(sharing, [share, device]))
  })

  test('is noted on wallet, user and share, and told of; every repeat by a new challenge too', async () => {
    const split = await newShared()
    expect(await walletOf(split)).toMatchObject({ exportedAt: null, custody: 'shared' })
    expect((await userOf(split)).trustLevel).toBe('shared')
    await release(split)
    const { exportedAt } = await walletOf(split)
    expect(Math.abs(Date.parse(exportedAt) - service.deps.now().getTime())).toBeLessThan(10_000)
    expect((await userOf(split)).trustLevel).toBe('self_custody')
    const [row] = await service.sql<{ last_used_at: Date | null }>(
      'select last_used_at from key_shares where wallet_id = $1 and index = 1',
      [split.walletId],
    )
    expect(row?.last_used_at).toBeInstanceOf(Date)
    service.advance(1_000)
    await release(split)
    expect((await walletOf(split)).exportedAt).toBe(exportedAt)
    const told = { walletId: split.walletId, userId: split.person.userId, mode: 'release' }
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toEqual([told, told])
  })

  test("ends all the wallet's delegated sessions, each told of once, and nobody else's", async () => {
    const tenant = await service.newTenant()
    const split = await newSharedWallet(service, tenant)
    const other = await newSharedWallet(service, tenant)
    const sessions = []
    for (let n = 0; n < 3; n += 1) sessions.push(await ownSession(service, split, { policy: everything() }))
    const kept = await ownSession(service, other, { policy: everything() })
    const before = sessions[0]?.id
    expectData(await split.person.delete(`/delegated-sessions/${before}`), 200)
    await release(split)
    for (const { id, query } of sessions) {
      expect((await tenant.get(`/delegated-sessions/${id}`)).body.data.status).toBe('revoked')
      expectError(await query(), 410, 'delegated_session_revoked')
    }
    expect((await tenant.get(`/delegated-sessions/${kept.id}`)).body.data.status).toBe('active')
    const told = (await eventsOf(service, tenant, 'delegated_session.revoked')).map((data) => data.delegatedSessionId)
    expect(told.sort()).toEqual(sessions.map(({ id }) => id).sort())
    const again = await ownSession(service, split, { policy: everything() })
    expect((await tenant.get(`/delegated-sessions/${again.id}`)).body.data.status).toBe('active')
  })

  test('ends more sessions than one statement does', async () => {
    const split = await newShared()
    const session = await ownSession(service, split, { policy: everything() })
    await service.sql(
      `insert into delegated_sessions (tenant_id, id, app_id, user_id, wallet_id, token_hash, policy, server_execute,
         expires_at, created_at, updated_at)
       select tenant_id, 'dse_' || lpad(n::text, 26, '0'), app_id, user_id, wallet_id, decode(md5(n::text || id), 'hex'), policy,
         server_execute, expires_at, created_at, updated_at
       from delegated_sessions, generate_series(1, 450) n where id = $1`,
      [session.id],
    )
    await service.recode()
    await release(split)
    const left = await service.sql<{ status: string; n: number }>(
      'select status, count(*)::int as n from delegated_sessions where wallet_id = $1 group by status',
      [split.walletId],
    )
    expect(left).toEqual([{ status: 'revoked', n: 451 }])
    const told = await eventsOf(service, split.tenant, 'delegated_session.revoked')
    expect(new Set(told.map((data) => data.delegatedSessionId)).size).toBe(451)
    expect(told).toHaveLength(451)
  })

  test('beside twenty executions ends with none signed after it, and none of them fails otherwise', async () => {
    const split = await newShared()
    const { partyId: author } = await walletOf(split)
    const session = await ownSession(service, split, { policy: everything() })
    const command = { create: { templateId: 'Note:Note', arguments: { author, text: 'x' } } }
    const ask = () => {
      const { commitments } = keys.commitNonces(split.share(2))
      const wire = { index: 2, hiding: hex(commitments.hiding), binding: hex(commitments.binding) }
      return session.execute({ commands: [command], commitments: wire })
    }
    const { body } = await releaseBody(split)
    const logged = service.logs().length
    const [released, ...asked] = await Promise.all([recover(split, body), ...Array.from({ length: 20 }, ask)])
    expect(released?.status).toBe(200)
    const { 200: signed = 0, '410 delegated_session_revoked': refused = 0, ...others } = statusCounts(asked)
    expect(others).toEqual({})
    expect(signed + refused).toBe(20)
    // No two waited for each other.
    expect(service.logs().slice(logged)).not.toContain('is retried')
    expectError(await ask(), 410, 'delegated_session_revoked')
  })

  test('leaves nothing done when a part of it fails', async () => {
    const split = await newShared()
    const session = await ownSession(service, split, { policy: everything() })
    await service.sql(`create function refuse() returns trigger language plpgsql as $$ begin
      if new.tenant_id = '${split.tenant.tenantId}' and new.type = 'key.recovered' then raise 'refused'; end if; return new; end $$`)
    await service.sql('create trigger refuse before insert on events for each row execute function refuse()')
    const made = await releaseBody(split)
    expectError(await recover(split, made.body), 500, 'internal_error')
    await service.sql('drop trigger refuse on events')
    await service.sql('drop function refuse()')
    expect(await walletOf(split)).toMatchObject({ exportedAt: null })
    expect((await userOf(split)).trustLevel).toBe('shared')
    expect((await split.tenant.get(`/delegated-sessions/${session.id}`)).body.data.status).toBe('active')
    expect(await eventsOf(service, split.tenant, 'delegated_session.revoked')).toEqual([])
    expect((await recover(split, made.body)).status).toBe(200)
  })

  test('answers once for a challenge, and a repeat under its Idempotency-Key the same', async () => {
    const split = await newShared()
    const made = await releaseBody(split)
    const headers = { 'idempotency-key': 'r1' }
    const first = await split.person.post('/mpc/recover', made.body, { headers })
    expect(first.headers.get('cache-control')).toBe('no-store')
    const again = await split.person.post('/mpc/recover', made.body, { headers })
    expect([again.status, again.text]).toEqual([200, first.text])
    expect(await openReleased(again.body.data, made)).toEqual(split.share(1))
    expectError(await recover(split, made.body), 410, 'challenge_expired')
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toHaveLength(1)
  })

  test('of twenty at once by one challenge one is answered', async () => {
    const split = await newShared()
    const { body } = await releaseBody(split)
    const answers = await Promise.all(Array.from({ length: 20 }, () => recover(split, body)))
    expect(statusCounts(answers)).toEqual({ 200: 1, '410 challenge_expired': 19 })
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toHaveLength(1)
  })

  test('has the service share nothing that a proof is of', async () => {
    const split = await newShared()
    const { body } = await releaseBody(split, { of: [1] })
    const [detail] = expectRefusal(await recover(split, body), 'share_invalid')
    expect(detail).toMatchObject({ field: 'proofs', indices: [1] })
  })
})

describe('a proof', () => {
  type Spoil = (split: SplitWallet) => Promise<ReleaseOptions>
  const wrong: [what: string, spoil: Spoil, indices: number[]][] = [
    ['for another purpose', async () => ({ purpose: 'combine-shares' }), [2]],
    ['for storing', async () => ({ purpose: 'store-share' }), [2]],
    ['to another recipient', async () => ({ recipientKey: (await newRecipient()).publicKey }), [2]],
    [
      'by another challenge',
      async (split) => ({
        subject: (await challengeOf(split, 'release')).subject,
        asked: await challengeOf(split, 'release'),
      }),
      [2],
    ],
    ['of another generation', async (split) => withSubject(split, (subject) => ({ ...subject, generation: 2 })), [2]],
    ["of another user's", async (split) => withSubject(split, (subject) => ({ ...subject, userId: 'usr_x' })), [2]],
    ["of another wallet's", async (split) => withSubject(split, (subject) => ({ ...subject, walletId: 'wal_x' })), [2]],
    ["of another tenant's", async (split) => withSubject(split, (subject) => ({ ...subject, tenantId: 'ten_x' })), [2]],
  ]
  async function withSubject(split: SplitWallet, change: (subject: keys.Subject) => keys.Subject) {
    const asked = await challengeOf(split, 'release')
    return { asked, subject: change(asked.subject) }
  }

  test.for(wrong)('%s is refused, and uses the challenge up', async ([, spoil, indices]) => {
    const split = await newShared()
    const { body, asked } = await releaseBody(split, await spoil(split))
    const [detail] = expectRefusal(await recover(split, body), 'share_invalid')
    expect(detail).toMatchObject({ field: 'proofs', indices })
    const right = await releaseBody(split, { asked })
    expectError(await recover(split, right.body), 410, 'challenge_expired')
    expect(await walletOf(split)).toMatchObject({ exportedAt: null })
    expect(await eventsOf(service, split.tenant, 'key.recovered')).toEqual([])
  })

  test("at another share's index, of another key's share, with a flipped bit or twice is refused by index", async () => {
    const split = await newShared()
    const other = deal()
    const flipped = (proof: string) => (proof.startsWith('0') ? '1' : '0') + proof.slice(1)
    type Body = Awaited<ReturnType<typeof releaseBody>>['body']
    const spoils: [(body: Body) => Body['proofs'], number[]][] = [
      [({ proofs }) => proofs.map((one) => ({ ...one, index: 3 })), [3]],
      [({ proofs }) => proofs.map((one) => ({ ...one, index: 15 })), [15]],
      [({ proofs }) => proofs.map(({ index, proof }) => ({ index, proof: flipped(proof) })), [2]],
      [
        ({ proofs }) => proofs.map(({ index, proof }) => ({ index, proof: `${proof.slice(0, 64)}${'00'.repeat(32)}` })),
        [2],
      ],
      [({ proofs }) => proofs.map(({ index }) => ({ index, proof: '00'.repeat(64) })), [2]],
      [({ proofs }) => [...proofs, ...proofs], [2]],
    ]
    for (const [spoil, indices] of spoils) {
      const { body } = await releaseBody(split)
      const [detail] = expectRefusal(await recover(split, { ...body, proofs: spoil(body) }), 'share_invalid')
      expect(detail).toMatchObject({ field: 'proofs', indices })
    }
    const { body } = await releaseBody({ ...split, share: (index) => other.shares[index - 1] as keys.Share })
    expect(expectRefusal(await recover(split, body), 'share_invalid')[0].indices).toEqual([2])
    const none = await releaseBody(split, { of: [] })
    expect(expectRefusal(await recover(split, none.body), 'shares_insufficient')[0].field).toBe('proofs')
    expect(await walletOf(split)).toMatchObject({ exportedAt: null })
  })

  test('to a key that is none is refused, and leaves the challenge as it was', async () => {
    const split = await newShared()
    const asked = await challengeOf(split, 'release')
    const recipient = { ...(await newRecipient()), publicKey: '00'.repeat(32) }
    const { body } = await releaseBody(split, { asked, recipient })
    expect(expectRefusal(await recover(split, body), 'validation_failed')[0].field).toBe('recipientPublicKey')
    await release(split, { asked })
  })

  test('and its recipient may come in base64url', async () => {
    const split = await newShared()
    const made = await releaseBody(split)
    const recipientPublicKey = Buffer.from(made.recipient.publicKey, 'hex').toString('base64url')
    const data = expectData(await recover(split, { ...made.body, recipientPublicKey }), 200)
    expect(await openReleased(data, made)).toEqual(split.share(1))
  })
})

describe('of a key in self-custody', () => {
  async function newBackup(signers = { threshold: 3, total: 5 }) {
    const tenant = await service.newTenant()
    const split = await newSplitWallet(service, tenant, { dealt: deal(signers) })
    await storeShare(split.person, await sealedFor(split, 1, { holder: 'server' }))
    return split
  }

  test('takes proofs of as many other shares as are needed', async () => {
    const split = await newBackup()
    for (const of of [[2], [5], []]) {
      const { body } = await releaseBody(split, { of })
      expectRefusal(await recover(split, body), 'shares_insufficient')
    }
    for (const of of [
      [2, 3],
      [5, 4],
      [2, 3, 4, 5],
    ]) {
      const { share } = await release(split, { of })
      expectSigns(split, keys.joinShares(split.sharing, [share, split.share(4), split.share(5)]))
    }
    expect(await walletOf(split)).toMatchObject({ custody: 'self_custody', exportedAt: expect.any(String) })
  })

  test('gives of several shares the one that the caller lacks', async () => {
    const split = await newBackup()
    await storeShare(split.person, await sealedFor(split, 2, { holder: 'recovery' }))
    expect((await release(split, { of: [1, 3] })).data).toMatchObject({ index: 2, holder: 'recovery' })
    expect((await release(split, { of: [2, 3] })).data).toMatchObject({ index: 1, holder: 'server' })
    const { body } = await releaseBody(split, { of: [1, 2] })
    expect(expectRefusal(await recover(split, body), 'share_invalid')[0].indices).toEqual([1, 2])
  })

  test('is of the newest generation, or of the one that is asked for', async () => {
    const split = await newBackup()
    const dealt = keys.dealShares({ threshold: 2, total: 3 }, split.scalar)
    await storeShare(split.person, await sealedFor(split, 1, { generation: 2, dealt, holder: 'server' }))
    const second: Held = { ...split, sharing: dealt.sharing, share: (index) => dealt.shares[index - 1] as keys.Share }
    const { data, share } = await release(second)
    expect(data).toMatchObject({ generation: 2, threshold: 2, total: 3 })
    expectSigns(split, keys.joinShares(dealt.sharing, [share, second.share(2)]))
    const asked = await challengeOf(split, 'release')
    const subject = { ...asked.subject, generation: 1 }
    const made = await releaseBody(split, { asked, subject })
    const older = expectData(await recover(split, { ...made.body, generation: 1 }), 200)
    expect(await openReleased(older, made)).toEqual(split.share(1))
    const mixed = await releaseBody(split, { asked: await challengeOf(split, 'release') })
    expectRefusal(await recover(split, { ...mixed.body, generation: 1 }), 'share_invalid')
  })

  test('without a share here is a 409', async () => {
    const tenant = await service.newTenant()
    const split = await newSplitWallet(service, tenant)
    const { body, asked } = await releaseBody(split)
    expect(asked.subject.generation).toBe(1)
    expectError(await recover(split, body), 409, 'share_missing')
  })
})

test('neither tables nor logs hold a share, a key, or what was sealed open', async () => {
  const split = await newShared()
  const made = await releaseBody(split)
  await split.person.post('/mpc/recover', made.body, { headers: { 'idempotency-key': 'k' } })
  const spellings = [split.scalar, ...split.shares.map(({ scalar }) => scalar)].flatMap((scalar) => {
    const bytes = Buffer.from(scalar)
    return [bytes.toString('hex'), bytes.toString('base64url'), bytes.toString('base64').replace(/=+$/, '')]
  })
  const held = (await dump(service)) + service.logs()
  expect(spellings.filter((text) => held.includes(text))).toEqual([])
})
