import { eventually, type Service, type Tenant } from '../../../test/harness/harness.ts'
import type { Analytics, Counts } from './schema.ts'

/** The counts of a day on which nothing was. */
export const zeros: Counts = {
  newUsers: 0,
  activeUsers: 0,
  signIns: { passkey: 0, messenger: 0, email: 0, exchange: 0, provider: 0, wallet: 0 },
  guests: 0,
  guestsConverted: 0,
  walletsCreated: 0,
  transactionsCompleted: 0,
  transactionsFailed: 0,
  deliveriesSucceeded: 0,
  deliveriesFailed: 0,
  apiRequests: 0,
}

/** Waits until the totals of 30 days are as far as a test needs them. */
export function analyticsWhen(
  tenant: Pick<Tenant, 'get'>,
  query: string,
  isThere: (totals: Counts) => boolean,
): Promise<Analytics> {
  let last = ''
  return eventually('the counters follow', async () => {
    const answer = await tenant.get(`/analytics?${query}`)
    if (answer.status !== 200) throw new Error(answer.text)
    last = answer.text
    return isThere(answer.body.data.totals) && (answer.body.data as Analytics)
  }).catch((error: Error) => {
    throw new Error(`${error.message}; last: ${last.slice(0, 600)}`)
  })
}

/** Waits until nothing of the tenant's is on its way into the feed, or waits there to be counted. */
export const allFolded = ({ sql }: Pick<Service, 'sql'>, { tenantId }: Pick<Tenant, 'tenantId'>): Promise<true> =>
  eventually('all is folded', async () => {
    const [row] = await sql<{ folded: boolean }>(
      `select not exists (select from outbox where tenant_id = $1)
         and coalesce((select seq from feed_heads where tenant_id = $1), 0)
           = coalesce((select seq from feed_cursors where tenant_id = $1 and follower = 'analytics'), 0) as folded`,
      [tenantId],
    )
    return row?.folded === true || null
  })

/** What a tenant's events come to, counted by SQL of the test's own, and active users once for all days. */
export async function recounted(service: Pick<Service, 'sql'>, { tenantId }: Pick<Tenant, 'tenantId'>) {
  const [row] = await service.sql<Record<string, number>>(
    `with e as (select type, body::json -> 'data' as data, context ->> 'actor' as actor from events where tenant_id = $1)
     select count(*) filter (where type = 'user.created')::int as "newUsers",
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'passkey')::int as passkey,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'messenger')::int as messenger,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'email')::int as email,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'exchange')::int as exchange,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'provider')::int as provider,
       count(*) filter (where type = 'user.signed_in' and data ->> 'method' = 'wallet')::int as wallet,
       count(*) filter (where type = 'guest.created')::int as guests,
       count(*) filter (where type = 'guest.converted')::int as "guestsConverted",
       count(*) filter (where type = 'wallet.created')::int as "walletsCreated",
       count(*) filter (where type = 'tx.completed')::int as "transactionsCompleted",
       count(*) filter (where type = 'tx.failed')::int as "transactionsFailed",
       (select count(distinct u) from e, lateral (values (actor), (case when type in ('user.signed_in', 'tx.completed') then data ->> 'userId' end)) as v(u)
        where u like 'usr\\_%')::int as "activeUsers"
     from e`,
    [tenantId],
  )
  const { passkey = 0, messenger = 0, email = 0, exchange = 0, provider = 0, wallet = 0, ...counts } = row ?? {}
  return { ...counts, signIns: { passkey, messenger, email, exchange, provider, wallet } }
}
