import type { DeliveryWithPayload } from '@halfkey/sdk'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { RotateCw } from 'lucide-react'
import { Button } from '../components/controls/button.tsx'
import { Card } from '../components/layout/card.tsx'
import { Detail, Details } from '../components/layout/details.tsx'
import { Loaded } from '../components/layout/loaded.tsx'
import { useToast } from '../components/layout/toast.tsx'
import { StatusBadge } from '../components/records/badge.tsx'
import { CopyableId, JsonBlock } from '../components/records/copy.tsx'
import { RelativeTime } from '../components/records/relative-time.tsx'
import { messageOf } from '../error-words.ts'
import { Attempts } from '../pages/webhooks/deliveries/attempts.tsx'
import { LIVE } from '../query-client.ts'
import { webhooks } from './portal-api.ts'

function Retry({ delivery }: { delivery: DeliveryWithPayload }) {
  const queryClient = useQueryClient()
  const { done, failed } = useToast()
  const { webhookId, id, status } = delivery
  const retry = useMutation({
    mutationFn: () => webhooks.deliveries.retry(webhookId, id),
    onSuccess: () => done('The delivery is being sent again', 'The event id stays the same.'),
    onError: (error) => failed('The delivery was not sent again', messageOf(error)),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks', webhookId] }),
  })
  return (
    <Button
      tone={status === 'dead_letter' ? 'primary' : 'secondary'}
      disabled={status === 'delivering' || status === 'failed' || delivery.payload === null}
      busy={retry.isPending}
      onClick={() => retry.mutate()}
    >
      <RotateCw aria-hidden className="size-4" />
      Send again
    </Button>
  )
}

/** One delivery: what was sent, and how the endpoint answered. */
export function DeliveryView({ webhookId, deliveryId }: { webhookId: string; deliveryId: string }) {
  const query = useQuery({
    queryKey: ['webhooks', webhookId, 'deliveries', deliveryId],
    queryFn: ({ signal }) => webhooks.deliveries.get(webhookId, deliveryId, { signal }),
    ...LIVE,
  })
  return (
    <Loaded query={query} boxed>
      {(delivery) => (
        <>
          <Card title={delivery.eventType} actions={<Retry delivery={delivery} />}>
            <Details>
              <Detail label="Status">
                <StatusBadge status={delivery.status} />
              </Detail>
              <Detail label="Event id">
                <CopyableId id={delivery.eventId} what="event id" />
              </Detail>
              <Detail label="Next attempt">
                <RelativeTime at={delivery.nextAttemptAt} none="None" />
              </Detail>
            </Details>
          </Card>
          <Card title="Attempts" description="Newest first.">
            <Attempts attempts={delivery.attempts} />
          </Card>
          <Card title="Payload">
            {delivery.payload === null ? (
              <p className="text-sm text-soft">The event is too old. Its payload is no longer stored.</p>
            ) : (
              <JsonBlock label="payload" value={delivery.payload} />
            )}
          </Card>
        </>
      )}
    </Loaded>
  )
}
