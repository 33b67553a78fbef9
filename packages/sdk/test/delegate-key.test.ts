import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newHolder } from '../../server/src/delegation/delegated.fixture.ts'
import { publishableKey } from '../../server/src/identity/sessions/sessions.fixture.ts'
import { type Service, startService, type Tenant } from '../../server/test/harness/harness.ts'
import type { Fetch } from '../src/attempt.ts'
import { createClient } from '../src/client.ts'
import { createDelegateKey, type DelegateKey, delegateKeyOf } from '../src/trust/delegate-key.ts'

let service: Service
let tenant: Tenant
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
  tenant = await service.newTenant()
})
afterAll(() => service.stop())

const policy = { allow: [{ templateId: 'Note:Note' }], query: { templateIds: ['Note:Note'] } }

/** A session that is bound to a key, and its delegate's client. `proofs` are those of the requests so far. */
async function bound(delegateKey: DelegateKey) {
  const ada = await newHolder(tenant)
  const owner = createClient({ baseUrl: service.url, apiKey: tenant.key, userId: ada.userId })
  const { id, token, boundKeyThumbprint } = await owner.delegatedSessions.create({
    policy,
    boundKey: delegateKey.publicKey,
  })
  const proofs: string[] = []
  let failures = 0
  const fetching: Fetch = (url, init) => {
    proofs.push(new Headers(init.headers).get('dpop') ?? '')
    if (failures > 0) {
      failures -= 1
      return fetch(url, init).then(() => Promise.reject(new TypeError('the response was lost')))
    }
    return fetch(url, init)
  }
  const options = { baseUrl: service.url, apiKey: await publishableKey(tenant), delegateToken: token }
  const agent = createClient({ ...options, delegateKey, fetch: fetching }).delegatedSessions
  const note = { create: { templateId: 'Note:Note', arguments: { author: ada.party, text: 'x' } } }
  return { id, boundKeyThumbprint, options, agent, note, proofs, lose: (n: number) => (failures = n) }
}

describe.each(['ES256', 'Ed25519'] as const)('a delegate with a key of %s', (algorithm) => {
  test('reads, queries and executes, with a new proof for each attempt', async () => {
    const key = await createDelegateKey(algorithm)
    const { id, agent, note, proofs, lose } = await bound(key)
    expect((await agent.me()).id).toBe(id)
    lose(1)
    const done = await agent.execute(id, { commands: [note] })
    expect(done.status).toBe('completed')
    expect((await agent.query(id, { limit: 1 })).contracts).toHaveLength(1)
    expect((await agent.transactions({ pageSize: 1 })).total).toBe(1)
    expect(new Set(proofs).size).toBe(5)
  })

  test('has a private key that cannot be exported, and goes on with the stored key pair', async () => {
    const { keyPair, publicKey } = await createDelegateKey(algorithm)
    await expect(crypto.subtle.exportKey('jwk', keyPair.privateKey)).rejects.toThrow()
    expect(publicKey).not.toHaveProperty('d')
    const again = await delegateKeyOf(structuredClone(keyPair))
    const { agent, boundKeyThumbprint } = await bound(again)
    expect(again.publicKey).toEqual(publicKey)
    expect((await agent.me()).boundKeyThumbprint).toBe(boundKeyThumbprint)
  })
})

test('whoever has the token without the key is refused, and so is another key', async () => {
  const { id, options } = await bound(await createDelegateKey())
  const thief = createClient({ ...options, maxRetries: 0 }).delegatedSessions
  await expect(thief.query(id)).rejects.toMatchObject({ status: 401, code: 'dpop_proof_required' })
  const other = createClient({ ...options, delegateKey: await createDelegateKey() }).delegatedSessions
  await expect(other.query(id)).rejects.toMatchObject({ status: 401, code: 'dpop_proof_invalid' })
})

test('a key pair of another kind is refused', async () => {
  const rsa = { name: 'RSA-PSS', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }
  const pair = await crypto.subtle.generateKey(rsa, false, ['sign', 'verify'])
  await expect(delegateKeyOf(pair)).rejects.toThrow('P-256 or Ed25519')
})
