import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { call, type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { PRICES, type StripeFake, startStripeFake } from '../../../test/harness/stripe-fake.ts'
import { checkoutBody, eventsOf, newCustomer, pay, post, postRaw } from './billing.fixture.ts'
import { deleteOldEvents } from './processor-events.ts'

/** Between a state's being asked for and its being written; tests hold it there. */
let atStateAsked: () => Promise<void> = async () => {}
let service: Service
let stripe: StripeFake
beforeAll(async () => {
  stripe = await startStripeFake()
  const failpoint = async (step: string) => {
    if (step === 'state asked') await atStateAsked()
  }
  service = await startService(stripe.settings, { failpoint })
})
afterAll(async () => {
  await service.stop()
  await stripe.close()
})

const planOf = async (tenant: Tenant) => (await tenant.get('/billing/usage')).body.data.plan as string
const changes = (tenant: Tenant) => eventsOf(service, tenant, 'billing.plan_changed')
const taken = async (id: string) => (await service.sql('select 1 from processor_events where id = $1', [id])).length
const permutations = <T>(all: readonly T[]): T[][] =>
  all.length === 0
    ? [[]]
    : all.flatMap((one, at) => permutations([...all.slice(0, at), ...all.slice(at + 1)]).map((rest) => [one, ...rest]))

describe('an event of the processor', () => {
  test('that a plan is paid for changes the plan and the period, with its event, by the processor', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = await pay(service, stripe, tenant.customer)
    expect((await tenant.get('/billing/usage')).body.data).toMatchObject({
      plan: 'pro',
      periodStart: new Date(subscription.periodStart * 1000).toISOString(),
      periodEnd: new Date(subscription.periodEnd * 1000).toISOString(),
    })
    expect((await tenant.get('/tenant')).body.data.plan).toBe('pro')
    expect(await changes(tenant)).toEqual([{ from: 'free', to: 'pro' }])
    const [row] = await service.sql<{ context: object }>(
      "select context from events where tenant_id = $1 and type = 'billing.plan_changed'",
      [tenant.tenantId],
    )
    expect(row?.context).toEqual({ actor: 'processor' })
  })

  test('of the finished checkout does so too', async () => {
    const tenant = await newCustomer(service, stripe)
    stripe.subscribe(tenant.customer, { price: PRICES.scale })
    const session = { id: 'cs_1', object: 'checkout.session', customer: tenant.customer }
    expect((await post(service, stripe, stripe.event('checkout.session.completed', session))).status).toBe(200)
    expect(await planOf(tenant)).toBe('scale')
  })

  test.each([
    ['active', 'pro'],
    ['trialing', 'pro'],
    ['past_due', 'pro'],
    ['unpaid', 'free'],
    ['incomplete', 'free'],
    ['incomplete_expired', 'free'],
    ['canceled', 'free'],
    ['paused', 'free'],
    ['a word of tomorrow', 'free'],
  ])('of a subscription that is %s leaves the plan %s', async (status, plan) => {
    const tenant = await newCustomer(service, stripe)
    const subscription = await pay(service, stripe, tenant.customer)
    subscription.status = status
    expect((await post(service, stripe, stripe.subscriptionEvent('updated', subscription))).status).toBe(200)
    expect(await planOf(tenant)).toBe(plan)
    const back = plan === 'free' ? [{ from: 'pro', to: 'free' }] : []
    expect(await changes(tenant)).toEqual([{ from: 'free', to: 'pro' }, ...back])
    // Who pays no more can buy again.
    expect((await tenant.post('/billing/checkout', checkoutBody())).status).toBe(plan === 'free' ? 201 : 409)
  })

  test('about a price that is no plan of ours changes nothing', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer, { price: 'price_of_a_mug' })
    expect((await post(service, stripe, stripe.subscriptionEvent('created', subscription))).status).toBe(200)
    expect([await planOf(tenant), await changes(tenant)]).toEqual(['free', []])
    // Beside it a plan can be bought, whichever event comes last.
    await pay(service, stripe, tenant.customer)
    await post(service, stripe, stripe.subscriptionEvent('updated', subscription))
    expect(await planOf(tenant)).toBe('pro')
  })

  test('of the tenant of a metadata that lies reaches the tenant whose customer it is', async () => {
    const [payer, victim] = [await newCustomer(service, stripe), await newCustomer(service, stripe)]
    const subscription = stripe.subscribe(payer.customer)
    const object = {
      ...JSON.parse(stripe.subscriptionEvent('created', subscription).body).data.object,
      metadata: { tenantId: victim.tenantId },
      client_reference_id: victim.tenantId,
    }
    expect((await post(service, stripe, stripe.event('customer.subscription.created', object))).status).toBe(200)
    expect([await planOf(payer), await planOf(victim)]).toEqual(['pro', 'free'])
  })

  test('of unknown customers, types and shapes is taken and ignored', async () => {
    const tenant = await newCustomer(service, stripe)
    const { customer } = tenant
    const before = stripe.requests.length
    for (const event of [
      stripe.event('customer.subscription.created', { id: 'sub_1', customer: 'cus_of_another_service' }),
      stripe.event('customer.subscription.created', { id: 'sub_1', customer: tenant.tenantId }),
      stripe.event('customer.subscription.created', { id: 'sub_1' }),
      stripe.event('customer.subscription.created', { customer: { id: 1 } }),
      stripe.event('customer.subscription.created', { customer: ['x'] }),
      stripe.event('customer.subscription.created', { customer: 'x'.repeat(1_000) }),
      stripe.event('invoice.paid', { customer }),
      stripe.event('subscription.created', { customer }),
      stripe.event('customer.subscription', { customer }),
      stripe.event('', { customer }),
      { id: 'x', body: '{}' },
      { id: 'x', body: '[]' },
      { id: 'x', body: '"text"' },
      { id: 'x', body: '1' },
      { id: 'x', body: JSON.stringify({ id: 'evt_1', type: 'customer.subscription.created', data: null }) },
      {
        id: 'x',
        body: JSON.stringify({ id: {}, type: 'customer.subscription.created', data: { object: { customer } } }),
      },
      {
        id: 'x',
        body: JSON.stringify({ id: 'evt_1', type: ['customer.subscription.'], data: { object: { customer } } }),
      },
    ]) {
      const answer = await post(service, stripe, event)
      expect([answer.status, answer.text], event.body).toEqual([200, '{"received":true}'])
    }
    expect(stripe.requests.slice(before)).toEqual([])
    expect([await planOf(tenant), await changes(tenant)]).toEqual(['free', []])
  })

  test('whose metadata is meant to change all objects changes none', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer)
    const event = stripe.subscriptionEvent('created', subscription)
    const evil =
      '"metadata":{"__proto__":{"plan":"scale","polluted":1},"constructor":{"prototype":{"polluted":1}}},"__proto__":{"plan":"scale","polluted":1},'
    const body = event.body.replaceAll('{\n', `{${evil}\n`)
    expect(JSON.parse(body).data.object.customer).toBe(tenant.customer)
    expect((await post(service, stripe, { ...event, body })).status).toBe(200)
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    expect(await planOf(tenant)).toBe('pro')
  })

  test('that cannot be looked into, for the processor is away, is a 500, and has its effect when it comes again', async () => {
    const tenant = await newCustomer(service, stripe)
    const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
    stripe.fault((_, response) => {
      response.destroy()
      return true
    })
    try {
      expectError(await post(service, stripe, event), 500, 'processor_unavailable', 'away')
    } finally {
      stripe.fault(null)
    }
    expect([await planOf(tenant), await taken(event.id)]).toEqual(['free', 0])
    expect((await post(service, stripe, event)).status).toBe(200)
    expect([await planOf(tenant), await taken(event.id)]).toEqual(['pro', 1])
  })

  test('is remembered for longer than it can be offered, and then forgotten', async () => {
    const tenant = await newCustomer(service, stripe)
    const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
    await post(service, stripe, event)
    const inDays = (days: number) => new Date(service.deps.now().getTime() + days * 86_400_000)
    await deleteOldEvents(service.deps.db, inDays(29))
    expect(await taken(event.id)).toBe(1)
    await deleteOldEvents(service.deps.db, inDays(31))
    expect(await taken(event.id)).toBe(0)
  })
})

describe('a forgery', () => {
  const forgeries: [what: string, signature: (body: string, now: Date) => string | null][] = [
    ['no signature', () => null],
    ['an empty one', () => ''],
    ['nonsense', () => 'x'],
    ['a time alone', (_, now) => `t=${Math.floor(now.getTime() / 1000)}`],
    ['no time', (body, at) => stripe.sign(body, { at }).replace(/^t=\d+,/, '')],
    ['a time that is none', (body, at) => stripe.sign(body, { at }).replace(/^t=\d+/, 't=x')],
    ["another's secret", (body, at) => stripe.sign(body, { at, secret: 'whsec_other' })],
    ['an empty secret', (body, at) => stripe.sign(body, { at, secret: '' })],
    ['the API key for a secret', (body, at) => stripe.sign(body, { at, secret: 'sk_test_halfkey' })],
    ['an older scheme', (body, at) => stripe.sign(body, { at, scheme: 'v0' })],
    ['another body', (body, at) => stripe.sign(`${body} `, { at })],
    ['an older time', (body, at) => stripe.sign(body, { at: new Date(at.getTime() - 302_000) })],
    [
      'a fresh time beside an older signature',
      (body, at) =>
        stripe
          .sign(body, { at: new Date(at.getTime() - 302_000) })
          .replace(/^t=\d+/, `t=${Math.floor(at.getTime() / 1000)}`),
    ],
    ['an upper-case signature', (body, at) => stripe.sign(body, { at }).toUpperCase()],
    ['a cut signature', (body, at) => stripe.sign(body, { at }).slice(0, -1)],
  ]
  test.each(forgeries)(
    'with %s is a 400 in the envelope, without effect, and the processor is not asked',
    async (what, signature) => {
      const tenant = await newCustomer(service, stripe)
      const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
      const before = stripe.requests.length
      const answer = await postRaw(service, event.body, signature(event.body, service.deps.now()))
      expectError(answer, 400, 'processor_signature_invalid', what)
      expect(stripe.requests.slice(before)).toEqual([])
      expect([await planOf(tenant), await taken(event.id)]).toEqual(['free', 0])
    },
  )

  test('is what no API key makes genuine, nor a body that is none', async () => {
    const tenant = await newCustomer(service, stripe)
    const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
    const headers = { 'x-api-key': tenant.key, authorization: `Bearer ${tenant.key}` }
    const answer = await call(service.url, 'POST', '/processor-events/stripe', { raw: event.body, headers })
    expectError(answer, 400, 'processor_signature_invalid', 'key')
    for (const body of ['', '{', '{"id":', 'null']) {
      const signature = stripe.sign(body, { at: service.deps.now() })
      const odd = await postRaw(service, body, signature)
      expect([200, 400], body).toContain(odd.status)
    }
    expect(await planOf(tenant)).toBe('free')
  })

  test('over 1 MiB is a 400 without being looked at; another method is a 404', async () => {
    const body = `{"x":"${'x'.repeat(1024 * 1024)}"}`
    expectError(
      await postRaw(service, body, stripe.sign(body, { at: service.deps.now() })),
      400,
      'payload_too_large',
      'large',
    )
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH'])
      expectError(await call(service.url, method, '/processor-events/stripe'), 404, 'not_found', method)
  })

  test('none is what has a signature beside others, any media type, and is 290 seconds old', async () => {
    const tenant = await newCustomer(service, stripe)
    const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
    const at = new Date(service.deps.now().getTime() - 290_000)
    const signature = `${stripe.sign(event.body, { at, secret: 'whsec_old' })},${stripe.sign(event.body, { at }).split(',')[1]}`
    const answer = await call(service.url, 'POST', '/processor-events/stripe', {
      raw: event.body,
      headers: { 'content-type': 'text/plain', 'stripe-signature': signature },
    })
    expect([answer.status, await planOf(tenant)]).toEqual([200, 'pro'])
  })
})

describe('whatever the order', () => {
  test('created, updated and deleted end in the state that the processor is in, however they come', async () => {
    for (const order of permutations(['created', 'updated', 'deleted'])) {
      const tenant = await newCustomer(service, stripe)
      const subscription = stripe.subscribe(tenant.customer)
      const events = { created: stripe.subscriptionEvent('created', subscription) } as Record<
        string,
        { id: string; body: string }
      >
      subscription.price = PRICES.scale
      events.updated = stripe.subscriptionEvent('updated', subscription)
      subscription.status = 'canceled'
      events.deleted = stripe.subscriptionEvent('deleted', subscription)
      for (const name of order) expect((await post(service, stripe, events[name] as never)).status).toBe(200)
      expect([order.join(), await planOf(tenant), await changes(tenant)]).toEqual([order.join(), 'free', []])
    }
  })

  test('so do they when each comes at any time after its change', async () => {
    const steps = ['active pro', 'active scale', 'canceled scale'] as const
    for (const order of permutations([0, 1, 2]))
      for (const delay of [1, 2]) {
        const tenant = await newCustomer(service, stripe)
        const subscription = stripe.subscribe(tenant.customer)
        const sent: { id: string; body: string }[] = []
        const told: string[] = []
        for (const [at, step] of steps.entries()) {
          const [status, plan] = step.split(' ') as [string, 'pro' | 'scale']
          Object.assign(subscription, { status, price: PRICES[plan] })
          sent.push(stripe.subscriptionEvent('updated', subscription))
          told.push(status === 'canceled' ? 'free' : plan)
          const due = at < delay ? [] : order.filter((one) => one <= at)
          for (const one of due) {
            await post(service, stripe, sent[one] as never)
            // An event that was taken before says nothing new; one that was not shows what is now.
            if (one === at) expect(await planOf(tenant)).toBe(told[at])
          }
        }
        for (const one of order) await post(service, stripe, sent[one] as never)
        expect(await planOf(tenant)).toBe('free')
      }
  })

  test('the end of an old subscription, told late, does not end the new one', async () => {
    const tenant = await newCustomer(service, stripe)
    const old = await pay(service, stripe, tenant.customer)
    old.status = 'canceled'
    const ended = stripe.subscriptionEvent('deleted', old)
    const next = stripe.subscribe(tenant.customer, { price: PRICES.scale })
    await post(service, stripe, stripe.subscriptionEvent('created', next))
    await post(service, stripe, ended)
    expect(await planOf(tenant)).toBe('scale')
    expect(await changes(tenant)).toEqual([
      { from: 'free', to: 'pro' },
      { from: 'pro', to: 'scale' },
    ])
  })

  test('who pays for two plans has the larger one, until it ends', async () => {
    const tenant = await newCustomer(service, stripe)
    const scale = await pay(service, stripe, tenant.customer, 'scale')
    await pay(service, stripe, tenant.customer, 'pro')
    expect(await planOf(tenant)).toBe('scale')
    scale.status = 'canceled'
    await post(service, stripe, stripe.subscriptionEvent('deleted', scale))
    expect(await planOf(tenant)).toBe('pro')
  })

  test('an event that comes again, months later too, has no second effect', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer)
    const created = stripe.subscriptionEvent('created', subscription)
    await post(service, stripe, created)
    const before = stripe.requests.length
    expect((await post(service, stripe, created)).status).toBe(200)
    expect(stripe.requests.slice(before)).toEqual([])
    expect(await changes(tenant)).toHaveLength(1)
    expectError(
      await postRaw(
        service,
        created.body,
        stripe.sign(created.body, { at: new Date(service.deps.now().getTime() - 600_000) }),
      ),
      400,
      'processor_signature_invalid',
      'replayed',
    )
  })
})

describe('at the same time', () => {
  test('twenty deliveries of one event have one effect', async () => {
    const tenant = await newCustomer(service, stripe)
    const event = stripe.subscriptionEvent('created', stripe.subscribe(tenant.customer))
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(service, stripe, event)))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect([await planOf(tenant), await taken(event.id), await changes(tenant)]).toEqual([
      'pro',
      1,
      [{ from: 'free', to: 'pro' }],
    ])
  })

  test('twenty events of one customer all succeed, asking twice each at most, and end in the present state', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer)
    const events = Array.from({ length: 20 }, () => stripe.subscriptionEvent('updated', subscription))
    subscription.price = PRICES.scale
    const before = stripe.requests.length
    const answers = await Promise.all(events.map((event) => post(service, stripe, event)))
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect(stripe.requests.length - before).toBeLessThanOrEqual(40)
    expect([await planOf(tenant), await changes(tenant)]).toEqual(['scale', [{ from: 'free', to: 'scale' }]])
    for (const event of events) expect(await taken(event.id)).toBe(1)
  })

  test('a state that was asked for earlier is not written over a later one', async () => {
    const tenant = await newCustomer(service, stripe)
    const subscription = stripe.subscribe(tenant.customer)
    const created = stripe.subscriptionEvent('created', subscription)
    let release = () => {}
    let asked = () => {}
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    let first = true
    atStateAsked = async () => {
      if (!first) return
      first = false
      asked()
      await new Promise<void>((resolve) => {
        release = resolve
      })
    }
    try {
      // It has seen an active subscription, and is slow.
      const slow = post(service, stripe, created)
      await isAsked
      subscription.status = 'canceled'
      expect((await post(service, stripe, stripe.subscriptionEvent('deleted', subscription))).status).toBe(200)
      release()
      expect((await slow).status).toBe(200)
    } finally {
      atStateAsked = async () => {}
    }
    expect([await planOf(tenant), await changes(tenant), await taken(created.id)]).toEqual(['free', [], 1])
  })
})

test('without a processor its events are a 400 that says why', async () => {
  const bare = await startService()
  try {
    const event = stripe.event('customer.subscription.created', { customer: 'cus_1' })
    expectError(await postRaw(bare, event.body, stripe.sign(event.body)), 400, 'billing_not_configured', 'bare')
  } finally {
    await bare.stop()
  }
})

test('all that was asked of the processor had the form that it demands', () => {
  expect(stripe.violations).toEqual([])
})
