import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../../../test/harness/envelope.ts'
import { type Service, startService, type Tenant } from '../../../test/harness/harness.ts'
import { type StripeFake, startStripeFake } from '../../../test/harness/stripe-fake.ts'
import { webUrlProblem } from '../../platform/security/web-origin.ts'
import { checkoutBody, newCustomer, newShop, pay, SHOP } from './billing.fixture.ts'

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

const checkouts = (tenant: Tenant) =>
  stripe.requests.filter(
    ({ path, fields }) => path === '/v1/checkout/sessions' && fields.client_reference_id === tenant.tenantId,
  )

describe('a checkout', () => {
  test('is a page of the processor for this tenant, plan and these URLs, asked for in the form that it demands', async () => {
    const tenant = await newShop(service)
    const before = stripe.violations.length
    const answer = await tenant.post('/billing/checkout', checkoutBody('scale'))
    expect(answer.status, answer.text).toBe(201)
    const { id } = answer.body.data
    expect(answer.body.data).toEqual({
      id: expect.stringMatching(/^cs_test_/),
      url: `${stripe.url}/pay/${id}`,
      plan: 'scale',
      expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/),
    })
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(stripe.violations.slice(before)).toEqual([])
    const [asked] = checkouts(tenant)
    expect(asked?.fields).toMatchObject({
      mode: 'subscription',
      'line_items[0][price]': 'price_scale',
      success_url: `${SHOP}/billing?paid={CHECKOUT_SESSION_ID}`,
      cancel_url: `${SHOP}/billing`,
      'metadata[tenantId]': tenant.tenantId,
      'subscription_data[metadata][tenantId]': tenant.tenantId,
    })
    // Nothing about the machine goes with it.
    const about = JSON.parse(decodeURIComponent(asked?.headers['x-stripe-client-user-agent'] as string))
    expect(about).not.toHaveProperty('platform')
    expect(about).not.toHaveProperty('telemetry_id')
  })

  test('changes no plan by itself', async () => {
    const tenant = await newCustomer(service, stripe)
    expect((await tenant.get('/billing/usage')).body.data.plan).toBe('free')
    expect((await tenant.get('/tenant')).body.data.plan).toBe('self_hosted')
  })

  test.each(['gold', 'free', 'self_hosted', '', 'PRO', 'constructor'])(
    'of %j is a 400 that says what there is',
    async (plan) => {
      const tenant = await newShop(service)
      const answer = await tenant.post('/billing/checkout', checkoutBody(plan))
      expectError(answer, 400, 'validation_failed', plan)
      expect(answer.body.details).toEqual([
        {
          field: 'plan',
          code: 'not_purchasable',
          message: 'Must be one of pro, scale.',
          plans: ['pro', 'scale'],
          docs: expect.any(String),
        },
      ])
      expect(checkouts(tenant)).toEqual([])
    },
  )

  test('of a tenant that pays already is a 409, for it would pay twice', async () => {
    const tenant = await newCustomer(service, stripe)
    await pay(service, stripe, tenant.customer)
    const before = checkouts(tenant).length
    expectError(await tenant.post('/billing/checkout', checkoutBody('scale')), 409, 'subscription_active', 'again')
    expect(checkouts(tenant)).toHaveLength(before)
  })

  test('twenty at once make one customer, and of no other tenant', async () => {
    const customers = []
    for (let round = 0; round < 12; round += 1) {
      const tenant = await newShop(service)
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => tenant.post('/billing/checkout', checkoutBody())),
      )
      expect(answers.map(({ status, text }) => (status === 201 ? 201 : text))).toEqual(Array(20).fill(201))
      expect(new Set(answers.map(({ body }) => body.data.id)).size).toBe(20)
      expect(stripe.customers.filter((one) => one.metadata.tenantId === tenant.tenantId)).toHaveLength(1)
      const [customer, ...others] = new Set(checkouts(tenant).map(({ fields }) => fields.customer))
      expect(others).toEqual([])
      customers.push(customer)
    }
    expect(new Set(customers).size).toBe(customers.length)
  })

  test('twenty at once under one Idempotency-Key are one page', async () => {
    const tenant = await newShop(service)
    const before = stripe.violations.length
    const headers = { 'idempotency-key': 'buy-1' }
    const ask = () => tenant.post('/billing/checkout', checkoutBody(), { headers })
    const answers = await Promise.all(Array.from({ length: 20 }, ask))
    const made = answers.filter(({ status }) => status === 201)
    expect(made.length).toBeGreaterThan(0)
    for (const answer of answers)
      if (answer.status !== 201) expectError(answer, 409, 'idempotency_in_progress', 'meanwhile')
    const again = await ask()
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([201, 'true'])
    expect(new Set([...made, again].map(({ text }) => text)).size).toBe(1)
    expect(new Set(checkouts(tenant).map(({ headers: of }) => of['idempotency-key'])).size).toBe(1)
    // None was asked for while another was being made, which the processor would refuse.
    expect(stripe.violations.slice(before)).toEqual([])
  })

  test('that was begun by a process that died is finished under its key, with one customer and one page', async () => {
    for (const step of ['customer made', 'page made']) {
      let dies = true
      const failpoint = async (at: string) => {
        if (at === step && dies) throw new Error('killed')
      }
      const own = await startService({ ...stripe.settings }, { failpoint })
      try {
        const tenant = await newShop(own)
        const headers = { 'idempotency-key': 'buy-1' }
        const ask = () => tenant.post('/billing/checkout', checkoutBody(), { headers })
        expect((await ask()).status).toBe(500)
        dies = false
        expect((await ask()).status).toBe(201)
        expect(stripe.customers.filter((one) => one.metadata.tenantId === tenant.tenantId)).toHaveLength(1)
        expect(new Set(checkouts(tenant).map(({ headers: of }) => of['idempotency-key'])).size).toBe(1)
      } finally {
        await own.stop()
      }
    }
  })
})

describe('a return URL', () => {
  const fields = [
    ['/billing/checkout', 'successUrl'],
    ['/billing/checkout', 'cancelUrl'],
    ['/billing/portal', 'returnUrl'],
  ] as const
  const ask = (tenant: Tenant, path: string, field: string, url: unknown) =>
    tenant.post(path, path.endsWith('portal') ? { returnUrl: url } : { ...checkoutBody(), [field]: url })

  const foreign = [
    'https://evil.example.com/',
    'https://shop.example.com.evil.example/',
    'https://shop.example.com:8443/billing',
    'https://sub.shop.example.com/',
    'https://evil.example.com/https://shop.example.com/',
    'https://evil.example.com\\@shop.example.com/',
    'https://shop.example.com@evil.example.com/',
    'https://user:pass@shop.example.com/',
    'https://evil.example.com#@shop.example.com',
    'http://shop.example.com/billing',
    'http://evil.localhost.example/',
    // The app names its origins, so that not every page on this machine is one.
    'http://localhost:3000/billing',
    'javascript:alert(1)',
    'JaVaScRiPt://shop.example.com/%0aalert(1)',
    'java\tscript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    'blob:https://shop.example.com/1',
    'file:///etc/passwd',
    'com.example.shop:/paid',
    '//shop.example.com/billing',
    '/billing',
    'https://',
    'https://[::1',
    '',
    ' ',
    `https://shop.example.com/${'x'.repeat(2_000)}`,
  ]
  test.each(fields)(
    '%s %s that is foreign, or none, is a 400 that names it, and the processor is not asked',
    async (path, field) => {
      const tenant = await newCustomer(service, stripe)
      const before = stripe.requests.length
      for (const url of foreign) {
        const answer = await ask(tenant, path, field, url)
        expectError(answer, 400, 'validation_failed', url)
        expect(answer.body.details[0].field, url).toBe(field)
      }
      for (const url of [null, 1, [SHOP], { href: SHOP }])
        expectError(await ask(tenant, path, field, url), 400, 'validation_failed', JSON.stringify(url))
      expect(stripe.requests.slice(before).filter(({ path: of }) => of !== '/v1/subscriptions')).toEqual([])
    },
  )

  test("may be on an allowed origin, an allowed redirect URL's, the service's own, and a verified domain", async () => {
    const tenant = await newCustomer(service, stripe)
    await tenant.post('/apps', {
      name: 'Second',
      allowedRedirectUrls: ['https://pay.example.com/done', 'com.example.shop:/in'],
    })
    const now = service.deps.now()
    for (const [domain, status] of [
      ['login.example.com', 'verified'],
      ['soon.example.com', 'pending'],
      ['lost.example.com', 'failed'],
    ])
      await service.sql(
        `insert into custom_domains (tenant_id, id, app_id, domain, status, token, created_at, updated_at)
         values ($1, $2, $3, $4, $5, 't', $6, $6)`,
        [tenant.tenantId, `dom_${domain}`, tenant.appId, `${tenant.tenantId.slice(-6)}.${domain}`, status, now],
      )
    const domain = (name: string) => `https://${tenant.tenantId.slice(-6)}.${name}`
    const own = [
      SHOP,
      `${SHOP}/a?b=c#d`,
      'HTTPS://SHOP.example.com:443/',
      'https://pay.example.com/other',
      `http://localhost:${service.deps.config.port}/dashboard`,
      `${domain('login.example.com')}/x`,
    ]
    for (const [path, field] of fields)
      for (const url of own) {
        const answer = await ask(tenant, path, field, url)
        expect(answer.status, `${url}: ${answer.text}`).toBe(201)
      }
    for (const url of [domain('soon.example.com'), domain('lost.example.com'), `${domain('login.example.com')}:8443`])
      expectError(await ask(tenant, '/billing/portal', 'returnUrl', url), 400, 'validation_failed', url)
  })

  test("of another tenant's apps and domains is foreign", async () => {
    const [mine, other] = [await newCustomer(service, stripe), await newCustomer(service, stripe)]
    await other.patch(`/apps/${other.appId}`, { allowedOrigins: ['https://other.example.com'] })
    const answer = await mine.post('/billing/portal', { returnUrl: 'https://other.example.com/' })
    expectError(answer, 400, 'validation_failed', 'of another')
  })

  test('is sent to the processor as browsers spell it, so that nobody reads it otherwise', async () => {
    const tenant = await newCustomer(service, stripe)
    await tenant.post('/billing/portal', { returnUrl: 'https://shop.example.com\\billing\t/..\n/x y' })
    expect(stripe.requests.at(-1)?.fields.return_url).toBe('https://shop.example.com/x%20y')
  })

  test('in development an app that names no origin takes any on loopback; production takes no http at all', async () => {
    const tenant = await service.newTenant()
    const local = { plan: 'pro', successUrl: 'http://127.0.0.1:5173/ok', cancelUrl: 'http://[::1]:5173/' }
    expect((await tenant.post('/billing/checkout', local)).status).toBe(201)
    expect(webUrlProblem(new URL('http://localhost/'), false)).toBe(
      'Must start with https://. http: on loopback is allowed in development only.',
    )
  })
})

describe('the portal', () => {
  test("is a page of the tenant's own customer", async () => {
    const [tenant, other] = [await newCustomer(service, stripe), await newCustomer(service, stripe)]
    const answer = await tenant.post('/billing/portal', { returnUrl: SHOP })
    expect(answer.status, answer.text).toBe(201)
    expect(answer.body.data).toEqual({ url: expect.stringMatching(new RegExp(`^${stripe.url}/portal/bps_`)) })
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(stripe.requests.at(-1)?.fields).toEqual({ customer: tenant.customer, return_url: `${SHOP}/` })
    expect(tenant.customer).not.toBe(other.customer)
  })

  test('before the first checkout is a 400 that says what to do', async () => {
    const tenant = await newShop(service)
    const answer = await tenant.post('/billing/portal', { returnUrl: SHOP })
    expectError(answer, 400, 'billing_customer_missing', 'too early')
    expect(answer.body.error).toContain('POST /billing/checkout')
  })

  test('no call can name a customer, a tenant or a price', async () => {
    const [mine, other] = [await newCustomer(service, stripe), await newCustomer(service, stripe)]
    for (const more of [{ customer: other.customer }, { customerId: other.customer }, { tenantId: other.tenantId }]) {
      expectError(await mine.post('/billing/portal', { returnUrl: SHOP, ...more }), 400, 'validation_failed', 'portal')
      expectError(
        await mine.post('/billing/checkout', { ...checkoutBody(), ...more }),
        400,
        'validation_failed',
        'checkout',
      )
    }
    for (const more of [{ price: 'price_x' }, { quantity: 0 }, { metadata: { tenantId: other.tenantId } }])
      expectError(
        await mine.post('/billing/checkout', { ...checkoutBody(), ...more }),
        400,
        'validation_failed',
        'price',
      )
    expectError(await mine.patch('/tenant', { plan: 'scale' }), 400, 'validation_failed', 'plan')
  })

  test('under one Idempotency-Key is asked for once, and the kept answer is sealed', async () => {
    const tenant = await newCustomer(service, stripe)
    const headers = { 'idempotency-key': 'portal-1' }
    const before = stripe.made('/v1/billing_portal/sessions')
    const [one, two] = [
      await tenant.post('/billing/portal', { returnUrl: SHOP }, { headers }),
      await tenant.post('/billing/portal', { returnUrl: SHOP }, { headers }),
    ]
    expect([one.status, two.status, two.text]).toEqual([201, 201, one.text])
    expect(stripe.made('/v1/billing_portal/sessions')).toBe(before + 1)
    const kept = await service.sql<{ answer: Buffer }>(
      'select answer from idempotency_keys where tenant_id = $1 and answer is not null',
      [tenant.tenantId],
    )
    expect(kept).toHaveLength(1)
    expect(kept[0]?.answer.toString('latin1')).not.toContain('/portal/')
  })
})

describe('a processor', () => {
  const failing = [
    ['is down', (_: unknown, response: { destroy(): void }) => void response.destroy(), true],
    ['answers 500', 500, true],
    ['answers 429', 429, true],
    ['refuses the key', 401, false],
    ['forbids it', 403, false],
    ['refuses the request', 400, false],
  ] as const
  test.each(failing)('that %s is a 500 with advice, which leaves nothing half-done', async (_, how, retryable) => {
    const tenant = await newCustomer(service, stripe)
    const fresh = await newShop(service)
    stripe.fault((request, response) => {
      if (typeof how === 'function') how(request, response)
      else {
        response.writeHead(how, { 'content-type': 'application/json', 'stripe-should-retry': 'false' })
        response.end('{"error":{"type":"api_error","message":"sk_test_halfkey secret detail"}}')
      }
      return true
    })
    const headers = { 'idempotency-key': 'down' }
    try {
      for (const answer of [
        await tenant.post('/billing/portal', { returnUrl: SHOP }, { headers }),
        await tenant.post('/billing/checkout', checkoutBody(), { headers }),
        await fresh.post('/billing/checkout', checkoutBody(), { headers }),
      ]) {
        expectError(answer, 500, 'processor_unavailable', 'down')
        expect(answer.body.details[0].retryable).toBe(retryable)
        expect(answer.headers.get('retry-after')).toBe(retryable ? '5' : null)
        expect(answer.text).not.toContain('secret detail')
      }
      expect(await service.sql('select 1 from subscriptions where tenant_id = $1', [fresh.tenantId])).toEqual([])
    } finally {
      stripe.fault(null)
    }
    for (const answer of [
      await tenant.post('/billing/portal', { returnUrl: SHOP }, { headers }),
      await fresh.post('/billing/checkout', checkoutBody(), { headers }),
    ])
      expect(answer.status, answer.text).toBe(201)
    expect(service.logs().includes('sk_test_halfkey')).toBe(false)
  })

  test('that none is configured is a 400 for checkout and portal; usage works, and nothing is limited', async () => {
    const bare = await startService()
    try {
      const tenant = await bare.newTenant()
      const local = 'http://localhost:3000/'
      const checkout = await tenant.post('/billing/checkout', { plan: 'pro', successUrl: local, cancelUrl: local })
      expectError(checkout, 400, 'billing_not_configured', 'checkout')
      expectError(await tenant.post('/billing/portal', { returnUrl: local }), 400, 'billing_not_configured', 'portal')
      const { data } = (await tenant.get('/billing/usage')).body
      expect(data).toMatchObject({
        plan: 'self_hosted',
        meters: expect.arrayContaining([{ key: 'users', used: 0, limit: null }]),
      })
      expect(data.meters.every(({ limit }: { limit: unknown }) => limit === null)).toBe(true)
    } finally {
      await bare.stop()
    }
  })

  test('with an empty webhook secret, prices of no plan, or in the clear: the service does not start', async () => {
    const wrong: [Record<string, string>, RegExp][] = [
      [{ HALFKEY_STRIPE_WEBHOOK_SECRET: '' }, /HALFKEY_STRIPE_WEBHOOK_SECRET/],
      [{ HALFKEY_STRIPE_PRICES: 'gold=price_1' }, /gold is not a plan/],
      [{ HALFKEY_STRIPE_PRICES: 'free=price_1' }, /free is not a plan/],
      [{ HALFKEY_STRIPE_PRICES: 'pro=price_1,scale=price_1' }, /two plans/],
      [{ HALFKEY_STRIPE_API: 'http://stripe.example.com' }, /https/],
    ]
    for (const [settings, reason] of wrong)
      await expect(startService({ ...stripe.settings, ...settings })).rejects.toThrow(reason)
  })
})

describe('who may', () => {
  test('checkout and portal take billing:write, usage billing:read, each by a key that is bound to no app', async () => {
    const tenant = await newCustomer(service, stripe)
    const calls = [
      ['POST', '/billing/checkout', checkoutBody(), 'billing:write', 201],
      ['POST', '/billing/portal', { returnUrl: SHOP }, 'billing:write', 201],
      ['GET', '/billing/usage', undefined, 'billing:read', 200],
    ] as const
    for (const [method, path, body, scope, status] of calls) {
      const by = async (key: string) => tenant.call(method, path, { key, ...(body === undefined ? {} : { body }) })
      expect((await by(await tenant.newKey({ scopes: [scope] }))).status, path).toBe(status)
      expectError(await by(await tenant.newKey({ scopes: ['tenant:write'] })), 403, 'insufficient_scope', path)
      expectError(
        await by(await tenant.newKey({ scopes: [scope], appId: tenant.appId })),
        403,
        'insufficient_scope',
        path,
      )
      expectError(await by(await tenant.newKey({ publishable: true })), 403, 'key_type_not_allowed', path)
      expectError(await tenant.call(method, path, { key: null }), 401, 'api_key_missing', path)
    }
    const reader = await tenant.newKey({ scopes: ['billing:read'] })
    expectError(
      await tenant.post('/billing/portal', { returnUrl: SHOP }, { key: reader }),
      403,
      'insufficient_scope',
      'reads',
    )
  })
})
