import type { Delivery } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../components/controls/button.tsx'
import { Select } from '../components/controls/select.tsx'
import { Card } from '../components/layout/card.tsx'
import { Loaded } from '../components/layout/loaded.tsx'
import { EmptyState } from '../components/layout/states.tsx'
import { StatusBadge } from '../components/records/badge.tsx'
import { RelativeTime } from '../components/records/relative-time.tsx'
import { LastAnswer } from '../pages/webhooks/deliveries/last-answer.tsx'
import { LIVE } from '../query-client.ts'
import { webhooks } from './portal-api.ts'
import type { View } from './portal-page.tsx'

const STATUSES = ['all', 'pending', 'retrying', 'succeeded', 'dead_letter', 'failed'] as const
type Status = (typeof STATUSES)[number]
const OPTIONS = STATUSES.map((value) => ({
  value,
  label: value === 'all' ? 'All deliveries' : value.replaceAll('_', ' '),
}))

function Row({ delivery, onOpen }: { delivery: Delivery; onOpen: () => void }) {
  return (
    <li>
      <button
        type="button"
        onClick={onOpen}
        className="grid min-h-14 w-full grid-cols-[1fr_auto] items-center gap-x-4 px-5 py-2.5 text-left text-sm hover:bg-raised"
      >
        <span className="truncate font-medium">{delivery.eventType}</span>
        <StatusBadge status={delivery.status} />
        <LastAnswer delivery={delivery} />
        <span className="text-soft">
          <RelativeTime at={delivery.createdAt} />
        </span>
      </button>
    </li>
  )
}

/** The deliveries of an endpoint, newest first. */
export function Deliveries({ webhookId, show }: { webhookId: string; show: (view: View) => void }) {
  const [status, setStatus] = useState<Status>('all')
  const [page, setPage] = useState(1)
  const query = useQuery({
    queryKey: ['webhooks', webhookId, 'deliveries', { status, page }],
    queryFn: async ({ signal }) => {
      const filter = status === 'all' ? {} : { status }
      const { data, hasMore } = await webhooks.deliveries.list(webhookId, { ...filter, page }, { signal })
      return { data, hasMore }
    },
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card
      flush
      title="Deliveries"
      actions={
        <Select
          label="Status"
          value={status}
          options={OPTIONS}
          onChange={(next) => {
            setStatus(next)
            setPage(1)
          }}
        />
      }
    >
      <Loaded query={query}>
        {({ data, hasMore }) => (
          <>
            {data.length === 0 ? (
              <EmptyState title="No deliveries">Send a test event to see one.</EmptyState>
            ) : (
              <ul aria-label="Deliveries" className="divide-y border-t">
                {data.map((delivery) => (
                  <Row
                    key={delivery.id}
                    delivery={delivery}
                    onOpen={() => show({ name: 'delivery', webhookId, deliveryId: delivery.id })}
                  />
                ))}
              </ul>
            )}
            {page === 1 && !hasMore ? null : (
              <div className="flex justify-end gap-2 border-t px-5 py-3">
                <Button disabled={page === 1} onClick={() => setPage(page - 1)}>
                  Newer
                </Button>
                <Button disabled={!hasMore} onClick={() => setPage(page + 1)}>
                  Older
                </Button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </Card>
  )
}
