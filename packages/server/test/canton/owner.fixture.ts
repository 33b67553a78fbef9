// A client that signs for its wallet on Canton, of which the service knows no more than of any other.
import { expect } from 'vitest'
import { type OwnKey, signOnboarding, type WalletKey } from '../../../keys/src/canton/index.ts'
import { createSharedWallet, type HeldShare } from '../../../keys/src/index.ts'
import { createClient, type HalfkeyClient } from '../../../sdk/src/index.ts'
import { type Person, signInAs } from '../../src/identity/sessions/sessions.fixture.ts'
import { onboardWallets } from '../../src/wallets/onboarding/onboarding.ts'
import { newWallet, newWalletKey } from '../../src/wallets/wallets/wallets.fixture.ts'
import type { Tenant } from '../harness/harness.ts'
import { type CantonService, coins, ISSUER } from './canton.fixture.ts'
import { COIN } from './daml.ts'
import { PARTICIPANT } from './participant.ts'

/** Where owners are. */
export interface Place {
  service: CantonService
  tenant: Tenant
}

/** Somebody whose wallet on Canton is theirs to sign for. */
export interface Owner extends Place {
  mine: HalfkeyClient
  delegateOf(token: string): HalfkeyClient
  walletId: string
  party: string
  key: WalletKey
  person: Person
}

function clientsOf({ service }: Place, { key: apiKey, accessToken }: Person) {
  const common = { baseUrl: service.url, apiKey, pin: service.running.pin }
  return {
    mine: createClient({ ...common, accessToken }),
    delegateOf: (delegateToken: string) => createClient({ ...common, delegateToken }),
  }
}

export interface SharedOwner extends Owner {
  key: HeldShare
  recovery: HeldShare
}

/** Somebody with a shared wallet, whose party waits for a signature. */
export async function newShared(place: Place): Promise<SharedOwner> {
  const { service, tenant } = place
  const person = await signInAs(service, tenant)
  const clients = clientsOf(place, person)
  const { wallet, device, recovery } = await createSharedWallet(clients.mine, { ledger: 'canton' })
  await onboardWallets(service.deps)
  return { ...place, ...clients, walletId: wallet.id, party: wallet.partyId, key: device, recovery, person }
}

/** The same with a key of their own. */
export async function newOwn(place: Place): Promise<Owner> {
  const { service, tenant } = place
  const person = await signInAs(service, tenant)
  const { publicKey, sign } = newWalletKey()
  const body = { custody: 'self_custody', publicKey, ledger: 'canton' }
  const { challengeId, message } = (await person.post('/users/me/wallet/challenge', body)).body.data
  const wallet = await newWallet(person, { ...body, challengeId, proof: sign(message).toString('hex') })
  await onboardWallets(service.deps)
  const key: OwnKey = { walletId: wallet.id, publicKey, sign: (bytes) => sign(Buffer.from(bytes)) }
  return { ...place, ...clientsOf(place, person), walletId: wallet.id, party: wallet.partyId, key, person }
}

/** Signs for the party, and waits until it is there. */
export async function ready<T extends Owner>(owner: T): Promise<T> {
  await signOnboarding(owner.mine, { key: owner.key, participant: PARTICIPANT })
  await onboardWallets(owner.service.deps)
  expect((await owner.mine.wallets.onboarding(owner.walletId)).state).toBe('ready')
  return owner
}

/** Gives a wallet a coin. @returns its contract id */
export const receive = ({ service, party }: Owner, amount = '10') =>
  service.participant.mint(COIN, { issuer: ISSUER, owner: party, symbol: 'CC', amount })

/** A session of the owner's, and its delegate. */
export async function delegated({ mine, delegateOf }: Owner, more: object = {}) {
  const { id: sessionId, token } = await mine.delegatedSessions.create({ policy: coins('5', more) as never })
  return { sessionId, delegate: delegateOf(token) }
}

/** What a promise fails with. */
export const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('it was not refused'),
    (error: unknown) => error as Error & { code?: string },
  )

/** A client one of whose calls' answers is changed. */
export function lying<Group extends 'wallets' | 'delegatedSessions'>(
  client: HalfkeyClient,
  group: Group,
  method: keyof HalfkeyClient[Group],
  lie: (answer: never) => void,
): HalfkeyClient {
  const calls = client[group] as Record<PropertyKey, (...given: unknown[]) => Promise<object>>
  const told = async (...given: unknown[]) => {
    const answer = structuredClone(await calls[method]?.(...given))
    lie(answer as never)
    return answer
  }
  return { ...client, [group]: { ...calls, [method]: told } }
}
