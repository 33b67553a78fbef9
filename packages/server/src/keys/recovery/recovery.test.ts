import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, expectRefusal } from '../../../test/harness/envelope.ts'
import { type Answer, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { bearer, newGuest } from '../../identity/guests/guests.fixture.ts'
import { enrol, stepUp } from '../../identity/mfa/mfa.fixture.ts'
import {
  eventsOf,
  newApp,
  type Person,
  personOf,
  publishableKey,
  signInAs,
} from '../../identity/sessions/sessions.fixture.ts'
import { newWallet } from '../../wallets/wallets/wallets.fixture.ts'
import { newSharedWallet, type SplitWallet } from '../key-shares/key-shares.fixture.ts'
import { as, challengeOf, dealAnew, expectData, type Held, release, releaseBody, start } from './recovery.fixture.ts'

const MINUTE_MS = 60_000
const UNKNOWN = { walletId: 'wal_01jb2m7x9kq4t8v6w0r3s5y1zc', challengeId: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zn' }

let service: Service
beforeAll(async () => {
  service = await startService({ HALFKEY_ROLE: 'api' })
})
afterAll(() => service.stop())

async function newShared(): Promise<SplitWallet> {
  return newSharedWallet(service, await service.newTenant())
}

const recover = ({ person }: Pick<Held, 'person'>, body: object) => person.post('/mpc/recover', body)
const asServer = (tenant: Tenant, userId: string): Held['person'] => {
  const headers = { 'x-user-id': userId }
  return {
    get: (path, options = {}) => tenant.get(path, { ...options, headers: { ...headers, ...options.headers } }),
    post: (path, body, options = {}) =>
      tenant.post(path, body, { ...options, headers: { ...headers, ...options.headers } }),
  }
}

/** Every step there is, with right bodies. */
async function steps(held: Held): Promise<Record<string, object>> {
  const begun = await start(held, [1, 2])
  return {
    release: (await releaseBody(held)).body,
    combine: {
      walletId: held.walletId,
      mode: 'combine',
      challengeId: (await challengeOf(held, 'combine')).challengeId,
      shares: [],
      recipientPublicKey: 'ab'.repeat(32),
    },
    start: (await dealAnew(held, [1, 2])).body,
    confirm: begun.body,
  }
}

const untouched = async ({ tenant, walletId }: SplitWallet) => {
  expect((await tenant.get(`/wallets/${walletId}`)).body.data).toMatchObject({ exportedAt: null, generation: 1 })
  expect(await eventsOf(service, tenant, 'key.recovered')).toEqual([])
}

describe('a challenge', () => {
  test('says what seals and proofs are bound to', async () => {
    const split = await newShared()
    const { tenant, person, walletId } = split
    for (const purpose of ['release', 'combine', 'reshare']) {
      const { challengeId, subject, expiresAt, ...rest } = await challengeOf(split, purpose)
      expect(rest).toEqual({})
      expect(challengeId).toMatch(/^chl_/)
      const { tenantId, appId } = tenant
      expect(subject).toEqual({ tenantId, appId, userId: person.userId, walletId, generation: 1, challengeId })
      expect(Math.abs(Date.parse(expiresAt) - service.deps.now().getTime() - 5 * MINUTE_MS)).toBeLessThan(MINUTE_MS)
    }
    const wrong = await person.post('/mpc/challenge', { walletId, purpose: 'store' })
    expect(expectRefusal(wrong, 'validation_failed')[0].field).toBe('purpose')
  })

  test('of another purpose, wallet or user is none, and is not used up by being tried', async () => {
    const split = await newShared()
    const other = await newSharedWallet(service, split.tenant)
    const [forReshare, forOther] = [await challengeOf(split, 'reshare'), await challengeOf(other, 'release')]
    const mfa = await service.sql<{ id: string }>(
      `insert into challenges (tenant_id, id, app_id, kind, user_id, data, expires_at)
       select tenant_id, 'chl_01jb2m7x9kq4t8v6w0r3s5y1zz', app_id, 'wallet', user_id, data, expires_at
       from challenges where id = $1 returning id`,
      [forReshare.challengeId],
    )
    const { body } = await releaseBody(split)
    const unknown = await recover(split, { ...body, challengeId: UNKNOWN.challengeId })
    expectError(unknown, 404, 'not_found')
    expect(unknown.body.details[0].field).toBe('challengeId')
    for (const challengeId of [forReshare.challengeId, forOther.challengeId, mfa[0]?.id, 'x', '', split.walletId])
      expect((await recover(split, { ...body, challengeId })).text).toBe(unknown.text)
    await release(other, { asked: forOther })
    const dealt = await dealAnew(split, [1, 2], { asked: forReshare })
    expect((await recover(split, dealt.body)).status).toBe(200)
    expect((await recover(split, body)).status).toBe(200)
  })

  test('is over after five minutes, once it was answered, and when the shares are others', async () => {
    const split = await newShared()
    const late = await releaseBody(split)
    service.advance(5 * MINUTE_MS)
    const held = as(split, await signInAs(service, split.tenant, { userId: split.person.userId }))
    expectError(await recover(held, late.body), 410, 'challenge_expired')
    const { body } = await releaseBody(held)
    expect((await recover(held, body)).status).toBe(200)
    expectError(await recover(held, body), 410, 'challenge_expired')
    const before = await releaseBody(held)
    const begun = await start(held, [1, 2])
    expect((await recover(held, begun.body)).status).toBe(200)
    expectError(await recover(held, before.body), 410, 'challenge_expired')
    expect((await release(begun.next)).data.generation).toBe(2)
  })
})

test("another's wallet is none, whoever asks: of another user, app or tenant, or of no one", async () => {
  const split = await newShared()
  const others: Held['person'][] = [
    await signInAs(service, split.tenant),
    await signInAs(service, split.tenant, { appId: await newApp(split.tenant) }),
    await signInAs(service, await service.newTenant()),
    (await newShared()).person,
  ]
  const bodies = await steps(split)
  for (const person of others) {
    const unknown = await person.post('/mpc/challenge', { walletId: UNKNOWN.walletId, purpose: 'release' })
    expectError(unknown, 404, 'not_found')
    expect(unknown.body.details).toMatchObject([{ field: 'walletId' }])
    for (const walletId of [split.walletId, '', 'x', "' OR 1=1", 'w'.repeat(10_000)])
      expect((await person.post('/mpc/challenge', { walletId, purpose: 'release' })).text).toBe(unknown.text)
    for (const body of Object.values(bodies)) expect((await recover({ person }, body)).text).toBe(unknown.text)
  }
  await untouched(split)
})

test('an embedded wallet has no shares to recover', async () => {
  const tenant = await service.newTenant()
  const person = await signInAs(service, tenant)
  const { id: walletId } = await newWallet(person)
  const refused = await person.post('/mpc/challenge', { walletId, purpose: 'release' })
  expect(expectRefusal(refused, 'custody_unsupported')[0].field).toBe('walletId')
  const body = { walletId, challengeId: UNKNOWN.challengeId, proofs: [], recipientPublicKey: 'ab'.repeat(32) }
  expect(expectRefusal(await recover({ person }, body), 'custody_unsupported')[0].field).toBe('walletId')
})

test('a frozen wallet gives nothing out and changes no share, until it is unfrozen', async () => {
  const split = await newShared()
  const bodies = await steps(split)
  expectData(await split.tenant.post(`/wallets/${split.walletId}/freeze`), 200)
  for (const [step, body] of Object.entries(bodies)) expectError(await recover(split, body), 409, 'wallet_frozen', step)
  await untouched(split)
  expectData(await split.tenant.post(`/wallets/${split.walletId}/unfreeze`), 200)
  expect((await recover(split, bodies.release as object)).status).toBe(200)
})

test('freezing and releasing at once end with one of both orders, and never with a release of a frozen wallet', async () => {
  const tenant = await service.newTenant()
  const splits = await Promise.all(Array.from({ length: 20 }, () => newSharedWallet(service, tenant)))
  const made = await Promise.all(splits.map((split) => releaseBody(split)))
  const race = async (split: SplitWallet, at: number) => {
    const [released, frozen] = await Promise.all([
      recover(split, made[at]?.body as object),
      tenant.post(`/wallets/${split.walletId}/freeze`),
    ])
    expect(frozen.status).toBe(200)
    return released
  }
  const outcomes: Answer[] = []
  // No more at a time than there are connections: who waits for one is refused after five seconds.
  for (let from = 0; from < splits.length; from += 5)
    outcomes.push(...(await Promise.all(splits.slice(from, from + 5).map((split, n) => race(split, from + n)))))
  for (const [at, { status, body }] of outcomes.entries()) {
    const { walletId } = splits[at] as SplitWallet
    const { exportedAt, status: frozen } = (await tenant.get(`/wallets/${walletId}`)).body.data
    expect(frozen).toBe('frozen')
    if (status === 200) expect(exportedAt).toEqual(expect.any(String))
    else expect([body.code, exportedAt]).toEqual(['wallet_frozen', null])
  }
  const events = await service.sql<{ type: string; wallet: string }>(
    `select type, body::json -> 'data' ->> 'walletId' as wallet from events
     where tenant_id = $1 and type in ('key.recovered', 'wallet.frozen') order by id`,
    [tenant.tenantId],
  )
  for (const [at, { status }] of outcomes.entries()) {
    const told = events.filter(({ wallet }) => wallet === splits[at]?.walletId).map(({ type }) => type)
    expect(told).toEqual(status === 200 ? ['key.recovered', 'wallet.frozen'] : ['wallet.frozen'])
  }
})

describe('who may recover', () => {
  test('is no suspended user', async () => {
    const split = await newShared()
    const bodies = await steps(split)
    await split.tenant.patch(`/users/${split.person.userId}`, { status: 'suspended' })
    for (const body of Object.values(bodies)) {
      const { status, body: said } = await recover(split, body)
      expect([403, 401]).toContain(status)
      expect(['user_suspended', 'session_revoked']).toContain(said.code)
    }
    expectError(
      await recover({ person: asServer(split.tenant, split.person.userId) }, bodies.release as object),
      403,
      'user_suspended',
    )
    await untouched(split)
  })

  test('is a guest, but none whose session has ended', async () => {
    const tenant = await service.newTenant()
    const key = await publishableKey(tenant)
    const newOne = async () => {
      const guest = await newGuest(tenant)
      const person: Person = personOf(service.url, key, { userId: guest.userId, appId: tenant.appId }, guest)
      expect(person.bearer).toEqual(bearer(guest))
      return { guest, split: await newSharedWallet(service, tenant, { person }) }
    }
    const [one, two] = [await newOne(), await newOne()]
    await release(one.split)
    const { body } = await releaseBody(two.split)
    expectData(await tenant.delete(`/guests/${two.guest.id}`), 200)
    expectError(await recover(two.split, body), 410, 'guest_expired')
    expect((await tenant.get(`/wallets/${two.split.walletId}`)).body.data.exportedAt).toBeNull()
  })

  test('is no server in the user’s name, unless the app says so', async () => {
    const split = await newShared()
    const bodies = await steps(split)
    const held = as(split, asServer(split.tenant, split.person.userId))
    const { walletId } = split
    expectError(
      await held.person.post('/mpc/challenge', { walletId, purpose: 'release' }),
      403,
      'user_session_required',
    )
    for (const body of Object.values(bodies)) expectError(await recover(held, body), 403, 'user_session_required')
    await untouched(split)
    await split.tenant.patch(`/apps/${split.tenant.appId}`, { mpc: { allowServer: true } })
    expect((await release(held)).share).toEqual(split.share(1))
  })

  test('has verified the second factor, if there is one, or signed in within five minutes', async () => {
    const split = await newShared()
    service.advance(6 * MINUTE_MS)
    const late = [(await releaseBody(split)).body, (await dealAnew(split, [1, 2])).body]
    for (const body of late) expectError(await recover(split, body), 403, 'reauthentication_required')
    const person = await signInAs(service, split.tenant, { userId: split.person.userId })
    const enrolled = await enrol(service, person)
    const held = as(split, await signInAs(service, split.tenant, { userId: split.person.userId }))
    const made = await releaseBody(held)
    const dealt = await dealAnew(held, [1, 2])
    for (const one of [made.body, dealt.body]) expectError(await recover(held, one), 403, 'mfa_required')
    await untouched(split)
    await stepUp(service, held.person as Person, enrolled)
    expect((await recover(held, dealt.body)).status).toBe(200)
    expect((await recover(held, made.body)).status).toBe(200)
  })

  test('nobody, without a key, without a user, or with a key of no such scope', async () => {
    const split = await newShared()
    const { body } = await releaseBody(split)
    const { tenant } = split
    for (const path of ['/mpc/challenge', '/mpc/recover']) {
      const sent = path === '/mpc/recover' ? body : { walletId: split.walletId, purpose: 'release' }
      expectError(await tenant.post(path, sent, { key: null }), 401, 'api_key_missing')
      expectError(await tenant.post(path, sent), 401, 'session_missing')
      const key = await tenant.newKey({ scopes: ['wallets:write'] })
      expectError(await tenant.post(path, sent, { key }), 403, 'insufficient_scope')
    }
    expect((await recover(split, body)).status).toBe(200)
  })
})

test('a body for one step holds nothing of another', async () => {
  const split = await newShared()
  const bodies = await steps(split)
  const beside: [string, object, string][] = [
    ['release', { shares: [] }, 'shares'],
    ['release', { set: [1, 2] }, 'set'],
    ['combine', { proofs: [] }, 'proofs'],
    ['confirm', { challengeId: UNKNOWN.challengeId }, 'challengeId'],
    ['confirm', { dealings: [] }, 'dealings'],
    ['release', { reshareId: 'rsh_x' }, 'reshareId'],
  ]
  for (const [step, more, field] of beside) {
    const details = expectRefusal(await recover(split, { ...bodies[step], ...more }), 'validation_failed', step)
    expect(details.map((detail) => detail.field)).toEqual([field])
  }
  for (const [step, fields] of [
    ['release', ['challengeId', 'proofs', 'recipientPublicKey']],
    ['combine', ['challengeId', 'shares', 'recipientPublicKey']],
    ['confirm', ['signature', 'proofs']],
  ] as const)
    for (const field of fields) {
      const body = Object.fromEntries(Object.entries(bodies[step] ?? {}).filter(([name]) => name !== field))
      expect(expectRefusal(await recover(split, body), 'validation_failed', step)[0].field).toBe(field)
    }
  await untouched(split)
})
