import type { WebhookEvent } from '@halfkey/sdk'
import { isHalfkeyError } from '@halfkey/sdk'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Loaded } from '../../components/layout/loaded.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { JsonBlock } from '../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { EventDeliveries } from './event-deliveries.tsx'
import { EventRecords } from './event-records.tsx'

const BACK = { to: '/events', label: 'Events' }

function Shown({ event }: { event: WebhookEvent }) {
  return (
    <>
      <Card>
        <div className="flex flex-col gap-4">
          <Details>
            <Detail label="Type">{event.type}</Detail>
            <TimeDetail label="Time" at={event.created_at} />
            <IdDetail label="Id" id={event.id} what="event id" />
          </Details>
          <EventRecords event={event} />
        </div>
      </Card>
      <Card title="Deliveries" description="One for each webhook that was subscribed when the event happened.">
        <EventDeliveries event={event} />
      </Card>
      <Card title="Event" description="In the format that webhooks receive.">
        <JsonBlock label={`event ${event.id}`} value={event} />
      </Card>
    </>
  )
}

/** One event: what it is about, where it was sent, and its JSON. */
export function EventPage() {
  const { eventId = '' } = useParams({ strict: false }) as { eventId?: string }
  const query = useQuery({
    queryKey: ['events', eventId],
    queryFn: ({ signal }) => api.events.get(eventId, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Page title={query.data?.type ?? 'Event'} back={BACK}>
      {query.data === undefined && isHalfkeyError(query.error, 'not_found') ? (
        <Card>
          <EmptyState title="This event is not stored">
            Events are deleted after 30 days. If this event is newer, its id is wrong, or it belongs to another tenant.
          </EmptyState>
        </Card>
      ) : (
        <Loaded query={query} boxed>
          {(event) => <Shown event={event} />}
        </Loaded>
      )}
    </Page>
  )
}
