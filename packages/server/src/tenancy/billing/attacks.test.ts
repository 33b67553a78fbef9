import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { eventually, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type StripeFake, startStripeFake } from '../../../test/harness/stripe-fake.ts'
import { everything, newHolder } from '../../delegation/delegated.fixture.ts'
import { setPlan } from '../tenant/service.ts'
import {
  addUsers,
  checkoutBody,
  eventsOf,
  newCustomer,
  newShop,
  pay,
  post,
  SHOP,
  setUsed,
  untilUsed,
  usageOf,
} from './billing.fixture.ts'
import { PLANS } from './plans.ts'
import { reconcileSubscriptions } from './processor-events.ts'
import * as store from './store.ts'

let service: Service
let stripe: StripeFake
beforeAll(async () => {
  stripe = await startStripeFake()
  service = await startService(stripe.settings)
})
afterAll(async () => {
  await service.stop()
  await stripe.close()
})

const asked = (path: string, tenant: Tenant) =>
  stripe.requests.filter(
    (one) =>
      one.path === path && [one.fields.client_reference_id, one.fields['metadata[tenantId]']].includes(tenant.tenantId),
  )
const planOf = async (tenant: Tenant) => (await tenant.get('/billing/usage')).body.data.plan as string

/** Deletes a customer at the processor, or has the service use another account there: it is not known any more. */
const forgetCustomer = (id: string) => {
  stripe.customers.splice(
    stripe.customers.findIndex((one) => one.id === id),
    1,
  )
}

/** Until somebody waits for a lock on meters. */
const untilBlocked = () =>
  eventually('somebody waits', async () => {
    const rows = await service.sql(
      "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%usage_meters%'",
    )
    return rows.length > 0
  })

describe('what the processor does under a key of ours', () => {
  test('a first checkout by twenty at once asks for no customer while it is being made, for that is refused', async () => {
    const tenant = await newShop(service)
    const before = stripe.violations.length
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => tenant.post('/billing/checkout', checkoutBody())),
    )
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
    expect(stripe.violations.slice(before)).toEqual([])
    expect(stripe.customers.filter((one) => one.metadata.tenantId === tenant.tenantId)).toHaveLength(1)
  })

  test('that another process is at the same is a 500 which a repeat mends', async () => {
    const tenant = await newShop(service)
    stripe.fault((request, response) => {
      if (request.path !== '/v1/customers') return false
      response.writeHead(409, { 'content-type': 'application/json' })
      response.end('{"error":{"type":"idempotency_error","code":"idempotency_key_in_use","message":"busy"}}')
      return true
    })
    try {
      const answer = await tenant.post('/billing/checkout', checkoutBody())
      expectError(answer, 500, 'processor_unavailable', 'busy')
      expect(answer.body.details[0].retryable).toBe(true)
    } finally {
      stripe.fault(null)
    }
    expect((await tenant.post('/billing/checkout', checkoutBody())).status).toBe(201)
  })

  test.each(['/v1/customers', '/v1/checkout/sessions', '/v1/billing_portal/sessions'])(
    'a failure of its own at %s, which it repeats under its key for a day, is got past by repeating the call',
    async (path) => {
      const tenant = path === '/v1/customers' ? await newShop(service) : await newCustomer(service, stripe)
      const failed = new Set<unknown>()
      let failures = 1
      stripe.fault((request, response) => {
        if (request.path !== path) return false
        const key = request.headers['idempotency-key']
        const replayed = failed.has(key)
        if (!replayed && failures === 0) return false
        if (!replayed) failures -= 1
        failed.add(key)
        response.writeHead(500, {
          'content-type': 'application/json',
          'stripe-should-retry': 'false',
          ...(replayed ? { 'idempotent-replayed': 'true' } : {}),
        })
        response.end('{"error":{"type":"api_error","message":"oh"}}')
        return true
      })
      const headers = { 'idempotency-key': 'sticky' }
      const ask = () =>
        path.includes('portal')
          ? tenant.post('/billing/portal', { returnUrl: SHOP }, { headers })
          : tenant.post('/billing/checkout', checkoutBody(), { headers })
      try {
        expectError(await ask(), 500, 'processor_unavailable', 'first')
        const again = await ask()
        expect(again.status, again.text).toBe(201)
      } finally {
        stripe.fault(null)
      }
    },
  )
})

describe('a customer that the processor no longer knows', () => {
  test('is replaced at the next checkout, by one for many that ask at once; until then the portal says so', async () => {
    const tenant = await newCustomer(service, stripe)
    forgetCustomer(tenant.customer)
    expectError(await tenant.post('/billing/portal', { returnUrl: SHOP }), 400, 'billing_customer_missing', 'gone')
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => tenant.post('/billing/checkout', checkoutBody())),
    )
    for (const answer of answers) expect(answer.status, answer.text).toBe(201)
    const now = stripe.customers.filter((one) => one.metadata.tenantId === tenant.tenantId)
    expect(now).toHaveLength(1)
    await pay(service, stripe, now[0]?.id as string)
    expect(await planOf(tenant)).toBe('pro')
    expect((await tenant.post('/billing/portal', { returnUrl: SHOP })).status).toBe(201)
  })

  test('has no plan any more, when an event tells of it', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = await pay(service, stripe, tenant.customer)
    forgetCustomer(tenant.customer)
    const answer = await post(service, stripe, stripe.subscriptionEvent('deleted', subscription))
    expect([answer.status, await planOf(tenant)]).toEqual([200, 'free'])
  })
})

describe('a subscription of which no event told', () => {
  const inHours = (hours: number) => ({
    ...service.deps,
    now: () => new Date(service.deps.now().getTime() + hours * 3_600_000),
  })

  test('is found within a day, its beginning and its end', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer)
    await reconcileSubscriptions(inHours(23))
    expect(await planOf(tenant)).toBe('free')
    await reconcileSubscriptions(inHours(25))
    expect(await planOf(tenant)).toBe('pro')
    subscription.status = 'canceled'
    const before = stripe.requests.length
    await reconcileSubscriptions(inHours(26))
    // It was asked for an hour ago.
    expect(stripe.requests.slice(before).filter(({ fields }) => fields.customer === tenant.customer)).toEqual([])
    await reconcileSubscriptions(inHours(50))
    expect(await planOf(tenant)).toBe('free')
    expect(await eventsOf(service, tenant, 'billing.plan_changed')).toEqual([
      { from: 'free', to: 'pro' },
      { from: 'pro', to: 'free' },
    ])
  })

  test('is left as it is while the processor is away, and each other one is not asked for in vain', async () => {
    const tenant = await newCustomer(service, stripe)
    await newCustomer(service, stripe)
    await pay(service, stripe, tenant.customer)
    const before = stripe.requests.length
    stripe.fault((_, response) => {
      response.destroy()
      return true
    })
    try {
      expect(await reconcileSubscriptions(inHours(100))).toBe(false)
    } finally {
      stripe.fault(null)
    }
    expect(await planOf(tenant)).toBe('pro')
    // The one call, and the library's own second attempt.
    expect(stripe.requests.length - before).toBe(2)
  })
})

describe('a return URL', () => {
  test('keeps the place of the session id wherever it stands', async () => {
    const tenant = await newShop(service)
    const successUrl = `${SHOP}/paid/{CHECKOUT_SESSION_ID}?of={CHECKOUT_SESSION_ID}#{CHECKOUT_SESSION_ID}`
    const answer = await tenant.post('/billing/checkout', { ...checkoutBody(), successUrl })
    expect(answer.status, answer.text).toBe(201)
    expect(asked('/v1/checkout/sessions', tenant)[0]?.fields.success_url).toBe(successUrl)
  })

  test("that is too long once it is spelled out is a 400 that names it, not the processor's refusal", async () => {
    const tenant = await newShop(service)
    const successUrl = `${SHOP}/${'é'.repeat(1_900)}`
    const answer = await tenant.post('/billing/checkout', { ...checkoutBody(), successUrl })
    expectError(answer, 400, 'validation_failed', 'long')
    expect(answer.body.details[0].field).toBe('successUrl')
  })

  test('in an odd spelling goes to the origin that is allowed or nowhere', async () => {
    const tenant = await newShop(service)
    const same = [
      'https://shop。example.com/',
      'https:shop.example.com',
      'https:\\\\shop.example.com',
      'https://ｓhop.example.com',
      'https://@shop.example.com/',
      'https://shop.ex%61mple.com/',
      ' https://shop.example.com ',
    ]
    for (const successUrl of same) {
      const answer = await tenant.post('/billing/checkout', { ...checkoutBody(), successUrl })
      expect([successUrl, answer.status]).toEqual([successUrl, 201])
      expect(asked('/v1/checkout/sessions', tenant).at(-1)?.fields.success_url).toBe(`${SHOP}/`)
    }
    for (const successUrl of [
      'https://shop.example.com./',
      'https://xn--shp-una.example.com/',
      'https://shоp.example.com',
      'https://[::ffff:127.0.0.1]/',
      'https://0x7f.1/',
      'https://shop.example.com:0/',
      'ws://shop.example.com',
      'https://null/',
      'https://shop.example.com%00.evil.example/',
      'https://shop.example.com%2f.evil.example/',
    ])
      expectError(
        await tenant.post('/billing/checkout', { ...checkoutBody(), successUrl }),
        400,
        'validation_failed',
        successUrl,
      )
  })
})

describe('folding', () => {
  test('never writes an older number of users over a newer one', async () => {
    const tenant = await service.newTenant()
    await tenant.post('/users', {})
    await untilUsed(tenant, 'users', 1)
    await service.deps.db.tx(async (tx) => {
      // As the sink does for users who were imported, while the follower folds an event.
      await store.setUsersMeter(tx, tenant.tenantId as never)
      await tenant.post('/users', {})
      await untilBlocked()
      await addUsers(service, tenant, 10)
      await store.setUsersMeter(tx, tenant.tenantId as never)
    })
    await eventually('the follower is done', async () => {
      const [row] = await service.sql<{ behind: number }>(
        `select h.seq - c.seq as behind from feed_heads h join feed_cursors c using (tenant_id)
         where tenant_id = $1 and follower = 'usage'`,
        [tenant.tenantId],
      )
      return Number(row?.behind) === 0
    })
    expect((await usageOf(tenant)).users?.used).toBe(12)
  })

  test('tells of no threshold of a plan that was left meanwhile', async () => {
    const tenant = await newCustomer(service, stripe)
    await setUsed(service, tenant, 'apiRequests', PLANS.free.apiRequests)
    await service.sql("update usage_meters set announced = 100 where tenant_id = $1 and meter = 'apiRequests'", [
      tenant.tenantId,
    ])
    await service.deps.db.tx(async (tx) => {
      const { start } = await periodOf(tenant)
      await store.resetAnnounced(tx, tenant.tenantId as never, start)
      await setPlan(tx, tenant.tenantId as never, 'pro', service.deps.now())
      await tenant.get('/billing/usage')
      await untilBlocked()
    })
    await eventually('it is counted', async () => {
      const rows = await service.sql(
        "select 1 from usage_meters where tenant_id = $1 and meter = 'apiRequests' and used > $2",
        [tenant.tenantId, PLANS.free.apiRequests],
      )
      return rows.length === 1
    })
    expect(await eventsOf(service, tenant, 'usage.threshold_reached')).toEqual([])
  })
})

const periodOf = async (tenant: Tenant) => ({
  start: new Date((await tenant.get('/billing/usage')).body.data.periodStart),
})

test.each([
  ['pro', 'POST /billing/portal'],
  ['scale', 'no larger plan'],
] as const)('a quota of %s that is used up says what can be done: %s', async (plan, advice) => {
  const tenant = await newCustomer(service, stripe)
  await pay(service, stripe, tenant.customer, plan)
  await addUsers(service, tenant, PLANS[plan].users - 1)
  await tenant.post('/users', {})
  const refused = await eventually('a refusal', async () => {
    const answer = await tenant.post('/guests', {})
    return answer.status === 429 && answer
  })
  expect(refused.body.details[0].message).toContain(advice)
  expect(refused.body.details[0].message).not.toContain('/billing/checkout')
})

test('a kept answer is answered when the quota is used up since: of guests, conversions and transactions', async () => {
  const tenant = await service.newTenant()
  const headers = { 'idempotency-key': 'kept' }
  const holder = await newHolder(tenant)
  const session = await tenant.post('/delegated-sessions', { policy: everything() }, holder.asUser)
  const create = { templateId: 'Note:Note', arguments: { author: holder.party, text: 'Hello' } }
  const guest = (await tenant.post('/guests', {})).body.data.id
  const calls = [
    ['/guests', {}],
    [`/guests/${guest}/convert`, { externalId: 'x' }],
    [`/delegated-sessions/${session.body.data.id}/execute`, { commands: [{ create }] }],
  ] as const
  const ask = () => Promise.all(calls.map(([path, body]) => tenant.post(path, body, { headers })))
  const before = await ask()
  for (const answer of before) expect(answer.status, answer.text).toBeLessThan(300)
  await addUsers(service, tenant, PLANS.free.users)
  await setUsed(service, tenant, 'transactions', PLANS.free.transactions)
  await tenant.patch(`/users/${before[1]?.body.data.user.id}`, { name: 'Ada' })
  await eventually('refusals', async () => {
    const fresh = await Promise.all([tenant.post('/users', {}), tenant.post(calls[2][0], calls[2][1])])
    return fresh.every(({ status }) => status === 429)
  })
  expect((await ask()).map(({ status, text }) => [status, text])).toEqual(
    before.map(({ status, text }) => [status, text]),
  )
})
