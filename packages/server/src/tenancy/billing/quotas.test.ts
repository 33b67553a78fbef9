import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { logIn, newAuthenticator, register, signUp } from '../../../test/harness/authenticator.ts'
import { expectError } from '../../../test/harness/envelope.ts'
import {
  type Answer,
  eventually,
  type Service,
  startService,
  type Tenant,
  toMidMonth,
} from '../../../test/harness/harness.ts'
import { startReceiver } from '../../../test/harness/receiver.ts'
import { type StripeFake, startStripeFake } from '../../../test/harness/stripe-fake.ts'
import { everything, newHolder } from '../../delegation/delegated.fixture.ts'
import { newRemoteHolder, startRemote } from '../../delegation/remote/remote.fixture.ts'
import { newShop, widget } from '../../identity/messenger/messenger.fixture.ts'
import { addUsers, eventsOf, newCustomer, pay, post, setUsed, untilUsed, usageOf } from './billing.fixture.ts'
import { PLANS, periodAt } from './plans.ts'

let service: Service
let stripe: StripeFake
beforeAll(async () => {
  stripe = await startStripeFake()
  service = await startService(stripe.settings)
  toMidMonth(service)
})
afterAll(async () => {
  await service.stop()
  await stripe.close()
})

const thresholds = (tenant: Tenant) => eventsOf(service, tenant, 'usage.threshold_reached')

/** Lets a tenant have as many users as the free plan allows, beside `others`, and waits until that is noticed. */
async function fill(tenant: Tenant, others = 0): Promise<void> {
  await addUsers(service, tenant, PLANS.free.users - 1 - others)
  expect((await tenant.post('/users', {})).status).toBe(201)
  await untilUsed(tenant, 'users', PLANS.free.users)
  // It makes no user where it is not refused.
  const ask = async () => (await tenant.post('/auth/passkey/register-options', { name: 'Ada' })).status === 429
  await eventually('a refusal', ask)
}

describe('usage', () => {
  test('has every meter of the plan, in the calendar month where nothing is paid for', async () => {
    const tenant = await service.newTenant()
    const { data } = (await tenant.get('/billing/usage')).body
    const now = service.deps.now()
    expect(data).toEqual({
      plan: 'free',
      periodStart: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString(),
      periodEnd: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString(),
      meters: Object.entries(PLANS.free).map(([key, limit]) => ({ key, used: 0, limit })),
    })
  })

  test('counts users as they are: created, converted, deleted, and gone with their app; guests not', async () => {
    const tenant = await service.newTenant()
    const app = (await tenant.post('/apps', { name: 'Second' })).body.data.id
    const user = (await tenant.post('/users', {})).body.data.id
    for (let more = 0; more < 3; more += 1) await tenant.post('/users', { appId: app })
    const guest = (await tenant.post('/guests', {})).body.data.id
    await untilUsed(tenant, 'users', 4)
    await tenant.post(`/guests/${guest}/convert`, { externalId: 'x' })
    await untilUsed(tenant, 'users', 5)
    await tenant.delete(`/users/${user}`)
    await untilUsed(tenant, 'users', 4)
    expect((await tenant.delete(`/apps/${app}?force=true`)).status).toBe(200)
    await untilUsed(tenant, 'users', 1)
  })

  test('counts transactions, deliveries that ended and requests, once each', async () => {
    const tenant = await service.newTenant()
    const receiver = await startReceiver()
    try {
      await tenant.post('/webhooks', { url: receiver.url, events: ['user.created'] })
      for (let n = 0; n < 5; n += 1) await tenant.post('/users', {})
      await untilUsed(tenant, 'deliveries', 5)
    } finally {
      await receiver.close()
    }
    const session = await newSession(tenant)
    await execute(tenant, session)
    await execute(tenant, session)
    await untilUsed(tenant, 'transactions', 2)
    const { used } = (await usageOf(tenant)).apiRequests as { used: number }
    expect(used).toBeGreaterThan(0)
  })

  test("is the tenant's own, and the same whatever another one does", async () => {
    const [mine, other] = [await service.newTenant(), await service.newTenant()]
    for (let n = 0; n < 3; n += 1) await other.post('/users', {})
    await untilUsed(other, 'users', 3)
    expect((await usageOf(mine)).users?.used).toBe(0)
  })

  test('begins anew with the next period, even before the processor tells of it; users stay', async () => {
    const own = await startService(stripe.settings)
    try {
      const tenant = await newCustomer(own, stripe)
      await tenant.post('/users', {})
      const subscription = await pay(own, stripe, tenant.customer)
      await setUsed(own, tenant, 'transactions', 7)
      await untilUsed(tenant, 'users', 1)
      own.advance(30 * 86_400_000)
      expect((await usageOf(tenant)).transactions?.used).toBe(0)
      expect((await usageOf(tenant)).users?.used).toBe(1)
      await setUsed(own, tenant, 'transactions', 3)
      const length = subscription.periodEnd - subscription.periodStart
      Object.assign(subscription, {
        periodStart: subscription.periodEnd,
        periodEnd: subscription.periodEnd + length + 86_400,
      })
      await post(own, stripe, stripe.subscriptionEvent('updated', subscription))
      const { data } = (await tenant.get('/billing/usage')).body
      expect(data.periodEnd).toBe(new Date(subscription.periodEnd * 1000).toISOString())
      expect((await usageOf(tenant)).transactions?.used).toBe(3)
    } finally {
      await own.stop()
    }
  })

  test('lies in one period at every moment: neither a gap nor an overlap', () => {
    const day = (text: string) => new Date(`${text}T00:00:00.000Z`)
    const subscribed = { start: day('2026-01-15'), end: day('2026-02-14') }
    const starts = (at: string) => periodAt(subscribed, new Date(at)).start.toISOString().slice(0, 10)
    expect(starts('2026-01-15T00:00:00Z')).toBe('2026-01-15')
    expect(starts('2026-02-13T23:59:59.999Z')).toBe('2026-01-15')
    expect(starts('2026-02-14T00:00:00Z')).toBe('2026-02-14')
    expect(starts('2026-03-16T00:00:00Z')).toBe('2026-03-16')
    // Before it was bought, and for who has bought nothing: the calendar month.
    expect(starts('2026-01-14T00:00:00Z')).toBe('2026-01-01')
    expect(periodAt(null, new Date('2026-12-31T23:59:59.999Z'))).toEqual({
      start: day('2026-12-01'),
      end: day('2027-01-01'),
    })
    expect(periodAt({ start: day('2026-01-15'), end: day('2026-01-15') }, day('2026-01-20')).start).toEqual(
      day('2026-01-15'),
    )
  })
})

interface Session {
  id: string
  party: string
}

/** A session that may do anything, of a new user. */
async function newSession(tenant: Tenant): Promise<Session> {
  const holder = await newHolder(tenant)
  const answer = await tenant.post('/delegated-sessions', { policy: everything() }, holder.asUser)
  if (answer.status !== 201) throw new Error(answer.text)
  return { id: answer.body.data.id, party: holder.party }
}

const execute = (tenant: Tenant, session: Session, more: object = {}): Promise<Answer> =>
  tenant.post(`/delegated-sessions/${session.id}/execute`, {
    commands: [{ create: { templateId: 'Note:Note', arguments: { author: session.party, text: 'Hello' } } }],
    ...more,
  })

describe('a threshold', () => {
  test('is told of once at 80 and once at 100 percent', async () => {
    const tenant = await service.newTenant()
    const { users: limit } = PLANS.free
    await addUsers(service, tenant, limit * 0.8 - 2)
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', limit * 0.8 - 1)
    expect(await thresholds(tenant)).toEqual([])
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', limit * 0.8)
    const first = { meter: 'users', used: limit * 0.8, limit, percent: 80 }
    expect(await thresholds(tenant)).toEqual([first])
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', limit * 0.8 + 1)
    await addUsers(service, tenant, limit * 0.2 - 2)
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', limit)
    expect(await thresholds(tenant)).toEqual([first, { meter: 'users', used: limit, limit, percent: 100 }])
    // Down a little and up again is no news.
    const { data } = (await tenant.get('/users')).body
    await tenant.delete(`/users/${data[0].id}`)
    await untilUsed(tenant, 'users', limit - 1)
    expect(await thresholds(tenant)).toHaveLength(2)
  })

  test('is told of again by another plan, and by users once there were far fewer', async () => {
    const tenant = await newCustomer(service, stripe)
    await addUsers(service, tenant, PLANS.free.users - 1)
    await tenant.post('/users', {})
    await eventually('both', async () => (await thresholds(tenant)).length === 2)
    await pay(service, stripe, tenant.customer)
    await addUsers(service, tenant, PLANS.pro.users * 0.8 - PLANS.free.users)
    await tenant.post('/users', {})
    const third = { meter: 'users', used: PLANS.pro.users * 0.8 + 1, limit: PLANS.pro.users, percent: 80 }
    await eventually('the third', async () => (await thresholds(tenant)).length === 3)
    expect((await thresholds(tenant))[2]).toEqual(third)
    await addUsers(service, tenant, -PLANS.pro.users * 0.5)
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', PLANS.pro.users * 0.3 + 2)
    await addUsers(service, tenant, PLANS.pro.users * 0.5)
    await tenant.post('/users', {})
    await eventually('the fourth', async () => (await thresholds(tenant)).length === 4)
  })

  test('that a smaller plan puts behind what is used is told of as the plan changes', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = await pay(service, stripe, tenant.customer)
    await addUsers(service, tenant, PLANS.free.users)
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', PLANS.free.users + 1)
    expect(await thresholds(tenant)).toEqual([])
    subscription.status = 'canceled'
    await post(service, stripe, stripe.subscriptionEvent('deleted', subscription))
    expect((await thresholds(tenant)).map(({ percent, limit }) => [percent, limit])).toEqual([
      [80, PLANS.free.users],
      [100, PLANS.free.users],
    ])
  })

  test('of requests is told of, and no request refused', async () => {
    const tenant = await service.newTenant()
    await setUsed(service, tenant, 'apiRequests', PLANS.free.apiRequests)
    await setUsed(service, tenant, 'deliveries', PLANS.free.deliveries)
    await eventually('both', async () => {
      expect((await tenant.post('/users', {})).status).toBe(201)
      return (await thresholds(tenant)).length === 2
    })
    expect(new Set((await thresholds(tenant)).map(({ meter }) => meter))).toEqual(new Set(['apiRequests']))
  })
})

describe('a quota that is used up', () => {
  const expectExceeded = (answer: Answer, meter: 'users' | 'transactions', what: string) => {
    expectError(answer, 429, 'quota_exceeded', what)
    const limit = PLANS.free[meter]
    expect(answer.body.details[0]).toMatchObject({ code: 'quota_exceeded', meter, limit, plan: 'free' })
    expect(answer.body.details[0].used).toBeGreaterThanOrEqual(limit)
    expect(answer.body.details[0].message).toContain('POST /billing/checkout')
  }

  test('refuses users and guests, their conversion and sign-ups, and nothing of it happens', async () => {
    const tenant = await service.newTenant()
    const guest = (await tenant.post('/guests', {})).body.data
    await fill(tenant)
    const counts = () =>
      service.sql(
        `select (select count(*) from users where tenant_id = $1) as users,
           (select count(*) from events where tenant_id = $1) as events`,
        [tenant.tenantId],
      )
    const before = await counts()
    const user = await tenant.post('/users', { email: 'a@example.com' })
    expectExceeded(user, 'users', 'user')
    // Waiting frees no room.
    expect(user.headers.get('retry-after')).toBe(null)
    expectExceeded(await tenant.post('/guests', {}), 'users', 'guest')
    expectExceeded(await tenant.post(`/guests/${guest.id}/convert`, { externalId: 'x' }), 'users', 'convert')
    expectExceeded(await tenant.post('/auth/passkey/register-options', { name: 'Ada' }), 'users', 'passkey')
    expect(await counts()).toEqual(before)
    expect((await tenant.get(`/guests/${guest.id}`)).body.data.status).toBe('active')
  })

  test('refuses what is asked under an Idempotency-Key too, keeps no such answer, and answers what was kept before', async () => {
    const tenant = await service.newTenant()
    const headers = { 'idempotency-key': 'one' }
    const first = await tenant.post('/users', { name: 'Ada' }, { headers })
    await fill(tenant, 1)
    const again = await tenant.post('/users', { name: 'Ada' }, { headers })
    expect([again.status, again.text]).toEqual([201, first.text])
    const other = { headers: { 'idempotency-key': 'two' } }
    const refused = await Promise.all(Array.from({ length: 20 }, () => tenant.post('/users', {}, other)))
    for (const answer of refused) expect([429, 409]).toContain(answer.status)
    const { data } = (await tenant.get('/users')).body
    await tenant.delete(`/users/${data[0].id}`)
    await eventually('room', async () => (await tenant.post('/users', {}, other)).status === 201)
  })

  test('refuses nobody who is here: they sign in, change, get wallets and leave', async () => {
    const tenant = await service.newTenant()
    const user = (await tenant.post('/users', {})).body.data.id
    const headers = { 'x-user-id': user }
    await fill(tenant, 1)
    expect((await register({ url: service.url, key: tenant.key }, {}, { headers })).status).toBe(200)
    expect((await tenant.patch(`/users/${user}`, { name: 'Ada' })).status).toBe(200)
    expect((await tenant.post('/users/me/wallet', {}, { headers })).status).toBe(201)
    expect((await tenant.get('/users')).status).toBe(200)
    expect((await tenant.delete(`/users/${user}`)).status).toBe(200)
  })

  test('refuses a sign-up by messenger without using up its payload, and no sign-in', async () => {
    const shop = await newShop(service)
    const { tenant } = shop
    const ada = () => widget(shop.token, { id: 1, first_name: 'Ada', auth_date: shop.date() })
    const bob = widget(shop.token, { id: 2, first_name: 'Bob', auth_date: shop.date() })
    const first = await shop.verify(ada())
    expect(first.body.data.isNewUser).toBe(true)
    await fill(tenant, 1)
    const last = (await tenant.get('/users')).body.data[0].id
    expectExceeded(await shop.verify(bob), 'users', 'sign-up')
    service.advance(1_000)
    const again = await shop.verify(ada())
    expect([again.status, again.body.data.isNewUser]).toEqual([200, false])
    await tenant.delete(`/users/${last}`)
    await eventually('room', async () => (await shop.verify(bob)).status === 200)
  })

  test('refuses a sign-up by a passkey that was begun before, and lets who has one sign in', async () => {
    const tenant = await service.newTenant()
    const by = { url: service.url, key: tenant.key }
    const { authenticator } = await signUp(by, { name: 'Ada' })
    const begun = await tenant.post('/auth/passkey/register-options', { name: 'Bob' })
    await fill(tenant, 1)
    const { challengeId, publicKey } = begun.body.data
    const credential = newAuthenticator().create(publicKey)
    expectExceeded(await tenant.post('/auth/passkey/register-verify', { challengeId, credential }), 'users', 'verify')
    expect((await logIn(by, authenticator)).isNewUser).toBe(false)
  })

  test('ends when a larger plan is paid for', async () => {
    const tenant = await newCustomer(service, stripe)
    await fill(tenant)
    await pay(service, stripe, tenant.customer)
    await eventually('room', async () => (await tenant.post('/users', {})).status === 201)
  })

  test("is a tenant's own", async () => {
    await fill(await service.newTenant())
    const other = await service.newTenant()
    expect((await other.post('/users', {})).status).toBe(201)
  })

  test('refuses transactions until the period ends, and says when; dry runs, queries and repeats are answered', async () => {
    const tenant = await service.newTenant()
    const session = await newSession(tenant)
    const commandId = 'order-1'
    const done = await execute(tenant, session, { commandId })
    expect(done.status, done.text).toBe(200)
    await untilUsed(tenant, 'transactions', 1)
    await setUsed(service, tenant, 'transactions', PLANS.free.transactions)
    await eventually('a refusal', async () => (await execute(tenant, session)).status === 429)
    const answer = await execute(tenant, session)
    expectExceeded(answer, 'transactions', 'execute')
    const { periodEnd } = (await tenant.get('/billing/usage')).body.data
    const leftSeconds = (Date.parse(periodEnd) - service.deps.now().getTime()) / 1000
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(Math.floor(leftSeconds))
    expect((await execute(tenant, session, { dryRun: true })).status).toBe(200)
    expect((await execute(tenant, session, { commandId })).body.data.transactionId).toBe(done.body.data.transactionId)
    expect((await tenant.post(`/delegated-sessions/${session.id}/query`, {})).status).toBe(200)
  })

  test('refuses transactions of a ledger that is a network away, before anything of them is stored', async () => {
    const far = await startRemote(stripe.settings)
    try {
      const tenant = await far.newTenant()
      const holder = await newRemoteHolder(far, tenant)
      const answer = await tenant.post('/delegated-sessions', { policy: everything() }, holder.asUser)
      await setUsed(far, tenant, 'transactions', PLANS.free.transactions)
      const ask = () => execute(tenant, { id: answer.body.data.id, party: holder.party })
      await eventually('a refusal', async () => (await ask()).status === 429)
      const stored = () => far.sql('select 1 from transactions where tenant_id = $1', [tenant.tenantId])
      const before = await stored()
      expectExceeded(await ask(), 'transactions', 'far')
      expect(await stored()).toEqual(before)
    } finally {
      await far.stop()
    }
  })

  test('is not passed by one of forty calls at once, from when it is known', async () => {
    const tenant = await service.newTenant()
    await fill(tenant)
    const answers = await Promise.all(Array.from({ length: 40 }, () => tenant.post('/users', {})))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([429]))
  })
})
