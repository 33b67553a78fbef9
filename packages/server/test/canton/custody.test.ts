import { afterAll, beforeAll, expect, test } from 'vitest'
import { multiHashOf, openPrepared, unwrapPrepared } from '../../../keys/src/canton/index.ts'
import { expectStatus, ownSession } from '../../src/delegation/delegated.fixture.ts'
import { type Person, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../../src/keys/key-shares/key-shares.fixture.ts'
import * as keys from '../../src/platform/security/threshold/threshold.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { newWallet, newWalletKey } from '../../src/wallets/wallets/wallets.fixture.ts'
import { expectError } from '../harness/envelope.ts'
import type { Tenant } from '../harness/harness.ts'
import { BOB, type CantonService, coins, coinsOf, ISSUER, pay, startCanton } from './canton.fixture.ts'
import { COIN } from './daml.ts'

let service: CantonService
let tenant: Tenant
beforeAll(async () => {
  service = await startCanton()
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

/** What a client computes from the bytes of an onboarding. */
function topologyPayload(prepared: string): string {
  const { transactions } = JSON.parse(Buffer.from(prepared, 'base64').toString())
  return hex(multiHashOf(transactions.map((each: string) => Buffer.from(each, 'base64'))))
}

/** What a client computes from the bytes of a transaction. */
function transactionHash(prepared: string): string {
  const { envelope } = JSON.parse(Buffer.from(prepared, 'base64').toString())
  const { scheme, prepared: bytes } = unwrapPrepared(Buffer.from(envelope, 'base64'))
  return hex(openPrepared(bytes, scheme).hash)
}

const mintFor = (owner: string) => service.participant.mint(COIN, { issuer: ISSUER, owner, symbol: 'CC', amount: '10' })

test('a user who keeps the key signs for the party and for each payment, which the service cannot make alone', async () => {
  const person = await signInAs(service, tenant)
  const key = newWalletKey()
  const body = { custody: 'self_custody', publicKey: key.publicKey, ledger: 'canton' }
  const { challengeId, message } = expectStatus(await person.post('/users/me/wallet/challenge', body), 201)
  const wallet = await newWallet(person, { ...body, challengeId, proof: hex(key.sign(message)) })
  await onboardWallets(service.deps)
  const path = `/wallets/${wallet.id}/onboarding`
  const waiting = expectStatus(await person.get(path), 200)
  expect(waiting).toMatchObject({ state: 'signature_required', partyId: wallet.partyId })
  expect(waiting.toSign[0].payload).toBe(topologyPayload(waiting.prepared))
  expect(service.participant.parties.has(wallet.partyId)).toBe(false)
  const signed = hex(key.sign(Buffer.from(waiting.toSign[0].payload, 'hex')))
  expectStatus(await person.post(path, { signatures: [signed] }), 200)
  await onboardWallets(service.deps)
  expect(expectStatus(await person.get(path), 200).state).toBe('ready')
  expect(service.participant.parties.get(wallet.partyId)).toEqual(Buffer.from(key.publicKey, 'hex'))

  const session = await ownSession(service, { person }, { policy: coins('5') })
  const coin = mintFor(wallet.partyId)
  const { status, signingRequest } = expectStatus(await session.execute({ commands: [pay(coin, '3')] }), 200)
  expect(status).toBe('signature_required')
  const digest = transactionHash(signingRequest.preparedTransaction)
  expect(signingRequest.digest).toBe(digest)
  const other = hex(newWalletKey().sign(Buffer.from(digest, 'hex')))
  const complete = (signature: string) => session.execute({ signingRequestId: signingRequest.id, signature })
  expectError(await complete(other), 400, 'signature_invalid')
  expect(coinsOf(service, wallet.partyId)).toEqual(['10'])
  expectStatus(await complete(hex(key.sign(Buffer.from(digest, 'hex')))), 200)
  expect(coinsOf(service, wallet.partyId)).toEqual(['7.0000000000'])
  expect(coinsOf(service, BOB)).toContain('3')
})

/** The user's side of a signature by a shared key. */
function signer(of: SplitWallet) {
  const { nonces, commitments } = keys.commitNonces(of.share(2))
  const { index, hiding, binding } = commitments
  return {
    wire: { index, hiding: hex(hiding), binding: hex(binding) },
    sign(message: string, theirs: { index: number; hiding: string; binding: string }, part: string): string {
      const server = {
        index: theirs.index,
        hiding: Buffer.from(theirs.hiding, 'hex'),
        binding: Buffer.from(theirs.binding, 'hex'),
      }
      const signing = {
        sharing: of.sharing,
        commitments: [server, commitments],
        message: Buffer.from(message, 'hex'),
      }
      const mine = keys.signShare(signing, of.share(2), nonces)
      return hex(keys.aggregate(signing, [{ index: 1, value: Buffer.from(part, 'hex') }, mine]))
    },
  }
}

test('a shared key signs for its party and for a payment, user and service together', async () => {
  const person = await signInAs(service, tenant)
  const onCanton: Person = {
    ...person,
    post: (path, body, options) =>
      person.post(path, path.endsWith('/challenge') ? { ...(body as object), ledger: 'canton' } : body, options),
  }
  const split: SplitWallet = { ...(await newSharedWallet(service, tenant, { person: onCanton })), person }
  const party = split.wallet.partyId as string
  await onboardWallets(service.deps)
  const path = `/wallets/${split.walletId}/onboarding`
  const forParty = signer(split)
  const waiting = expectStatus(await person.post(path, { commitments: [forParty.wire] }), 200)
  const payload = topologyPayload(waiting.prepared)
  const [{ serverCommitments, serverSignatureShare }] = waiting.coSignatures
  const signature = forParty.sign(payload, serverCommitments, serverSignatureShare)
  expectStatus(await person.post(path, { signatures: [signature] }), 200)
  await onboardWallets(service.deps)
  expect(service.participant.parties.get(party)).toEqual(Buffer.from(split.publicKey))

  const session = await ownSession(service, split, { policy: coins('5') })
  const forPayment = signer(split)
  const body = { commands: [pay(mintFor(party), '3')], commitments: forPayment.wire }
  const { signingRequest } = expectStatus(await session.execute(body), 200)
  const { preparedTransaction, serverCommitments: theirs, serverSignatureShare: part, id } = signingRequest
  const whole = forPayment.sign(transactionHash(preparedTransaction), theirs, part)
  expectStatus(await session.execute({ signingRequestId: id, signature: whole }), 200)
  expect(coinsOf(service, party)).toEqual(['7.0000000000'])
})
