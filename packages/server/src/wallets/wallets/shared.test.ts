import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { newGuest, statusCounts } from '../../identity/guests/guests.fixture.ts'
import {
  dump,
  eventsOf,
  type Person,
  personOf,
  publishableKey,
  signInAs,
} from '../../identity/sessions/sessions.fixture.ts'
import {
  type Dealt,
  deal,
  dealtWallet,
  hexOf,
  newSharedWallet,
  newSplitWallet,
  protectedShare,
  sealToService,
  spellingsOf,
  storeShare,
  subjectOf,
} from '../../keys/key-shares/key-shares.fixture.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { newWallet, newWalletKey, proven } from './wallets.fixture.ts'

const MINUTE_MS = 60_000

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

const create = (who: Pick<Person, 'post'>, body: object): Promise<Answer> => who.post('/users/me/wallet', body)

/** What of a person's wallet is written anywhere. */
async function traces(tenant: Tenant): Promise<unknown[]> {
  const count = (table: string) =>
    service.sql<{ n: number }>(`select count(*)::int as n from ${table} where tenant_id = $1`, [tenant.tenantId])
  return [
    (await count('wallets'))[0]?.n,
    (await count('key_shares'))[0]?.n,
    await eventsOf(service, tenant, 'wallet.created'),
  ]
}
const NOTHING = [0, 0, []]

/** The body whose sealed share is `scalar`, bound to what `change` makes of the right context. */
async function resealed(
  tenant: Tenant,
  person: Person,
  dealt: Dealt,
  scalar: Uint8Array,
  change: (context: keys.SealContext) => keys.SealContext = (context) => context,
  purpose: keys.SealPurpose = 'store-share',
) {
  const body = await dealtWallet(tenant, person, dealt)
  const subject = subjectOf(tenant, person, null, { challengeId: body.challengeId })
  const contextOf = (recipientKey: string) =>
    change(keys.shareContext(subject, { index: 1, holder: 'server', recipientKey }))
  return { ...body, sealed: await sealToService(person, purpose, contextOf, scalar) }
}

test('a shared key is one wallet’s, of all tenants, also for twenty that come at once', async () => {
  const dealt = deal()
  const [one, two] = [await service.newTenant(), await service.newTenant()]
  const people = await Promise.all(Array.from({ length: 20 }, (_, n) => signInAs(service, n % 2 === 0 ? one : two)))
  const bodies = await Promise.all(people.map((person, n) => dealtWallet(n % 2 === 0 ? one : two, person, dealt)))
  const answers = await Promise.all(people.map((person, n) => person.post('/users/me/wallet', bodies[n])))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  for (const answer of answers) if (answer.status !== 201) expectError(answer, 409, 'already_exists', 'publicKey')
  // Nor is it anybody's in self-custody, whose shares would be counted apart.
  await expect(newSplitWallet(service, two, { dealt })).rejects.toThrow('already_exists')
})

describe('a wallet whose key its client has dealt', () => {
  test('is ready with the proof of share 2: two of three sign, the party is the key’s own, the trust level follows', async () => {
    const { tenant, person } = await newPerson()
    const { wallet, walletId, publicKey } = await newSharedWallet(service, tenant, { person })
    const hex = Buffer.from(publicKey).toString('hex')
    expect(wallet).toEqual({
      id: expect.stringMatching(/^wal_/),
      appId: tenant.appId,
      userId: person.userId,
      ledger: 'embedded',
      custody: 'shared',
      partyId: `${walletId}::${keyFingerprint(Buffer.from(publicKey))}`,
      address: null,
      publicKey: hex,
      curve: 'ed25519',
      threshold: 2,
      total: 3,
      generation: 1,
      keyOrigin: 'client_dealt',
      exportedAt: null,
      mpcEnabled: true,
      status: 'ready',
      createdAt: expect.any(String),
      updatedAt: wallet.createdAt,
    })
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${person.userId}`)).body.data.trustLevel).toBe('shared')
    const data = { walletId, userId: person.userId }
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([
      { ...data, custody: 'shared', ledger: 'embedded' },
    ])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([data])
  })

  test('keeps share 1 and knows of 2 and 3 what was proven', async () => {
    const tenant = await service.newTenant()
    for (const proofs of [[2], [3], [2, 3], []]) {
      const { person, walletId, sharing } = await newSharedWallet(service, tenant, { proofs })
      const read = await person.get(`/mpc/shares/${walletId}`)
      expect(read.status, read.text).toBe(200)
      const { shares } = read.body.data
      expect(shares.map((share: { index: number }) => share.index)).toEqual([1, ...proofs])
      for (const share of shares)
        expect(share).toMatchObject({
          holder: keys.INDEX_HOLDER[share.index],
          stored: share.index === 1,
          protection: share.index === 1 ? 'service' : 'client',
          status: 'active',
          commitments: hexOf(sharing.commitments),
          verifyingShare: hexOf([keys.verifyingShareOf(sharing, share.index)])[0],
          clientCiphertext: null,
          sealed: null,
        })
    }
  })

  test('is pending without the proof of share 2, and ready once share 2 is stored with one', async () => {
    const tenant = await service.newTenant()
    for (const proofs of [[], [3]]) {
      const pending = await newSharedWallet(service, tenant, { proofs })
      const { person, walletId, wallet } = pending
      expect(wallet.status).toBe('pending')
      if (proofs.length === 0) {
        await storeShare(person, protectedShare(pending, 3))
        expect((await person.get('/users/me/wallet')).body.data.status).toBe('pending')
      }
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => person.post('/mpc/shares', protectedShare(pending, 2))),
      )
      expect(statusCounts(answers)).toEqual({ 201: 1, '409 already_exists': 19 })
      const ready = (await person.get('/users/me/wallet')).body.data
      expect(ready).toEqual({ ...wallet, status: 'ready', updatedAt: ready.updatedAt })
      const told = (await eventsOf(service, tenant, 'wallet.ready')).filter((data) => data.walletId === walletId)
      expect(told).toEqual([{ walletId, userId: person.userId }])
    }
  })

  test('signs with two shares: the key is the one that the commitments say', async () => {
    const tenant = await service.newTenant()
    const { sharing, shares, scalar, publicKey } = await newSharedWallet(service, tenant)
    expect(keys.joinShares(sharing, shares.slice(0, 2))).toEqual(scalar)
    expect(keys.publicKeyOf(scalar)).toEqual(publicKey)
  })

  test('leaves none of its shares, nor the key, in the database or the log', async () => {
    const tenant = await service.newTenant()
    const { scalar, shares } = await newSharedWallet(service, tenant)
    const all = `${await dump(service)}\n${service.logs()}`
    for (const secret of [scalar, ...shares.map((share) => share.scalar)])
      for (const text of spellingsOf(secret)) expect(all.includes(text)).toBe(false)
  })

  test('can be a guest’s', async () => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant)
    const who = { userId: guest.userId, appId: tenant.appId }
    const person = personOf(service.url, await publishableKey(tenant), who, guest)
    const { wallet } = await newSharedWallet(service, tenant, { person })
    expect(wallet).toMatchObject({ userId: guest.userId, custody: 'shared', status: 'ready' })
  })
})

describe('what is dealt wrongly', () => {
  test('needs all of its parts, and says which are missing', async () => {
    const { tenant, person } = await newPerson()
    const body = await dealtWallet(tenant, person, deal())
    for (const missing of ['publicKey', 'challengeId', 'proof', 'commitments', 'sealed']) {
      const rest = Object.fromEntries(Object.entries(body).filter(([name]) => name !== missing))
      const details = expectRefusal(await create(person, rest), 'validation_failed', missing)
      expect(details.map(({ field }) => field)).toEqual([missing])
    }
    expectRefusal(await create(person, { custody: 'shared' }), 'validation_failed')
    expect(await traces(tenant)).toEqual(NOTHING)
    expect((await create(person, body)).status).toBe(201)
  })

  test('and parts of it are refused for the other kinds', async () => {
    const { tenant, person } = await newPerson()
    const { commitments, sealed, proofs } = await dealtWallet(tenant, person, deal())
    for (const part of [{ commitments }, { sealed }, { proofs }])
      for (const own of [{}, await proven(person, newWalletKey())]) {
        const details = expectRefusal(await create(person, { ...own, ...part }), 'validation_failed')
        expect(details).toEqual([expect.objectContaining({ field: Object.keys(part)[0], code: 'not_allowed' })])
      }
    expect(await traces(tenant)).toEqual(NOTHING)
  })

  test('another share than 1, another key’s or bytes that are none are refused', async () => {
    const { tenant, person } = await newPerson()
    const dealt = deal()
    const wrong = [dealt.shares[1], dealt.shares[2], deal().shares[0]].map((share) => (share as keys.Share).scalar)
    const flipped = Uint8Array.from((dealt.shares[0] as keys.Share).scalar)
    flipped[0] = (flipped[0] as number) ^ 1
    const noScalars = [new Uint8Array(32), new Uint8Array(32).fill(255), new Uint8Array(31), new Uint8Array(64)]
    for (const scalar of [...wrong, flipped, dealt.scalar, ...noScalars]) {
      const [detail] = expectRefusal(
        await create(person, await resealed(tenant, person, dealt, scalar)),
        'share_invalid',
      )
      expect(detail).toMatchObject({ field: 'sealed', indices: [1] })
    }
    expect(await traces(tenant)).toEqual(NOTHING)
  })

  test('commitments that are not two points of prime order, the first of them the key, are refused', async () => {
    const { tenant, person } = await newPerson()
    const dealt = deal()
    const body = await dealtWallet(tenant, person, dealt)
    const [first, second] = body.commitments as [string, string]
    const [other] = hexOf(deal().sharing.commitments)
    const identity = `01${'00'.repeat(31)}`
    const smallOrder = `${'00'.repeat(31)}80`
    const notCanonical = `ee${'ff'.repeat(30)}7f`
    const wrong = [
      [first],
      [first, second, second],
      [other, second],
      [second, first],
      [first, identity],
      [first, smallOrder],
      [first, notCanonical],
      [first, `02${'00'.repeat(31)}`],
      [],
      [first, second.toUpperCase()],
      Array.from({ length: 16 }, () => first),
    ]
    for (const commitments of wrong) {
      const answer = await create(person, { ...body, commitments })
      const [detail] = expectRefusal(answer, 'validation_failed', `${commitments}`)
      expect(detail.field, answer.text).toMatch(/^commitments/)
    }
    // All in the form that is asked for, but of another polynomial.
    const [swapped] = expectRefusal(
      await create(person, { ...body, commitments: [first, other] }),
      'share_invalid',
    ) as [{ field: string }]
    expect(swapped.field).toBe('proofs')
    expect(await traces(tenant)).toEqual(NOTHING)
  })

  test('a share sealed for anything else does not open', async () => {
    const { tenant, person } = await newPerson()
    const dealt = deal()
    const { scalar } = dealt.shares[0] as keys.Share
    const other = await newPerson()
    const changes: ((context: keys.SealContext) => keys.SealContext)[] = [
      (context) => ({ ...context, index: 2 }),
      (context) => ({ ...context, holder: 'device' }),
      (context) => ({ ...context, generation: 2 }),
      (context) => ({ ...context, walletId: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }),
      (context) => ({ ...context, challengeId: null }),
      (context) => ({ ...context, tenantId: other.tenant.tenantId }),
      (context) => ({ ...context, userId: other.person.userId }),
      (context) => ({ ...context, recipientKey: 'ab'.repeat(32) }),
      (context) => ({ ...context, more: 1 }),
    ]
    for (const change of changes) {
      const answer = await create(person, await resealed(tenant, person, dealt, scalar, change))
      expect(expectRefusal(answer, 'seal_invalid', String(change))[0].field).toBe('sealed')
    }
    const purposes: keys.SealPurpose[] = ['recover', 'read-share', 'dkg-subshare']
    for (const purpose of purposes) {
      const answer = await create(person, await resealed(tenant, person, dealt, scalar, undefined, purpose))
      expectRefusal(answer, 'seal_invalid', purpose)
    }
    const { sealed, ...body } = await dealtWallet(tenant, person, dealt)
    const flip = (text: string) => `${text.startsWith('A') ? 'B' : 'A'}${text.slice(1)}`
    for (const changed of [
      { ...sealed, ct: flip(sealed.ct) },
      { ...sealed, enc: flip(sealed.enc) },
    ])
      expectRefusal(await create(person, { ...body, sealed: changed }), 'seal_invalid')
    const unknown = await create(person, { ...body, sealed: { ...sealed, kid: '0123456789abcdef' } })
    expect(expectRefusal(unknown, 'validation_failed')[0].field).toBe('sealed.kid')
    expect(await traces(tenant)).toEqual(NOTHING)
  })

  test('proofs of other shares, other challenges or other secrets are refused, and named', async () => {
    const { tenant, person } = await newPerson()
    const dealt = deal()
    const body = await dealtWallet(tenant, person, dealt)
    const [of2, of3] = body.proofs as [{ index: number; proof: string }, { index: number; proof: string }]
    const later = await dealtWallet(tenant, person, dealt)
    const wrong: [unknown[], number[]][] = [
      [[{ index: 2, proof: of3.proof }], [2]],
      [
        [
          { index: 2, proof: of3.proof },
          { index: 3, proof: of2.proof },
        ],
        [2, 3],
      ],
      [[of2, { index: 3, proof: of2.proof }], [3]],
      [later.proofs, [2, 3]],
      [(await dealtWallet(tenant, person, deal())).proofs, [2, 3]],
      [[{ index: 2, proof: '00'.repeat(64) }], [2]],
      [[{ index: 4, proof: of2.proof }], [4]],
    ]
    for (const [proofs, indices] of wrong) {
      const [detail] = expectRefusal(await create(person, { ...body, proofs }), 'share_invalid')
      expect(detail).toMatchObject({ field: 'proofs', indices })
    }
    const malformed = [[of2, of2], [{ index: 1, proof: of2.proof }], [{ index: 0, proof: of2.proof }], [of2, of3, of3]]
    for (const proofs of malformed)
      expect(expectRefusal(await create(person, { ...body, proofs }), 'validation_failed')[0].field).toMatch(/^proofs/)
    expect(await traces(tenant)).toEqual(NOTHING)
    expect((await create(person, body)).status).toBe(201)
  })
})

describe('the challenge of a dealt key', () => {
  test('is used up by a wrong signature, and over after five minutes', async () => {
    const { tenant, person } = await newPerson()
    const body = await dealtWallet(tenant, person, deal())
    expectRefusal(await create(person, { ...body, proof: '00'.repeat(64) }), 'signature_invalid')
    expectError(await create(person, body), 410, 'challenge_expired')
    const late = await dealtWallet(tenant, person, deal())
    service.advance(5 * MINUTE_MS)
    expectError(await create(person, late), 410, 'challenge_expired')
    expect(await traces(tenant)).toEqual(NOTHING)
  })

  test('counts once, for its user, its custody and its key', async () => {
    const { tenant, person } = await newPerson()
    const [mine, dealt] = [deal(), deal()]
    const body = await dealtWallet(tenant, person, mine)
    const other = await signInAs(service, tenant)
    expectRefusal(await create(other, body), 'share_invalid')
    expectRefusal(await create(other, { ...body, proofs: [] }), 'seal_invalid')
    const { challengeId: theirs } = await dealtWallet(tenant, other, mine)
    const rebound = (context: keys.SealContext) => ({ ...context, challengeId: theirs })
    const stolen = await resealed(tenant, person, mine, (mine.shares[0] as keys.Share).scalar, rebound)
    const answer = await create(person, { ...stolen, challengeId: theirs, proofs: [] })
    expectError(answer, 404, 'not_found')
    expect(answer.body.details[0].field).toBe('challengeId')
    const { publicKey, proof, challengeId } = body
    const whole = { custody: 'self_custody', publicKey, proof, challengeId }
    expectError(await create(person, whole), 404, 'not_found')
    const another = await dealtWallet(tenant, person, dealt)
    expect(expectRefusal(await create(person, { ...another, publicKey }), 'validation_failed')[0].field).toBe(
      'commitments',
    )
    expect((await create(person, body)).status).toBe(201)
    expectError(await create(person, body), 409, 'wallet_exists')
    expectError(await create(person, another), 409, 'wallet_exists')
  })

  test('of twenty creations at once, with one challenge or one each, one makes a wallet and its shares', async () => {
    for (const same of [true, false]) {
      const { tenant, person } = await newPerson()
      const dealt = deal()
      const one = await dealtWallet(tenant, person, dealt)
      const bodies = await Promise.all(
        Array.from({ length: 20 }, () => (same ? one : dealtWallet(tenant, person, deal()))),
      )
      const answers = await Promise.all(bodies.map((body) => create(person, body)))
      expect(statusCounts(answers)).toEqual({ 201: 1, '409 wallet_exists': 19 })
      const [wallets, shares, created] = await traces(tenant)
      expect([wallets, shares, (created as unknown[]).length]).toEqual([1, 3, 1])
      const { id, publicKey } = answers.find(({ status }) => status === 201)?.body.data ?? {}
      const read = (await person.get(`/mpc/shares/${id}`)).body.data
      for (const share of read.shares) expect(share.commitments[0]).toBe(publicKey)
    }
  })

  test('beside twenty embedded creations at once there is one wallet, and shares only if it is shared', async () => {
    const { tenant, person } = await newPerson()
    const body = await dealtWallet(tenant, person, deal())
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => create(person, n % 2 === 0 ? body : {})))
    expect(statusCounts(answers)).toEqual({ 201: 1, '409 wallet_exists': 19 })
    const custody = answers.find(({ status }) => status === 201)?.body.data.custody
    expect((await traces(tenant)).slice(0, 2)).toEqual([1, custody === 'shared' ? 3 : 0])
  })
})

test('a server deals nothing in a user’s name, unless the app lets servers touch users’ keys', async () => {
  const { tenant, person } = await newPerson()
  const headers = { 'x-user-id': person.userId }
  const acting = {
    ...person,
    get: (path: string) => tenant.get(path, { headers }),
    post: (path: string, body?: unknown) => tenant.post(path, body, { headers }),
  }
  const body = await dealtWallet(tenant, acting, deal())
  expectError(await create(acting, body), 403, 'user_session_required')
  expect(await traces(tenant)).toEqual(NOTHING)
  await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
  expect((await create(acting, body)).status).toBe(201)
})

test('nothing of a failed creation is left, though wallet and shares were written', async () => {
  const { tenant, person } = await newPerson()
  const body = await dealtWallet(tenant, person, deal())
  await service.sql(`create function refuse() returns trigger language plpgsql as $$ begin
    if new.tenant_id = '${tenant.tenantId}' and new.index = 3 then raise 'refused'; end if; return new; end $$`)
  await service.sql('create trigger refuse before insert on key_shares for each row execute function refuse()')
  expectError(await create(person, body), 500, 'internal_error')
  await service.sql('drop trigger refuse on key_shares')
  expect(await traces(tenant)).toEqual(NOTHING)
  expect((await create(person, body)).status).toBe(201)
  await newWallet(await signInAs(service, tenant))
})
