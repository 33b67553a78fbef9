import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { statusCounts } from '../../identity/guests/guests.fixture.ts'
import { dump, eventsOf } from '../../identity/sessions/sessions.fixture.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import {
  deal,
  hexOf,
  newRecipient,
  newSharedWallet,
  newSplitWallet,
  passkeyProtected,
  passwordProtected,
  protectedShare,
  type SplitWallet,
  sealedShare,
  sealToService,
  spellingsOf,
  storeShare,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

const TWO_OF_THREE = { threshold: 2, total: 3 }

async function newSplit(signers = TWO_OF_THREE): Promise<SplitWallet> {
  return newSplitWallet(service, await service.newTenant(), { dealt: deal(signers) })
}

const pathOf = ({ walletId }: SplitWallet, query = '') => `/mpc/shares/${walletId}${query}`

/** What the tables hold of a wallet's shares. */
const rowsOf = (of: Pick<SplitWallet, 'walletId'>) =>
  service.sql<{ index: number; status: string; kept: boolean; last_used_at: Date | null }>(
    `select index, status, share_sealed is not null or client_ciphertext is not null as kept, last_used_at
     from key_shares where wallet_id = $1 order by generation, index, id`,
    [of.walletId],
  )

const told = (tenant: Tenant, what: 'stored' | 'retrieved' | 'deleted') =>
  eventsOf(service, tenant, `key_share.${what}`)

/** Reads the service's share as its user does, and opens it. */
async function readSealed(of: SplitWallet, index: number, generation = 1): Promise<Uint8Array> {
  const recipient = await newRecipient()
  const query = `?recipient_public_key=${recipient.publicKey}&generation=${generation}`
  const answer = await of.person.get(pathOf(of, query))
  expect(answer.status, answer.text).toBe(200)
  const share = answer.body.data.shares.find((each: { index: number }) => each.index === index)
  const bound = { index, holder: share.holder, recipientKey: recipient.publicKey }
  return recipient.open('read-share', keys.shareContext(of.subject({ generation }), bound), share.sealed)
}

describe('a share', () => {
  test('that the service can open is checked, kept, and comes back sealed to its user alone', async () => {
    const of = await newSplit()
    const { tenant, person, walletId } = of
    const stored = await storeShare(person, await sealedShare(of, 1))
    expect(stored).toEqual({
      id: expect.stringMatching(/^shr_[0-9a-hjkmnp-tv-z]{26}$/),
      walletId,
      holder: 'server',
      index: 1,
      threshold: 2,
      total: 3,
      generation: 1,
      scheme: 'FROST-ED25519-SHA512-v1',
      curve: 'ed25519',
      commitments: hexOf(of.sharing.commitments),
      verifyingShare: hexOf([keys.publicKeyOf(of.share(1).scalar)])[0],
      protection: 'service',
      status: 'active',
      stored: true,
      lastUsedAt: null,
      createdAt: expect.any(String),
      updatedAt: stored.createdAt,
    })
    expect(await readSealed(of, 1)).toEqual(of.share(1).scalar)
    const { id: userId } = (await tenant.get(`/users/${person.userId}`)).body.data
    const data = { walletId, userId, holder: 'server', index: 1, generation: 1 }
    expect(await told(tenant, 'stored')).toEqual([data])
    expect(await told(tenant, 'retrieved')).toEqual([data])
    expect((await tenant.get(`/wallets/${walletId}`)).body.data).toMatchObject({
      custody: 'self_custody',
      mpcEnabled: false,
      ...TWO_OF_THREE,
      generation: 1,
    })
  })

  test('that the client encrypted comes back as it was, and opens by its passkeys', async () => {
    const of = await newSplit()
    const box = passkeyProtected(of.share(3).scalar, ['AAAA', 'BBBB'])
    const stored = await storeShare(of.person, protectedShare(of, 3, { clientCiphertext: box.clientCiphertext }))
    expect(stored).toMatchObject({ index: 3, holder: 'recovery', protection: 'client', stored: true, status: 'active' })
    expect(stored).not.toHaveProperty('clientCiphertext')
    const answer = await of.person.get(pathOf(of))
    expect(answer.headers.get('cache-control')).toBe('no-store')
    const { shares, ...rest } = answer.body.data
    expect(rest).toEqual({ walletId: of.walletId, generation: 1, ...TWO_OF_THREE })
    expect(shares).toEqual([
      {
        ...stored,
        lastUsedAt: expect.any(String),
        updatedAt: expect.any(String),
        clientCiphertext: box.clientCiphertext,
        sealed: null,
      },
    ])
    for (const wrap of shares[0].clientCiphertext.wraps)
      expect(new Uint8Array(box.open(shares[0].clientCiphertext, wrap))).toEqual(of.share(3).scalar)
    expect(await told(of.tenant, 'retrieved')).toEqual([
      { walletId: of.walletId, userId: of.person.userId, holder: 'recovery', index: 3, generation: 1 },
    ])
  })

  test('that only its holder has gets a ciphertext: its record stays, with the share kept', async () => {
    const tenant = await service.newTenant()
    const of = await newSharedWallet(service, tenant)
    const before = (await of.person.get(pathOf(of))).body.data.shares[1]
    expect(before).toMatchObject({ index: 2, stored: false })
    const box = passkeyProtected(of.share(2).scalar)
    const body = protectedShare(of, 2, { clientCiphertext: box.clientCiphertext })
    const stored = await storeShare(of.person, body)
    const { clientCiphertext: _, sealed: __, ...metadata } = before
    expect(stored).toEqual({ ...metadata, stored: true, updatedAt: stored.updatedAt })
    expectError(await of.person.post('/mpc/shares', body), 409, 'already_exists')
    const [, after] = (await of.person.get(pathOf(of))).body.data.shares
    expect(new Uint8Array(box.open(after.clientCiphertext, after.clientCiphertext.wraps[0]))).toEqual(
      of.share(2).scalar,
    )
    expect(await rowsOf(of)).toHaveLength(3)
  })

  test('is stored once, of twenty at once under one Idempotency-Key and of twenty without', async () => {
    const of = await newSplit()
    const body = await sealedShare(of, 1)
    const headers = { 'idempotency-key': 'store' }
    const same = await Promise.all(Array.from({ length: 20 }, () => of.person.post('/mpc/shares', body, { headers })))
    const made = same.filter(({ status }) => status === 201)
    expect(made.length).toBeGreaterThan(0)
    expect(new Set(made.map(({ text }) => text)).size).toBe(1)
    for (const answer of same) expect([201, 409]).toContain(answer.status)
    const others = await Promise.all(
      Array.from({ length: 20 }, () => of.person.post('/mpc/shares', protectedShare(of, 2))),
    )
    expect(statusCounts(others)).toEqual({ 201: 1, '409 already_exists': 19 })
    expect((await rowsOf(of)).map(({ index }) => index)).toEqual([1, 2])
    expect(await told(of.tenant, 'stored')).toHaveLength(2)
  })

  test('of another wallet, another user’s or another key is refused, sealed or encrypted', async () => {
    const of = await newSplit()
    const other = await newSplitWallet(service, of.tenant)
    for (const body of [await sealedShare(other, 1), protectedShare(other, 1)]) {
      const [detail] = expectRefusal(
        await of.person.post('/mpc/shares', { ...body, walletId: of.walletId }),
        'validation_failed',
      )
      expect(detail.field).toBe('commitments')
    }
    const { commitments } = await sealedShare(of, 1)
    for (const scalar of [
      other.share(1).scalar,
      of.share(2).scalar,
      of.scalar,
      new Uint8Array(32),
      new Uint8Array(31),
    ]) {
      const context = (recipientKey: string) =>
        keys.shareContext(of.subject(), { index: 1, holder: 'server', recipientKey })
      const sealed = await sealToService(of.person, 'store-share', context, scalar)
      const [detail] = expectRefusal(
        await of.person.post('/mpc/shares', { ...(await sealedShare(of, 1)), commitments, sealed }),
        'share_invalid',
      )
      expect(detail).toMatchObject({ field: 'sealed', indices: [1] })
    }
    expect(await rowsOf(of)).toEqual([])
  })

  test('with one bit changed in whichever part does not open', async () => {
    const of = await newSplit()
    const body = await sealedShare(of, 1)
    const { enc, ct } = body.sealed
    const flipped = (text: string, at: number) => {
      const bytes = Buffer.from(text, 'base64url')
      bytes[at] = (bytes[at] as number) ^ 1
      return bytes.toString('base64url')
    }
    for (const at of [0, 15, 31, 32, 47])
      expectRefusal(
        await of.person.post('/mpc/shares', { ...body, sealed: { ...body.sealed, ct: flipped(ct, at) } }),
        'seal_invalid',
      )
    for (const sealed of [
      { ...body.sealed, enc: flipped(enc, 0) },
      { ...body.sealed, enc: Buffer.alloc(32).toString('base64url') },
      { ...body.sealed, ct: ct.slice(0, -4) },
      { ...body.sealed, ct: 'A' },
    ])
      expectRefusal(await of.person.post('/mpc/shares', { ...body, sealed }), 'seal_invalid')
    for (const changed of [{ index: 2 }, { holder: 'device' }, { generation: 2 }])
      expectRefusal(await of.person.post('/mpc/shares', { ...body, ...changed }), 'seal_invalid')
    expect(await rowsOf(of)).toEqual([])
    await storeShare(of.person, body)
  })

  test('changed in the database does not open, nor in another row’s place', async () => {
    const of = await newSplit({ threshold: 3, total: 3 })
    await storeShare(of.person, await sealedShare(of, 1))
    await storeShare(of.person, await sealedShare(of, 2))
    await service.sql(
      `update key_shares s set share_sealed = o.share_sealed from key_shares o
       where s.wallet_id = $1 and o.wallet_id = $1 and s.index = 1 and o.index = 2`,
      [of.walletId],
    )
    const { publicKey } = await newRecipient()
    expectError(await of.person.get(pathOf(of, `?recipient_public_key=${publicKey}`)), 500, 'record_tampered')
    expect(await told(of.tenant, 'retrieved')).toEqual([])
  })
})

describe('what goes with a share', () => {
  test('is in bounds, or the field that is not is named', async () => {
    const of = await newSplit()
    const sealed = await sealedShare(of, 1)
    const [first, second] = sealed.commitments as [string, string]
    const wrong: [string, object][] = [
      ...[0, 4, 16, -1, 1.5, '1', null].map((index): [string, object] => ['index', { index }]),
      ...[0, 1, 16, 2 ** 53, '2'].map((threshold): [string, object] => ['threshold', { threshold }]),
      ['threshold', { threshold: 4, commitments: [first, second, second, second] }],
      ...[1, 16].map((total): [string, object] => ['total', { total }]),
      ...[0, -1, 1_000_001, 1.5, '1'].map((generation): [string, object] => ['generation', { generation }]),
      ...['bank', 'Server', null].map((holder): [string, object] => ['holder', { holder }]),
      ['scheme', { scheme: 'FROST-SECP256K1-SHA256-v1' }],
      ['curve', { curve: 'secp256k1' }],
      ['commitments', { commitments: [] }],
      ['commitments', { commitments: Array.from({ length: 16 }, () => first) }],
      ['commitments', { commitments: [first] }],
      ['commitments', { commitments: [first, second, second] }],
      ['commitments', { commitments: [second, first] }],
      ['commitments', { commitments: [first, `01${'00'.repeat(31)}`] }],
      ['commitments', { commitments: [first, '00'.repeat(32)] }],
      ['commitments', { commitments: [first, `ee${'ff'.repeat(30)}7f`] }],
      ['commitments.1', { commitments: [first, second.slice(2)] }],
      ['commitments.1', { commitments: [first, second.toUpperCase()] }],
      ['sealed.ct', { sealed: { ...sealed.sealed, ct: 'A'.repeat(684) } }],
      ['sealed.ct', { sealed: { ...sealed.sealed, ct: '' } }],
      ['sealed.enc', { sealed: { ...sealed.sealed, enc: 'A'.repeat(44) } }],
      ['sealed.kid', { sealed: { ...sealed.sealed, kid: 'none' } }],
      ['sealed.more', { sealed: { ...sealed.sealed, more: 1 } }],
      ['sealed', { sealed: undefined }],
      ['clientCiphertext', { clientCiphertext: passkeyProtected(of.share(1).scalar).clientCiphertext }],
      ['proof', { proof: '00'.repeat(64) }],
      ['id', { id: 'shr_01jb2m7x9kq4t8v6w0r3s5y1zr' }],
      ['tenantId', { tenantId: of.tenant.tenantId }],
      ['status', { status: 'active' }],
      ['verifyingShare', { verifyingShare: first }],
    ]
    for (const [field, change] of wrong) {
      const answer = await of.person.post('/mpc/shares', { ...sealed, ...change })
      const details = expectRefusal(answer, 'validation_failed', JSON.stringify(change))
      expect(
        details.map((detail) => detail.field),
        JSON.stringify(change),
      ).toContain(field)
    }
    expect(await rowsOf(of)).toEqual([])
  })

  test('of a ciphertext is in bounds too: strong enough for a password, and no larger than it must be', async () => {
    const of = await newSplit()
    const { scalar } = of.share(1)
    const prf = passkeyProtected(scalar, ['AAAA', 'BBBB']).clientCiphertext
    const [wrap] = prf.wraps as [object]
    const password = passwordProtected(scalar)
    const at = (change: object) => ({ ...prf, wraps: [{ ...wrap, ...change }] })
    const byPassword = (change: object) => passwordProtected(scalar, change)
    const wrong: [string, object][] = [
      ['v', { ...prf, v: 2 }],
      ['alg', { ...prf, alg: 'none' }],
      ['alg', { ...prf, alg: 'scrypt-aes256gcm' }],
      ['iv', { ...prf, iv: 'A'.repeat(15) }],
      ['ct', { ...prf, ct: 'A'.repeat(684) }],
      ['ct', { ...prf, ct: 'a b' }],
      ['wraps', { ...prf, wraps: [] }],
      ['wraps', { ...prf, wraps: Array.from({ length: 21 }, (_, n) => ({ ...wrap, credentialId: `AAA${n}` })) }],
      ['wraps.0.credentialId', at({ credentialId: 'A'.repeat(1025) })],
      ['wraps.0.credentialId', at({ credentialId: '' })],
      ['wraps.0.credentialId', at({ credentialId: undefined })],
      ['wraps.0.rpId', at({ rpId: 'a'.repeat(254) })],
      ['wraps.0.rpId', at({ rpId: undefined })],
      ['wraps.0.prfSalt', at({ prfSalt: 'A'.repeat(42) })],
      ['wraps.0.prfSalt', at({ prfSalt: undefined })],
      ['wraps.0.wrappedDek', at({ wrappedDek: 'A'.repeat(343) })],
      ['wraps.0.wrappedDek', at({ wrappedDek: undefined })],
      ['wraps.0.iterations', at({ iterations: 3 })],
      ['wraps.0.prf', at({ prf: 'x' })],
      ['wraps.1.credentialId', { ...prf, wraps: [wrap, wrap] }],
      // Another spelling of the same bytes.
      [
        'wraps.1.credentialId',
        {
          ...prf,
          wraps: [
            { ...wrap, credentialId: 'AA' },
            { ...wrap, credentialId: 'AB' },
          ],
        },
      ],
      ['wraps.0.memoryKiB', byPassword({ memoryKiB: 65_535 })],
      ['wraps.0.memoryKiB', byPassword({ memoryKiB: 2 ** 32 })],
      ['wraps.0.iterations', byPassword({ iterations: 2 })],
      ['wraps.0.iterations', byPassword({ iterations: 101 })],
      ['wraps.0.parallelism', byPassword({ parallelism: 0 })],
      ['wraps.0.parallelism', byPassword({ parallelism: 17 })],
      ['wraps.0.salt', byPassword({ salt: undefined })],
      ['wraps.0.salt', byPassword({ salt: 'A'.repeat(87) })],
      ['wraps.0.credentialId', byPassword({ credentialId: 'AAAA' })],
      ['wraps.0.memoryKiB', { ...password, wraps: [wrap] }],
      ['more', { ...prf, more: 1 }],
    ]
    for (const [field, clientCiphertext] of wrong) {
      const answer = await of.person.post('/mpc/shares', protectedShare(of, 1, { clientCiphertext }))
      const fields = expectRefusal(answer, 'validation_failed', JSON.stringify(clientCiphertext)).map(
        (detail) => detail.field,
      )
      expect(fields, JSON.stringify(clientCiphertext)).toContain(`clientCiphertext.${field}`)
    }
    const { proof: _, ...unproven } = protectedShare(of, 1)
    expect(expectRefusal(await of.person.post('/mpc/shares', unproven), 'validation_failed')[0].field).toBe('proof')
    expect(await rowsOf(of)).toEqual([])
    await storeShare(of.person, protectedShare(of, 1, { clientCiphertext: password }))
  })

  test('is proven: a proof counts for one share, one place and one ciphertext', async () => {
    const of = await newSplit()
    const body = protectedShare(of, 1)
    const other = await newSplitWallet(service, of.tenant)
    const dealt = { sharing: of.sharing, shares: [of.share(2), of.share(1), of.share(3)] }
    const proofs = [
      protectedShare(of, 1).proof,
      protectedShare(of, 2, { clientCiphertext: body.clientCiphertext }).proof,
      protectedShare(of, 1, { clientCiphertext: body.clientCiphertext, holder: 'device' }).proof,
      protectedShare(of, 1, { clientCiphertext: body.clientCiphertext, generation: 2 }).proof,
      protectedShare(of, 1, { clientCiphertext: body.clientCiphertext, dealt }).proof,
      protectedShare({ ...other, shares: of.shares, share: of.share }, 1, {
        clientCiphertext: body.clientCiphertext,
      }).proof,
      Buffer.from(
        keys.prove(of.share(1).scalar, 'release-share', of.subject(), {
          index: 1,
          holder: 'server',
          ciphertext: keys.fingerprintOf(body.clientCiphertext),
        }),
      ).toString('hex'),
      '00'.repeat(64),
      `01${'00'.repeat(63)}`,
    ]
    for (const proof of proofs) {
      const [detail] = expectRefusal(await of.person.post('/mpc/shares', { ...body, proof }), 'share_invalid', proof)
      expect(detail).toMatchObject({ field: 'proof', indices: [1] })
    }
    for (const change of [{ index: 2 }, { holder: 'device' }, { generation: 2 }])
      expectRefusal(await of.person.post('/mpc/shares', { ...body, ...change }), 'share_invalid')
    expect(await rowsOf(of)).toEqual([])
    await storeShare(of.person, body)
  })
})

describe('a generation', () => {
  test('has one polynomial, whatever of it is deleted, and no two have the same', async () => {
    const of = await newSplit()
    const again = { scalar: of.scalar, publicKey: of.publicKey, ...keys.dealShares(TWO_OF_THREE, of.scalar) }
    const wider = {
      scalar: of.scalar,
      publicKey: of.publicKey,
      ...keys.dealShares({ threshold: 2, total: 4 }, of.scalar),
    }
    await storeShare(of.person, await sealedShare(of, 1))
    const refused = async (body: object, field: string) => {
      const [detail] = expectRefusal(await of.person.post('/mpc/shares', body), 'share_invalid')
      expect(detail).toMatchObject({ field, code: 'share_invalid', indices: [] })
    }
    for (const dealt of [again, wider]) await refused(protectedShare(of, 2, { dealt }), 'commitments')
    await refused(protectedShare(of, 2, { generation: 2 }), 'commitments')
    expect((await of.person.delete(pathOf(of))).status).toBe(200)
    await refused(protectedShare(of, 2, { dealt: again }), 'commitments')
    await refused(await sealedShare(of, 2, { generation: 2 }), 'commitments')
    await storeShare(of.person, protectedShare(of, 2, { dealt: again, generation: 2 }))
    await storeShare(of.person, await sealedShare(of, 1, { dealt: again, generation: 2 }))
    expect((await of.tenant.get(`/wallets/${of.walletId}`)).body.data.generation).toBe(2)
    const { generation, shares } = (await of.person.get(pathOf(of))).body.data
    expect([generation, shares.length]).toEqual([2, 2])
    expectError(await of.person.get(pathOf(of, '?generation=1')), 404, 'not_found')
    // Without saying which, it is the newest one's.
    const { generation: _, ...body } = protectedShare(of, 3, { dealt: again, generation: 2 })
    expect((await storeShare(of.person, body)).generation).toBe(2)
  })

  test('is one of at most twenty, however many are stored at once', async () => {
    const of = await newSplit()
    const bodies = Array.from({ length: 24 }, (_, n) => {
      const dealt = { ...of, ...keys.dealShares(TWO_OF_THREE, of.scalar) }
      return protectedShare(of, 2, { generation: n + 1, dealt })
    })
    const answers = await Promise.all(bodies.map((body) => of.person.post('/mpc/shares', body)))
    expect(statusCounts(answers)).toEqual({ 201: 20, '409 share_limit': 4 })
  })

  test('of a shared wallet is the wallet’s, with two of three and a place for each holder', async () => {
    const of = await newSharedWallet(service, await service.newTenant(), { proofs: [2] })
    const wider = { ...of, ...keys.dealShares({ threshold: 2, total: 4 }, of.scalar) }
    const three = { ...of, ...keys.dealShares({ threshold: 3, total: 3 }, of.scalar) }
    const again = { ...of, ...keys.dealShares(TWO_OF_THREE, of.scalar) }
    const wrong: [object, string, string][] = [
      [protectedShare(of, 3, { dealt: wider }), 'validation_failed', 'total'],
      [protectedShare(of, 3, { dealt: three }), 'validation_failed', 'threshold'],
      [protectedShare(of, 3, { holder: 'device' }), 'validation_failed', 'holder'],
      [protectedShare(of, 2, { holder: 'server' }), 'validation_failed', 'holder'],
      [protectedShare(of, 1), 'validation_failed', 'clientCiphertext'],
      [protectedShare(of, 3, { dealt: again }), 'share_invalid', 'commitments'],
      [protectedShare(of, 3, { dealt: again, generation: 2 }), 'share_invalid', 'generation'],
      [protectedShare(of, 3, { generation: 2 }), 'share_invalid', 'generation'],
    ]
    for (const [body, code, field] of wrong)
      expect(expectRefusal(await of.person.post('/mpc/shares', body), code)[0].field).toBe(field)
    expectError(await of.person.post('/mpc/shares', await sealedShare(of, 1)), 409, 'already_exists')
    expect(await rowsOf(of)).toHaveLength(2)
    await storeShare(of.person, protectedShare(of, 3))
  })
})

describe('the service’s share', () => {
  test('of a shared wallet never leaves by a reading', async () => {
    const of = await newSharedWallet(service, await service.newTenant())
    const { publicKey } = await newRecipient()
    const answer = await of.person.get(pathOf(of, `?recipient_public_key=${publicKey}`))
    expectError(answer, 409, 'custody_violation')
    expect(answer.body.details[0]).toMatchObject({ field: 'recipient_public_key' })
    expect(answer.body.details[0].message).toContain('POST /mpc/recover')
    expect(await told(of.tenant, 'retrieved')).toEqual([])
    expect((await rowsOf(of)).every((row) => row.last_used_at === null)).toBe(true)
  })

  test('is sealed to a key in hex or base64url, and to nothing that is none', async () => {
    const of = await newSplit()
    await storeShare(of.person, await sealedShare(of, 1))
    const recipient = await newRecipient()
    const base64url = Buffer.from(recipient.publicKey, 'hex').toString('base64url')
    const answer = await of.person.get(pathOf(of, `?recipient_public_key=${base64url}`))
    const bound = { index: 1, holder: 'server', recipientKey: recipient.publicKey } as const
    const context = keys.shareContext(of.subject(), bound)
    const { sealed } = answer.body.data.shares[0]
    expect(await recipient.open('read-share', context, sealed)).toEqual(of.share(1).scalar)
    await expect(recipient.open('recover', context, sealed)).rejects.toThrow()
    for (const key of ['', 'x', '00'.repeat(32), 'ab'.repeat(31), 'AB'.repeat(32)]) {
      const refused = await of.person.get(pathOf(of, `?recipient_public_key=${key}`))
      expect(expectRefusal(refused, 'validation_failed', key)[0].field).toBe('recipient_public_key')
    }
    for (const generation of ['0', '-1', '1.5', '', 'x', '12345678'])
      expect(
        expectRefusal(await of.person.get(pathOf(of, `?generation=${generation}`)), 'validation_failed')[0].field,
      ).toBe('generation')
  })

  test('does not come without a key to seal it to, and reading metadata is no use of it', async () => {
    const of = await newSplit()
    await storeShare(of.person, await sealedShare(of, 1))
    const { shares } = (await of.person.get(pathOf(of))).body.data
    expect(shares[0]).toMatchObject({ stored: true, sealed: null, clientCiphertext: null, lastUsedAt: null })
    expect(await told(of.tenant, 'retrieved')).toEqual([])
  })
})

describe('deleted shares', () => {
  test('are gone: nothing is kept, nothing answered, and a second deletion finds none', async () => {
    const of = await newSplit()
    await storeShare(of.person, await sealedShare(of, 1))
    await storeShare(of.person, protectedShare(of, 2))
    const answer = await of.person.delete(pathOf(of))
    expect(answer.body.data).toEqual({ walletId: of.walletId, deleted: 2, remainingKnown: 0, threshold: 2 })
    for (const query of ['', '?generation=1', '?generation=2'])
      expectError(await of.person.get(pathOf(of, query)), 404, 'not_found')
    for (const query of ['', '?generation=1']) expectError(await of.person.delete(pathOf(of, query)), 404, 'not_found')
    expectError(await of.person.call('PATCH', pathOf(of), { body: { index: 2, wraps: [] } }), 404, 'not_found')
    expect(await rowsOf(of)).toMatchObject([
      { index: 1, status: 'deleted', kept: false },
      { index: 2, status: 'deleted', kept: false },
    ])
    expect(await told(of.tenant, 'deleted')).toEqual([{ walletId: of.walletId, userId: of.person.userId, deleted: 2 }])
    await storeShare(of.person, await sealedShare(of, 1))
    expect(await readSealed(of, 1)).toEqual(of.share(1).scalar)
  })

  test('of a shared wallet leave with the user what was never kept here', async () => {
    const of = await newSharedWallet(service, await service.newTenant())
    await storeShare(of.person, protectedShare(of, 3))
    const answer = await of.person.delete(pathOf(of))
    expect(answer.body.data).toEqual({ walletId: of.walletId, deleted: 3, remainingKnown: 1, threshold: 2 })
    expectError(await of.person.get(pathOf(of)), 404, 'not_found')
    await storeShare(of.person, await sealedShare(of, 1))
  })

  test('are those of the generation that is asked for, by default the newest', async () => {
    const of = await newSplit()
    const dealt = { ...of, ...keys.dealShares(TWO_OF_THREE, of.scalar) }
    await storeShare(of.person, await sealedShare(of, 1))
    await storeShare(of.person, await sealedShare(of, 1, { dealt, generation: 2 }))
    expect((await of.person.delete(pathOf(of))).body.data.deleted).toBe(1)
    expect((await of.person.get(pathOf(of))).body.data.generation).toBe(1)
    expect(await readSealed(of, 1)).toEqual(of.share(1).scalar)
    expect((await of.person.delete(pathOf(of, '?generation=1'))).status).toBe(200)
    expectError(await of.person.get(pathOf(of)), 404, 'not_found')
  })

  test('are deleted once by twenty at once, and told of once', async () => {
    const of = await newSplit()
    await storeShare(of.person, await sealedShare(of, 1))
    const answers = await Promise.all(Array.from({ length: 20 }, () => of.person.delete(pathOf(of))))
    expect(statusCounts(answers)).toEqual({ 200: 1, '404 not_found': 19 })
    expect(await told(of.tenant, 'deleted')).toHaveLength(1)
  })

  test('stay where the event can’t be written', async () => {
    const of = await newSplit()
    await storeShare(of.person, await sealedShare(of, 1))
    await service.sql(`create function refuse() returns trigger language plpgsql as $$ begin
      if new.tenant_id = '${of.tenant.tenantId}' then raise 'refused'; end if; return new; end $$`)
    await service.sql('create trigger refuse before insert on events for each row execute function refuse()')
    const { publicKey } = await newRecipient()
    expectError(await of.person.delete(pathOf(of)), 500, 'internal_error')
    expectError(await of.person.get(pathOf(of, `?recipient_public_key=${publicKey}`)), 500, 'internal_error')
    expectError(await of.person.post('/mpc/shares', protectedShare(of, 2)), 500, 'internal_error')
    await service.sql('drop trigger refuse on events')
    expect(await rowsOf(of)).toMatchObject([{ index: 1, kept: true, last_used_at: null }])
  })
})

test('no share, and no key, stands in the database or the log, in whichever spelling', async () => {
  const tenant = await service.newTenant()
  const split = await newSplitWallet(service, tenant, { dealt: deal({ threshold: 3, total: 5 }) })
  const shared = await newSharedWallet(service, tenant)
  const headers = { 'idempotency-key': 'kept' }
  await split.person.post('/mpc/shares', await sealedShare(split, 1), { headers })
  await storeShare(split.person, await sealedShare(split, 2))
  await storeShare(split.person, protectedShare(split, 3))
  await split.person.post('/mpc/shares', await sealedShare(split, 4))
  await storeShare(shared.person, protectedShare(shared, 2))
  await shared.person.post('/mpc/shares', await sealedShare(shared, 3))
  expect(await readSealed(split, 1)).toEqual(split.share(1).scalar)
  const all = `${await dump(service)}\n${service.logs()}`
  // What is looked for would be found: the same spellings of what is public are.
  expect(all).toContain(Buffer.from(split.publicKey).toString('hex'))
  for (const { scalar, shares } of [split, shared])
    for (const secret of [scalar, ...shares.map((share) => share.scalar)])
      for (const text of spellingsOf(secret)) expect(all.includes(text)).toBe(false)
})
