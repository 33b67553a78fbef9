import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { eventsOf, type Person, signInAs } from '../../identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../../keys/key-shares/key-shares.fixture.ts'
import { type Ledger, LedgerError } from '../../platform/ports/ledger.ts'
import { isSignedBy } from '../../platform/ports/signature.ts'
import * as keys from '../../platform/security/threshold/threshold.ts'
import { newWallet, newWalletKey, type WalletKey } from '../wallets/wallets.fixture.ts'
import { onboardWallets } from './onboarding.ts'
import { newRemoteLedger, payloadOf, type RemoteLedger } from './remote-ledger.fixture.ts'

const HOUR_MS = 60 * 60_000

let service: Service
let remote: RemoteLedger
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
beforeEach(async () => {
  const embedded = service.deps.ledgers.get('embedded') as Ledger
  remote = newRemoteLedger(embedded)
  remote.now = service.deps.now
  service.deps.ledgers = new Map([
    ['embedded', embedded],
    ['remote', remote],
  ])
  await service.sql('delete from wallets')
})
afterAll(() => service.stop())

interface Owner {
  tenant: Tenant
  person: Person
  key: WalletKey
  wallet: { id: string; partyId: string }
  path: string
}

/** Somebody with a wallet of their own key, whose ledger was asked. */
async function newOwner(): Promise<Owner> {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant)
  const key = newWalletKey()
  const body = { custody: 'self_custody', publicKey: key.publicKey, ledger: 'remote' }
  const { challengeId, message } = (await person.post('/users/me/wallet/challenge', body)).body.data
  const wallet = await newWallet(person, { ...body, challengeId, proof: key.sign(message).toString('hex') })
  const path = `/wallets/${wallet.id}/onboarding`
  expect((await person.get(path)).body.data).toMatchObject({ state: 'pending', toSign: [], prepared: null })
  await onboardWallets(service.deps)
  return { tenant, person, key, wallet, path }
}

const stateOf = async ({ person, path }: Pick<Owner, 'person' | 'path'>) => (await person.get(path)).body.data.state
const signaturesOf = ({ key, wallet }: Owner) => ({ signatures: [key.sign(payloadOf(wallet.partyId)).toString('hex')] })

function accepted(answer: Answer): Answer['body']['data'] {
  expect(answer.status, answer.text).toBe(200)
  return answer.body.data
}

describe('a wallet whose key is the user’s, on a ledger beyond a network', () => {
  test('waits for the user’s signature over what the ledger prepared, tells of it, and is ready once it was given', async () => {
    const owner = await newOwner()
    const { tenant, person, wallet, path } = owner
    const waiting = accepted(await person.get(path))
    expect(waiting).toMatchObject({
      walletId: wallet.id,
      partyId: wallet.partyId,
      ledger: 'remote',
      state: 'signature_required',
      toSign: [
        { payload: payloadOf(wallet.partyId).toString('hex'), alg: 'ed25519', by: wallet.partyId.split('::')[1] },
      ],
      coSignatures: null,
    })
    expect(Buffer.from(waiting.prepared, 'base64').toString()).toBe(`topology of ${wallet.partyId}`)
    expect(await eventsOf(service, tenant, 'wallet.signature_required')).toEqual([
      { walletId: wallet.id, userId: person.userId, expiresAt: waiting.expiresAt },
    ])
    expect(accepted(await person.post(path, signaturesOf(owner)))).toMatchObject({ state: 'pending', toSign: [] })
    expect(remote.parties.size).toBe(0)
    await onboardWallets(service.deps)
    expect(remote.parties).toEqual(new Set([wallet.partyId]))
    expect(await stateOf(owner)).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.ready')).toEqual([{ walletId: wallet.id, userId: person.userId }])
    // A repeat of the call is answered and does nothing.
    expect(accepted(await person.post(path, signaturesOf(owner)))).toMatchObject({ state: 'ready' })
    expect([remote.asked, remote.signed]).toEqual([1, []])
    expect(await service.sql('select from wallet_onboardings')).toEqual([])
  })

  test('takes no signature by another key, over other bytes, for another party, cut, or too many', async () => {
    const [owner, other] = [await newOwner(), await newOwner()]
    const { person, path, key, wallet } = owner
    const right = signaturesOf(owner).signatures[0] as string
    const forged = `${right[0] === '0' ? '1' : '0'}${right.slice(1)}`
    for (const signature of [
      forged,
      ...signaturesOf(other).signatures,
      other.key.sign(payloadOf(wallet.partyId)).toString('hex'),
      key.sign(payloadOf(other.wallet.partyId)).toString('hex'),
      key.sign(`topology of ${wallet.partyId}`).toString('hex'),
    ]) {
      const answer = await person.post(path, { signatures: [signature] })
      expectError(answer, 400, 'signature_invalid')
      expect(answer.body.details[0].field).toBe('signatures.0')
    }
    expectError(await person.post(path, { signatures: [right, right] }), 400, 'validation_failed')
    expectError(await person.post(path, { signatures: [right.slice(2)] }), 400, 'validation_failed')
    expectError(await person.post(path, { signatures: right }), 400, 'validation_failed')
    expectError(await person.post(path, {}), 400, 'validation_failed')
    await onboardWallets(service.deps)
    expect(remote.parties.size).toBe(0)
    expect(await stateOf(owner)).toBe('signature_required')
  })

  test('is nobody else’s to see or to sign for: another user, another tenant, a server that the app does not let', async () => {
    const [owner, other] = [await newOwner(), await newOwner()]
    const { tenant, path, person } = owner
    const neighbour = await signInAs(service, tenant)
    for (const stranger of [other.person, neighbour]) {
      expectError(await stranger.get(path), 404, 'not_found')
      expectError(await stranger.post(path, signaturesOf(owner)), 404, 'not_found')
    }
    const headers = { 'x-user-id': person.userId }
    expectError(await tenant.post(path, signaturesOf(owner), { headers }), 403, 'user_session_required')
    await tenant.patch(`/apps/${tenant.appId}`, { mpc: { allowServer: true } })
    accepted(await tenant.post(path, signaturesOf(owner), { headers }))
    await onboardWallets(service.deps)
    expect(await stateOf(owner)).toBe('ready')
  })

  test('is not signed for while it is frozen, or its user is suspended', async () => {
    const owner = await newOwner()
    const { tenant, person, path, wallet } = owner
    await tenant.post(`/wallets/${wallet.id}/freeze`)
    expectError(await person.post(path, signaturesOf(owner)), 409, 'wallet_frozen')
    await tenant.post(`/wallets/${wallet.id}/unfreeze`)
    await tenant.patch(`/users/${person.userId}`, { status: 'suspended' })
    expect((await person.post(path, signaturesOf(owner))).status).toBeGreaterThanOrEqual(400)
    expect(await service.sql('select from wallet_onboardings where signatures is not null')).toEqual([])
  })

  test('is prepared again when nobody has signed in time, and what was signed before is worth nothing then', async () => {
    const owner = await newOwner()
    const { tenant, person, path } = owner
    service.advance(HOUR_MS + 1)
    const again = { ...owner, person: await signInAs(service, tenant, { userId: person.userId }) }
    expectError(await again.person.post(path, signaturesOf(owner)), 409, 'nothing_to_sign')
    expect(await stateOf(again)).toBe('pending')
    await onboardWallets(service.deps)
    expect(remote.asked).toBe(2)
    expect(await stateOf(again)).toBe('signature_required')
    expect(await eventsOf(service, tenant, 'wallet.signature_required')).toHaveLength(2)
    accepted(await again.person.post(path, signaturesOf(owner)))
    await onboardWallets(service.deps)
    expect(await stateOf(again)).toBe('ready')
  })

  test('keeps the signatures while the ledger is down or the process dies, and the user is asked once', async () => {
    const owner = await newOwner()
    const { tenant, person, path } = owner
    accepted(await person.post(path, signaturesOf(owner)))
    remote.onMade = async () => {
      throw new Error('connect ECONNREFUSED')
    }
    await onboardWallets(service.deps)
    expect(await stateOf(owner)).toBe('pending')
    remote.onMade = null
    service.advance(10_000)
    const dies = async () => {
      throw new Error('killed')
    }
    await expect(onboardWallets({ ...service.deps, failpoint: dies })).rejects.toThrow('killed')
    service.advance(2 * 60_000)
    await onboardWallets(service.deps)
    expect((await tenant.get(`/users/${person.userId}/wallet`)).body.data.status).toBe('ready')
    expect(await eventsOf(service, tenant, 'wallet.signature_required')).toHaveLength(1)
    expect(await eventsOf(service, tenant, 'wallet.ready')).toHaveLength(1)
  })

  test('is asked for again where the ledger takes what was signed for too old', async () => {
    const owner = await newOwner()
    accepted(await owner.person.post(owner.path, signaturesOf(owner)))
    remote.onMade = async () => {
      throw new LedgerError('prepared_expired', 'The topology has moved on.')
    }
    await onboardWallets(service.deps)
    expect(await stateOf(owner)).toBe('signature_required')
  })

  test('fails where the ledger’s bytes make another party than the one that was asked for: nobody is asked to sign', async () => {
    const other = await newOwner()
    remote.distorts = other.wallet.partyId
    const owner = await newOwner()
    expect(await stateOf(owner)).toBe('failed')
    expect(await eventsOf(service, owner.tenant, 'wallet.signature_required')).toEqual([])
  })

  test('is refused where somebody with the database alone changes what is to be signed', async () => {
    const [owner, other] = [await newOwner(), await newOwner()]
    await service.sql(
      'update wallet_onboardings a set prepared = b.prepared from wallet_onboardings b where a.wallet_id = $1 and b.wallet_id = $2',
      [owner.wallet.id, other.wallet.id],
    )
    expectError(await owner.person.get(owner.path), 500, 'record_tampered')
    expectError(await owner.person.post(owner.path, signaturesOf(owner)), 500, 'record_tampered')
  })

  test('of twenty calls at once one is taken, and the ledger makes the party once', async () => {
    const owner = await newOwner()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => owner.person.post(owner.path, signaturesOf(owner))),
    )
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 409, 'nothing_to_sign')
    await Promise.all(Array.from({ length: 5 }, () => onboardWallets(service.deps)))
    expect(await stateOf(owner)).toBe('ready')
    expect(await eventsOf(service, owner.tenant, 'wallet.ready')).toHaveLength(1)
  })
})

describe('a wallet whose key is shared, on a ledger beyond a network', () => {
  async function newSharedOwner() {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    const onLedger: Person = {
      ...person,
      post: (path, body, options) =>
        person.post(path, path.endsWith('/challenge') ? { ...(body as object), ledger: 'remote' } : body, options),
    }
    const split: SplitWallet = { ...(await newSharedWallet(service, tenant, { person: onLedger })), person }
    await onboardWallets(service.deps)
    return { tenant, person, split, path: `/wallets/${split.walletId}/onboarding` }
  }

  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
  const wire = ({ index, hiding, binding }: keys.NonceCommitments) => ({
    index,
    hiding: hex(hiding),
    binding: hex(binding),
  })

  test('is signed for by user and service together, over the payload that the service reads out of its own bytes', async () => {
    const owner = await newSharedOwner()
    const { person, path, split } = owner
    const party = split.wallet.partyId as string
    expect(await stateOf(owner)).toBe('signature_required')
    const { nonces, commitments } = keys.commitNonces(split.share(2))
    const asked = accepted(await person.post(path, { commitments: [wire(commitments)] }))
    const [{ serverCommitments, serverSignatureShare }] = asked.coSignatures
    const theirs = {
      index: serverCommitments.index,
      hiding: Buffer.from(serverCommitments.hiding, 'hex'),
      binding: Buffer.from(serverCommitments.binding, 'hex'),
    }
    const signing = { sharing: split.sharing, commitments: [theirs, commitments], message: payloadOf(party) }
    const mine = keys.signShare(signing, split.share(2), nonces)
    const signature = keys.aggregate(signing, [{ index: 1, value: Buffer.from(serverSignatureShare, 'hex') }, mine])
    expect(isSignedBy(Buffer.from(split.publicKey), payloadOf(party), Buffer.from(signature))).toBe(true)
    accepted(await person.post(path, { signatures: [hex(signature)] }))
    await onboardWallets(service.deps)
    expect(remote.parties).toEqual(new Set([party]))
    expect(await stateOf(owner)).toBe('ready')
    expect(remote.signed).toEqual([])
  })

  test('gets no part of the service’s while it is frozen, once it is ready, for the service’s index, or without commitments', async () => {
    const owner = await newSharedOwner()
    const { person, path, split, tenant } = owner
    const { commitments } = keys.commitNonces(split.share(2))
    const body = { commitments: [wire(commitments)] }
    await tenant.post(`/wallets/${split.walletId}/freeze`)
    expectError(await person.post(path, body), 409, 'wallet_frozen')
    await tenant.post(`/wallets/${split.walletId}/unfreeze`)
    expectError(await person.post(path, { commitments: [] }), 400, 'validation_failed')
    expectError(
      await person.post(path, { commitments: [body.commitments[0], body.commitments[0]] }),
      400,
      'validation_failed',
    )
    expectError(
      await person.post(path, { commitments: [{ ...wire(commitments), index: 1 }] }),
      400,
      'validation_failed',
    )
    expectError(await person.post(path, { ...body, signatures: ['00'.repeat(64)] }), 400, 'validation_failed')
    await service.sql("update wallets set status = 'ready' where id = $1", [split.walletId])
    await service.recode()
    expect(accepted(await person.post(path, body)).coSignatures).toBeNull()
  })

  test('of a key that is not shared, commitments are refused', async () => {
    const owner = await newOwner()
    const { commitments } = keys.commitNonces((await newSharedOwner()).split.share(2))
    const answer = await owner.person.post(owner.path, { commitments: [wire(commitments)] })
    expectError(answer, 400, 'validation_failed')
    expect(answer.body.details[0].field).toBe('commitments')
  })
})
