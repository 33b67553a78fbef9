import type { Delivery, WebhookEvent } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Loaded } from '../../components/layout/loaded.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { LIVE } from '../../query-client.ts'
import { attemptsOf, LastAnswer } from '../webhooks/deliveries/last-answer.tsx'
import { shortUrl } from '../webhooks/webhook-name.ts'

const SHOWN_MAX = 100
const URLS_STALE_MS = 30_000

/** The URLs of the webhooks, by id; empty until they are loaded. */
function useUrls(): Map<string, string> {
  const { data } = useQuery({
    queryKey: ['webhooks', 'urls'],
    queryFn: async ({ signal }) => {
      const { data: webhooks } = await api.webhooks.list({ pageSize: SHOWN_MAX }, { signal })
      return new Map(webhooks.map(({ id, url }) => [id, url]))
    },
    staleTime: URLS_STALE_MS,
  })
  return data ?? new Map()
}

function attemptsInWords(delivery: Delivery): string {
  const attempts = attemptsOf(delivery)
  return attempts === 1 ? '1 attempt' : `${attempts} attempts`
}

function Row({ delivery, url }: { delivery: Delivery; url: string | undefined }) {
  return (
    <li className="flex min-h-11 min-w-0 flex-wrap items-center gap-x-4 gap-y-1 py-2 text-sm">
      <Link
        to="/webhooks/$webhookId/deliveries/$deliveryId"
        params={{ webhookId: delivery.webhookId, deliveryId: delivery.id } as never}
        title={url ?? delivery.webhookId}
        className="min-w-0 truncate font-medium text-accent hover:underline max-md:basis-full md:flex-1"
      >
        {url === undefined ? delivery.webhookId : shortUrl(url)}
      </Link>
      <StatusBadge status={delivery.status} />
      <span className="text-soft tabular-nums">{attemptsInWords(delivery)}</span>
      <span className="min-w-0">
        <LastAnswer delivery={delivery} />
      </span>
      {delivery.nextAttemptAt === null ? null : (
        <span className="text-soft">
          Next attempt <RelativeTime at={delivery.nextAttemptAt} />
        </span>
      )}
    </li>
  )
}

/** Where an event was sent: its deliveries, each with its status and last response. */
export function EventDeliveries({ event }: { event: WebhookEvent }) {
  const urls = useUrls()
  const query = useQuery({
    queryKey: ['events', event.id, 'deliveries'],
    queryFn: async ({ signal }) => await api.events.deliveries(event.id, { pageSize: SHOWN_MAX }, { signal }),
    ...LIVE,
  })
  return (
    <Loaded query={query}>
      {({ data, total }) =>
        total === 0 ? (
          <p className="text-sm text-soft">No webhook was subscribed to this type when it happened.</p>
        ) : (
          <>
            <ul aria-label="Deliveries" className="divide-y">
              {data.map((delivery) => (
                <Row key={delivery.id} delivery={delivery} url={urls.get(delivery.webhookId)} />
              ))}
            </ul>
            {total > data.length ? (
              <p className="text-sm text-soft tabular-nums">
                The newest {data.length} of {total} deliveries.
              </p>
            ) : null}
          </>
        )
      }
    </Loaded>
  )
}
