import { createPublicKey, verify } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { ownSession } from '../../delegation/delegated.fixture.ts'
import { newGuest } from '../../identity/guests/guests.fixture.ts'
import { eventsOf, type Person, personOf, publishableKey, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { keyFingerprint } from '../../platform/ports/party.ts'
import * as threshold from '../../platform/security/threshold/threshold.ts'
import {
  type BegunDkg,
  beginDkg,
  confirmBody,
  expectData,
  newClient,
  round2Body,
  runDkg,
  type SharedWallet,
  signNote,
  twoRounds,
} from './key-generations.fixture.ts'
import { BeginKeyGeneration } from './schema.ts'

const MINUTE_MS = 60_000
const MESSAGE = Buffer.from('what the user wants signed')

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newPerson(): Promise<{ tenant: Tenant; person: Person }> {
  const tenant = await service.newTenant()
  return { tenant, person: await signInAs(service, tenant) }
}

/** What everybody else takes for the key's signature: Node's own Ed25519, which knows nothing of shares. */
function isSigned(publicKey: string, message: Buffer, signature: Uint8Array): boolean {
  const x = Buffer.from(publicKey, 'hex').toString('base64url')
  return verify(null, message, createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }), signature)
}

function signByTwo({ sharing, device, recovery }: SharedWallet): Uint8Array {
  const drawn = [device, recovery].map((share) => ({ share, ...threshold.commitNonces(share) }))
  const signing = { sharing, commitments: drawn.map(({ commitments }) => commitments), message: MESSAGE }
  return threshold.aggregate(
    signing,
    drawn.map(({ share, nonces }) => threshold.signShare(signing, share, nonces)),
  )
}

describe('a generated key', () => {
  test("is the user's shared wallet, whose user holds two of its three shares", async () => {
    const { tenant, person } = await newPerson()
    const key = await runDkg(person)
    const { wallet, publicKey, sharing } = key
    expect(wallet).toEqual({
      id: expect.stringMatching(/^wal_/),
      appId: tenant.appId,
      userId: person.userId,
      ledger: 'embedded',
      custody: 'shared',
      partyId: `${wallet.id}::${keyFingerprint(Buffer.from(publicKey, 'hex'))}`,
      address: null,
      publicKey,
      curve: 'ed25519',
      threshold: 2,
      total: 3,
      generation: 1,
      keyOrigin: 'dkg',
      exportedAt: null,
      mpcEnabled: true,
      status: 'ready',
      createdAt: expect.any(String),
      updatedAt: wallet.createdAt,
    })
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
    expect((await tenant.get(`/users/${person.userId}`)).body.data.trustLevel).toBe('shared')
    const { id: walletId, userId } = wallet
    expect(await eventsOf(service, tenant, 'wallet.created')).toEqual([
      { walletId, userId, custody: 'shared', ledger: 'embedded' },
    ])
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([{ walletId, userId }])
    const shares = await service.sql(
      `select index, holder, protection, status, generation, threshold, total, scheme, curve, share_sealed is not null as kept,
         client_ciphertext is null as none, encode(verifying_share, 'hex') as verifying
       from key_shares where wallet_id = $1 order by index`,
      [walletId],
    )
    const common = { status: 'active', generation: 1, threshold: 2, total: 3, scheme: threshold.SCHEME }
    const shareOf = (index: number, more: object) => ({
      ...common,
      index,
      curve: 'ed25519',
      none: true,
      verifying: threshold.toHex(threshold.verifyingShareOf(sharing, index)),
      ...more,
    })
    expect(shares).toEqual([
      shareOf(1, { holder: 'server', protection: 'service', kept: true }),
      shareOf(2, { holder: 'device', protection: 'client', kept: false }),
      shareOf(3, { holder: 'recovery', protection: 'client', kept: false }),
    ])
  })

  test('signs by shares 2 and 3 without the service, and joined they are the key', async () => {
    const { person } = await newPerson()
    const key = await runDkg(person)
    expect(isSigned(key.publicKey, MESSAGE, signByTwo(key))).toBe(true)
    const whole = threshold.joinShares(key.sharing, [key.device, key.recovery])
    expect(threshold.toHex(threshold.publicKeyOf(whole))).toBe(key.publicKey)
    expect(isSigned(key.publicKey, MESSAGE, threshold.signWithScalar(MESSAGE, whole))).toBe(true)
  })

  test.each(['device', 'recovery'] as const)('signs a transaction by the service with the %s share', async (holder) => {
    const { person } = await newPerson()
    const key = await runDkg(person)
    const session = await ownSession(service, { person }, { policy: { allow: [{ templateId: 'Note:Note' }] } })
    const { message, signature } = await signNote(session.execute, key.wallet.partyId, key, key[holder])
    expect(isSigned(key.publicKey, message, signature)).toBe(true)
  })

  test('is another one at every time, as are the messages of the service', async () => {
    const tenant = await service.newTenant()
    const client = await newClient()
    const people = await Promise.all(Array.from({ length: 4 }, () => signInAs(service, tenant)))
    const begun = await Promise.all(people.map((person) => beginDkg(person, {}, client)))
    const said = begun.map(({ round1 }) => round1[0]?.commitments.join())
    expect(new Set(said).size).toBe(4)
    expect(new Set(begun.map(({ transcriptHash }) => transcriptHash)).size).toBe(4)
  })

  test('can be a guest’s', async () => {
    const tenant = await service.newTenant()
    const guest = await newGuest(tenant)
    const person = personOf(
      service.url,
      await publishableKey(tenant),
      { userId: guest.userId, appId: tenant.appId },
      guest,
    )
    expect((await runDkg(person)).wallet).toMatchObject({ custody: 'shared', userId: guest.userId, status: 'ready' })
  })
})

describe('a key generation', () => {
  test('is told in full by its beginning and by reading it, in whichever state it is', async () => {
    const { tenant, person } = await newPerson()
    const client = await newClient()
    const begun = expectData(await person.post('/mpc/dkg', { ...client.body, ledger: 'embedded' }), 201)
    const { dkgId, createdAt } = begun
    const { tenantId, appId } = tenant
    expect(begun).toEqual({
      dkgId: expect.stringMatching(/^dkg_[0-9a-hjkmnp-tv-z]{26}$/),
      status: 'round1',
      ledger: 'embedded',
      subject: { tenantId, appId, userId: person.userId, walletId: null, generation: 1, challengeId: dkgId },
      round1: {
        index: 1,
        commitments: [expect.stringMatching(/^[0-9a-f]{64}$/), expect.stringMatching(/^[0-9a-f]{64}$/)],
        proofOfKnowledge: expect.stringMatching(/^[0-9a-f]{128}$/),
      },
      transcriptHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      publicKey: null,
      walletId: expect.stringMatching(/^wal_/),
      expiresAt: new Date(Date.parse(createdAt) + 10 * MINUTE_MS).toISOString(),
      createdAt,
      updatedAt: createdAt,
    })
    const read = async (id: string) => expectData(await person.get(`/mpc/dkg/${id}`), 200)
    expect(await read(dkgId)).toEqual(begun)
    const { dkg, key } = await twoRounds(person)
    expect(await read(dkg.dkgId)).toMatchObject({ status: 'round2', publicKey: key.publicKey, walletId: dkg.walletId })
    const { wallet } = expectData(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 201)
    expect(await read(dkg.dkgId)).toMatchObject({
      status: 'confirmed',
      publicKey: key.publicKey,
      walletId: dkg.walletId,
    })
    expect(wallet.id).toBe(dkg.walletId)
  })

  test('takes keys to seal to in base64url, which are the same in hex', async () => {
    const { person } = await newPerson()
    const client = await newClient()
    const participants = client.body.participants
      .map((one) => ({ ...one, encryptionKey: Buffer.from(one.encryptionKey, 'hex').toString('base64url') }))
      .reverse()
    await beginDkg(person, { participants, round1: [...client.body.round1].reverse() }, client)
  })

  test('begins with the example of the API’s description', async () => {
    const { person } = await newPerson()
    const { participants, round1 } = BeginKeyGeneration.shape
    const body = { participants: participants.meta()?.example, round1: round1.meta()?.example }
    expectData(await person.post('/mpc/dkg', body), 201)
  })

  test('answers the second round with nothing that may be stored on the way', async () => {
    const { person } = await newPerson()
    const dkg = await beginDkg(person)
    const answer = await person.post(`${dkg.path}/round2`, await round2Body(person, dkg))
    const base64Url = (bytes: number) => expect.stringMatching(new RegExp(`^[A-Za-z0-9_-]{${bytes}}$`))
    const sealed = (to: number) => ({ from: 1, to, enc: base64Url(43), ct: base64Url(64) })
    expect(expectData(answer, 200)).toEqual({
      sealedSubshares: [sealed(2), sealed(3)],
      transcriptHash: dkg.transcriptHash,
    })
    expect(answer.headers.get('cache-control')).toBe('no-store')
  })

  test('of one user the last five go on', async () => {
    const { tenant, person } = await newPerson()
    const begun: BegunDkg[] = []
    for (let n = 0; n < 7; n += 1) begun.push(await beginDkg(person))
    const statuses = await Promise.all(begun.map(async ({ path }) => (await person.get(path)).body.data.status))
    expect(statuses).toEqual(['canceled', 'canceled', ...Array(5).fill('round1')])
    const other = await beginDkg(await signInAs(service, tenant))
    expect(other.dkgId).toMatch(/^dkg_/)
    const [first] = begun as [BegunDkg]
    expectError(await person.post(`${first.path}/round2`, await round2Body(person, first)), 410, 'dkg_expired')
    await Promise.all(Array.from({ length: 40 }, () => beginDkg(person)))
    const [kept] = await service.sql<{ n: number; open: number }>(
      `select count(*)::int as n, count(state_sealed)::int as open from key_generations where user_id = $1`,
      [person.userId],
    )
    expect(kept?.open).toBe(5)
    expect(kept?.n).toBeLessThanOrEqual(26)
  })

  test('can be canceled before it is confirmed, again and again, and takes nothing more', async () => {
    const { person } = await newPerson()
    for (const dkg of [await beginDkg(person), (await twoRounds(person)).dkg]) {
      const gone = expectData(await person.delete(dkg.path), 200)
      expect(gone).toMatchObject({ dkgId: dkg.dkgId, status: 'canceled' })
      expect(expectData(await person.delete(dkg.path), 200)).toEqual(gone)
      expect(expectData(await person.get(dkg.path), 200)).toEqual(gone)
      expectError(await person.post(`${dkg.path}/round2`, await round2Body(person, dkg)), 410, 'dkg_expired')
    }
    const { dkg, key } = await twoRounds(person)
    expectData(await person.delete(dkg.path), 200)
    expectError(await person.post(`${dkg.path}/confirm`, confirmBody(dkg, key)), 410, 'dkg_expired')
    expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
  })

  test('cannot be canceled once it has made a wallet', async () => {
    const { person } = await newPerson()
    const { dkgId, wallet } = await runDkg(person)
    expectError(await person.delete(`/mpc/dkg/${dkgId}`), 409, 'dkg_conflict')
    expect((await person.get('/users/me/wallet')).body.data).toEqual(wallet)
  })

  test('is over after ten minutes, in both rounds, and can still be read and deleted', async () => {
    const { person } = await newPerson()
    const first = await beginDkg(person)
    const second = await twoRounds(person)
    const body = await round2Body(person, first)
    service.advance(10 * MINUTE_MS)
    expectError(await person.post(`${first.path}/round2`, body), 410, 'dkg_expired')
    const confirm = confirmBody(second.dkg, second.key)
    expectError(await person.post(`${second.dkg.path}/confirm`, confirm), 410, 'dkg_expired')
    for (const { path } of [first, second.dkg]) {
      expect(expectData(await person.get(path), 200).status).toBe('expired')
      for (let n = 0; n < 2; n += 1) expect(expectData(await person.delete(path), 200).status).toBe('expired')
    }
    expectError(await person.get('/users/me/wallet'), 404, 'wallet_not_found')
    expect((await runDkg(person)).wallet.status).toBe('ready')
  })
})
