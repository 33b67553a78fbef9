import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  type CallOptions,
  type Service,
  startService,
  type Tenant,
} from '../../../test/harness/harness.ts'
import { newGuest, statusCounts } from '../../identity/guests/guests.fixture.ts'
import { enrol, MINUTE_MS, moveOn, stepUp } from '../../identity/mfa/mfa.fixture.ts'
import {
  eventsOf,
  newApp,
  type Person,
  personOf,
  publishableKey,
  signInAs,
} from '../../identity/sessions/sessions.fixture.ts'
import { newWallet } from '../../wallets/wallets/wallets.fixture.ts'
import {
  newRecipient,
  newSharedWallet,
  newSplitWallet,
  passkeyProtected,
  protectedShare,
  type SplitWallet,
  sealedShare,
  storeShare,
} from './key-shares.fixture.ts'

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

type Call = (method: string, path: string, options?: CallOptions) => Promise<Answer>

type Name = 'store' | 'read' | 'replace' | 'delete'

/** The calls on one wallet's shares, by whoever calls. */
const calls: Record<Name, (call: Call, of: Pick<SplitWallet, 'walletId'>, body: object) => Promise<Answer>> = {
  store: (call, { walletId }, body) => call('POST', '/mpc/shares', { body: { ...body, walletId } }),
  read: (call, { walletId }) => call('GET', `/mpc/shares/${walletId}`),
  replace: (call, { walletId }) =>
    call('PATCH', `/mpc/shares/${walletId}`, {
      body: { index: 2, wraps: [passkeyProtected(new Uint8Array(32)).wrap('AAAA')] },
    }),
  delete: (call, { walletId }) => call('DELETE', `/mpc/shares/${walletId}`),
}
/** What needs a fresh sign-in or second factor. */
const guarded = ['read', 'replace', 'delete'] as const

/** A wallet with shares 1 and 2 kept. */
async function kept(tenant: Tenant, person?: Person): Promise<SplitWallet> {
  const of = await newSplitWallet(service, tenant, person === undefined ? {} : { person })
  await storeShare(of.person, await sealedShare(of, 1))
  await storeShare(of.person, protectedShare(of, 2, { clientCiphertext: byOnePasskey(of) }))
  return of
}
const byOnePasskey = (of: SplitWallet) => passkeyProtected(of.share(2).scalar, ['AAAA']).clientCiphertext

const server =
  (tenant: Tenant, userId: string): Call =>
  (method, path, options = {}) =>
    tenant.call(method, path, { ...options, headers: { 'x-user-id': userId, ...options.headers } })

const stateOf = async ({ walletId }: Pick<SplitWallet, 'walletId'>) =>
  JSON.stringify([
    await service.sql('select * from key_shares where wallet_id = $1 order by id', [walletId]),
    await service.sql('select * from wallets where id = $1', [walletId]),
  ])

const setApp = async (tenant: Tenant, settings: object) =>
  expect((await tenant.patch(`/apps/${tenant.appId}`, settings)).status).toBe(200)

describe('a wallet', () => {
  test('of another user, another app or another tenant is the same 404 as one that is not there, without effect', async () => {
    const tenant = await service.newTenant()
    const appId = await newApp(tenant)
    const mine = await signInAs(service, tenant)
    const others = [
      await kept(tenant),
      await kept(tenant, await signInAs(service, tenant, { appId })),
      await kept(await service.newTenant()),
    ]
    const unknown = { walletId: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc' }
    const before = await Promise.all(others.map(stateOf))
    const body = await sealedShare(others[0] as SplitWallet, 3)
    for (const [name, ask] of Object.entries(calls)) {
      for (const call of [mine.call, server(tenant, mine.userId)]) {
        const reference = await ask(call, unknown, body)
        expectError(reference, 404, 'not_found', name)
        expect(reference.body.details.flatMap(({ field }: { field?: string }) => field ?? [])).toEqual(
          name === 'store' ? ['walletId'] : [],
        )
        for (const of of [...others, { walletId: 'x' }, { walletId: mine.userId }, { walletId: '%27' }]) {
          const answer = await ask(call, of, body)
          expect(`${answer.status} ${answer.text}`, `${name} ${of.walletId}`).toBe(`404 ${reference.text}`)
        }
      }
    }
    expect(await Promise.all(others.map(stateOf))).toEqual(before)
  })

  test('of a user whose app the publishable key is not of is no one’s', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    const key = await publishableKey(tenant, await newApp(tenant))
    const body = await sealedShare(of, 3)
    for (const [name, ask] of Object.entries(calls)) {
      const call: Call = (method, path, options) => of.person.call(method, path, { ...options, key })
      expectError(await ask(call, of, body), 404, 'not_found', name)
    }
  })

  test('of the service’s own custody has no shares', async () => {
    const tenant = await service.newTenant()
    const person = await signInAs(service, tenant)
    const { id: walletId } = await newWallet(person)
    const split = await newSplitWallet(service, tenant)
    for (const [name, ask] of Object.entries(calls)) {
      const answer = await ask(person.call, { walletId }, await sealedShare(split, 1))
      expectError(answer, 400, 'custody_unsupported', name)
      expect(answer.body.details[0].field).toBe('walletId')
    }
  })

  test('that is frozen keeps the service’s share in; what is known of it can still be read', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    const { publicKey } = await newRecipient()
    const path = `/mpc/shares/${of.walletId}`
    expect((await tenant.post(`/wallets/${of.walletId}/freeze`)).status).toBe(200)
    expectError(await of.person.get(`${path}?recipient_public_key=${publicKey}`), 409, 'wallet_frozen')
    expect(await eventsOf(service, tenant, 'key_share.retrieved')).toEqual([])
    expect((await of.person.get(path)).body.data.shares).toHaveLength(2)
    expect((await tenant.post(`/wallets/${of.walletId}/unfreeze`)).status).toBe(200)
    expect((await of.person.get(`${path}?recipient_public_key=${publicKey}`)).status).toBe(200)
  })

  test('that is frozen while twenty readings fly gives nothing out once that was answered', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    const { publicKey } = await newRecipient()
    const read = () => of.person.get(`/mpc/shares/${of.walletId}?recipient_public_key=${publicKey}`)
    const reading = Promise.all(Array.from({ length: 20 }, read))
    expect((await tenant.post(`/wallets/${of.walletId}/freeze`)).status).toBe(200)
    const after = await Promise.all(Array.from({ length: 5 }, read))
    expect(statusCounts(after)).toEqual({ '409 wallet_frozen': 5 })
    const given = (await reading).filter(({ status }) => status === 200).length
    const told = await eventsOf(service, tenant, 'key_share.retrieved')
    expect(told.filter(({ index }) => index === 1)).toHaveLength(given)
  })
})

describe('a server that acts for a user', () => {
  test('touches no shares, unless the app lets servers touch users’ keys', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    const call = server(tenant, of.person.userId)
    const body = protectedShare(of, 3)
    const before = await stateOf(of)
    for (const [name, ask] of Object.entries(calls))
      expectError(await ask(call, of, body), 403, 'user_session_required', name)
    expect(await stateOf(of)).toBe(before)
    await setApp(tenant, { mpc: { allowServer: true } })
    for (const [name, ask] of Object.entries(calls))
      expect((await ask(call, of, body)).status, name).toBe(name === 'store' ? 201 : 200)
  })
})

describe('a stolen access token', () => {
  test('reads, changes and deletes nothing without a sign-in or second factor of the last five minutes', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    const refused = async (who: Person, code: string) => {
      for (const name of guarded) expectError(await calls[name](who.call, of, {}), 403, code, name)
    }
    service.advance(5 * MINUTE_MS + 1_000)
    const before = await stateOf(of)
    await refused(of.person, 'reauthentication_required')
    const fresh = await signInAs(service, tenant, { userId: of.person.userId })
    const factor = await enrol(service, fresh)
    moveOn(service, 11)
    await refused(fresh, 'mfa_required')
    const again = await signInAs(service, tenant, { userId: of.person.userId })
    await refused(again, 'mfa_required')
    expect(await stateOf(of)).toBe(before)
    await stepUp(service, again, factor)
    await refused(fresh, 'mfa_required')
    for (const name of guarded) expect((await calls[name](again.call, of, {})).status, name).toBe(200)
  })

  test('of a user without a second factor does nothing where the app asks for one', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    await setApp(tenant, { mfa: { policy: 'always' } })
    for (const name of guarded)
      expectError(await calls[name](of.person.call, of, {}), 403, 'mfa_enrollment_required', name)
  })
})

describe('who can’t act any more', () => {
  test('a suspended user reaches no share, by whomever', async () => {
    const tenant = await service.newTenant()
    await setApp(tenant, { mpc: { allowServer: true } })
    const of = await kept(tenant)
    const before = await stateOf(of)
    const body = protectedShare(of, 3)
    expect((await tenant.patch(`/users/${of.person.userId}`, { status: 'suspended' })).status).toBe(200)
    for (const [name, ask] of Object.entries(calls))
      for (const call of [of.person.call, server(tenant, of.person.userId)])
        expectError(await ask(call, of, body), 403, 'user_suspended', name)
    expect(await stateOf(of)).toBe(before)
  })

  test('a guest has shares as a user has, and when it has ended reaches none', async () => {
    const tenant = await service.newTenant()
    await setApp(tenant, { mpc: { allowServer: true } })
    const guest = await newGuest(tenant)
    const who = { userId: guest.userId, appId: tenant.appId }
    const person = personOf(service.url, await publishableKey(tenant), who, guest)
    const of = await kept(tenant, person)
    expect((await person.get(`/mpc/shares/${of.walletId}`)).status).toBe(200)
    const body = protectedShare(of, 3)
    expect((await tenant.delete(`/guests/${guest.id}`)).status).toBe(200)
    for (const [name, ask] of Object.entries(calls)) {
      const own = await ask(person.call, of, body)
      expect([401, 410], `${name} ${own.text}`).toContain(own.status)
      expectError(await ask(server(tenant, guest.userId), of, body), 410, 'guest_expired', name)
    }
  })

  test('stores nothing once the suspension was answered, of twenty at once', async () => {
    const tenant = await service.newTenant()
    const of = await newSharedWallet(service, tenant, { proofs: [] })
    const bodies = Array.from({ length: 20 }, () => protectedShare(of, 2))
    const storing = bodies.map((body) => of.person.post('/mpc/shares', body))
    expect((await tenant.patch(`/users/${of.person.userId}`, { status: 'suspended' })).status).toBe(200)
    const before = await stateOf(of)
    for (const answer of await Promise.all(storing)) expect([201, 403, 409]).toContain(answer.status)
    expect(await stateOf(of)).toBe(before)
  })

  test('a deleted user takes the shares along', async () => {
    const tenant = await service.newTenant()
    const of = await kept(tenant)
    expect((await tenant.delete(`/users/${of.person.userId}`)).status).toBe(200)
    expect(await service.sql('select 1 from key_shares where wallet_id = $1', [of.walletId])).toEqual([])
  })
})
