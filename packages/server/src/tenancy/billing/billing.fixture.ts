import { type Answer, call, eventually, type Service, type Tenant } from '../../../test/harness/harness.ts'
import type { FakeEvent, FakeSubscription, StripeFake } from '../../../test/harness/stripe-fake.ts'
import { PRICES } from '../../../test/harness/stripe-fake.ts'

/** The app's page to which browsers come back; allowed by `newShop`. */
export const SHOP = 'https://shop.example.com'

/** What a checkout of a plan is asked with. */
export const checkoutBody = (plan = 'pro') => ({
  plan,
  successUrl: `${SHOP}/billing?paid={CHECKOUT_SESSION_ID}`,
  cancelUrl: `${SHOP}/billing`,
})

/** A tenant with an app at `SHOP`. */
export async function newShop(service: Service): Promise<Tenant> {
  const tenant = await service.newTenant()
  const answer = await tenant.patch(`/apps/${tenant.appId}`, { allowedOrigins: [SHOP] })
  if (answer.status !== 200) throw new Error(answer.text)
  return tenant
}

/** A tenant that has been to the checkout, and who it is at the processor. */
export async function newCustomer(service: Service, stripe: StripeFake): Promise<Tenant & { customer: string }> {
  const tenant = await newShop(service)
  const answer = await tenant.post('/billing/checkout', checkoutBody())
  if (answer.status !== 201) throw new Error(answer.text)
  const customer = stripe.customers.find((one) => one.metadata.tenantId === tenant.tenantId)?.id as string
  return { ...tenant, customer }
}

/** Posts bytes as the processor does. `signature` null sends none. */
export function postRaw(service: Service, body: string | Buffer, signature: string | null): Promise<Answer> {
  return call(service.url, 'POST', '/processor-events/stripe', {
    raw: body,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      ...(signature === null ? {} : { 'stripe-signature': signature }),
    },
  })
}

/** Posts an event with a good signature of the service's time. */
export function post(service: Service, stripe: StripeFake, event: FakeEvent): Promise<Answer> {
  return postRaw(service, event.body, stripe.sign(event.body, { at: service.deps.now() }))
}

/** Pays: a subscription to a plan, and the processor tells of it. */
export async function pay(
  service: Service,
  stripe: StripeFake,
  customer: string,
  plan: keyof typeof PRICES = 'pro',
): Promise<FakeSubscription> {
  const subscription = stripe.subscribe(customer, { price: PRICES[plan] })
  const answer = await post(service, stripe, stripe.subscriptionEvent('created', subscription))
  if (answer.status !== 200) throw new Error(answer.text)
  return subscription
}

/** The data of a tenant's events of a type, oldest first. */
export async function eventsOf(service: Service, tenant: Tenant, type: string): Promise<Record<string, unknown>[]> {
  const rows = await service.sql<{ body: string }>(
    'select body from events where tenant_id = $1 and type = $2 order by created_at, id',
    [tenant.tenantId, type],
  )
  return rows.map(({ body }) => JSON.parse(body).data)
}

/** A tenant's usage: `{plan, users: {used, limit}, …}`. */
export async function usageOf(tenant: Tenant): Promise<Record<string, { used: number; limit: number | null }>> {
  const answer = await tenant.get('/billing/usage')
  if (answer.status !== 200) throw new Error(answer.text)
  return Object.fromEntries(
    (answer.body.data.meters as { key: string; used: number; limit: number | null }[]).map(({ key, used, limit }) => [
      key,
      { used, limit },
    ]),
  )
}

/** Waits until a meter shows a figure. */
export function untilUsed(tenant: Tenant, meter: string, used: number): Promise<unknown> {
  return eventually(`${used} ${meter}`, async () => (await usageOf(tenant))[meter]?.used === used)
}

/** What had been used before the test begins, and when a quota is nearly reached. Moves no user's own count. */
export async function setUsed(service: Service, tenant: Tenant, meter: string, used: number): Promise<void> {
  const { periodStart } = (await tenant.get('/billing/usage')).body.data
  await service.sql(
    `insert into usage_meters (tenant_id, meter, period_start, used) values ($1, $2, $3, $4)
     on conflict (tenant_id, meter, period_start) do update set used = excluded.used`,
    [tenant.tenantId, meter, periodStart, used],
  )
}

/** Users that came by an import: they are counted, and none of them was created by a call. */
export async function addUsers(service: Service, tenant: Tenant, n: number): Promise<void> {
  await service.sql(
    `insert into user_counts (tenant_id, app_id, trust_level, shard, n) values ($1, $2, 'embedded', -7, $3)
     on conflict (tenant_id, app_id, trust_level, shard) do update set n = user_counts.n + excluded.n`,
    [tenant.tenantId, tenant.appId, n],
  )
}
