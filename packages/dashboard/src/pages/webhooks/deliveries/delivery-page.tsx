import type { DeliveryWithPayload, Webhook } from '@halfkey/sdk'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { RotateCw } from 'lucide-react'
import { allows, api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { Detail, Details } from '../../../components/layout/details.tsx'
import { Page } from '../../../components/layout/page.tsx'
import { ErrorState, Loading } from '../../../components/layout/states.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { StatusBadge } from '../../../components/records/badge.tsx'
import { CopyButton } from '../../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../../components/records/record-details.tsx'
import { RecordLink } from '../../../components/records/record-link.tsx'
import { messageOf } from '../../../error-words.ts'
import { LIVE } from '../../../query-client.ts'
import { useSession } from '../../../shell/session-context.ts'
import { useWebhook } from '../queries.ts'
import { ReadOnly } from '../read-only.tsx'
import { shortUrl } from '../webhook-name.ts'
import { Attempts } from './attempts.tsx'
import { Payload } from './payload.tsx'
import { SentHeaders, Verify } from './sent.tsx'

const WAITING = ['pending', 'delivering', 'retrying']
const WAITING_MS = 1_000

function useDelivery(webhookId: string, deliveryId: string) {
  return useQuery({
    queryKey: ['webhooks', webhookId, 'deliveries', deliveryId],
    queryFn: ({ signal }) => api.webhooks.deliveries.get(webhookId, deliveryId, { signal }),
    ...LIVE,
    refetchInterval: (query) => (WAITING.includes(query.state.data?.status ?? '') ? WAITING_MS : LIVE.refetchInterval),
  })
}

/** Why a delivery cannot be retried manually; null if it can. */
function obstacleOf(delivery: DeliveryWithPayload, webhook: Webhook | undefined): string | null {
  if (delivery.status === 'failed') return 'Test events are sent once. Send another test event instead.'
  if (delivery.status === 'delivering') return 'This delivery is being sent now.'
  if (delivery.payload === null) return 'The event is no longer stored.'
  if (webhook?.status === 'disabled') return 'Activate the webhook first.'
  return null
}

function Retry({ delivery }: { delivery: DeliveryWithPayload }) {
  const queryClient = useQueryClient()
  const { done, failed } = useToast()
  const webhook = useWebhook(delivery.webhookId)
  const obstacle = obstacleOf(delivery, webhook.data)
  const over = ['succeeded', 'cancelled'].includes(delivery.status)
  const retry = useMutation({
    mutationFn: () => api.webhooks.deliveries.retry(delivery.webhookId, delivery.id),
    onSuccess: () => done('The delivery is being sent again', 'The event id stays the same.'),
    onError: (error) => failed('The delivery was not sent again', messageOf(error)),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['webhooks', delivery.webhookId] }),
  })
  return (
    <div className="flex flex-wrap items-center gap-3">
      {obstacle === null ? null : <p className="text-sm text-soft">{obstacle}</p>}
      <Button
        tone={over ? 'secondary' : 'primary'}
        disabled={obstacle !== null}
        busy={retry.isPending}
        onClick={() => retry.mutate()}
      >
        <RotateCw aria-hidden className="size-4" />
        {WAITING.includes(delivery.status) ? 'Send now' : over ? 'Send again' : 'Retry now'}
      </Button>
    </div>
  )
}

/** Why no next attempt has a time. */
function noAttempt({ status, heldByKey }: DeliveryWithPayload): string {
  if (heldByKey !== null) return `After earlier events with the key ${heldByKey}`
  return status === 'succeeded' ? 'None needed' : 'None'
}

function Facts({ delivery }: { delivery: DeliveryWithPayload }) {
  const webhook = useWebhook(delivery.webhookId)
  return (
    <Card>
      <Details>
        <Detail label="Status">
          <StatusBadge status={delivery.status} />
        </Detail>
        <Detail label="Event">
          <span className="inline-flex max-w-full flex-wrap items-center gap-1">
            <RecordLink id={delivery.eventId} />
            <CopyButton text={delivery.eventId} what="event id" />
          </span>
        </Detail>
        <Detail label="To">
          <RecordLink id={delivery.webhookId}>
            {webhook.data === undefined ? delivery.webhookId : shortUrl(webhook.data.url)}
          </RecordLink>
        </Detail>
        <IdDetail label="Delivery id" id={delivery.id} what="delivery id" />
        <TimeDetail label="Created" at={delivery.createdAt} />
        <TimeDetail label="Next attempt" at={delivery.nextAttemptAt} none={noAttempt(delivery)} />
      </Details>
    </Card>
  )
}

/** One delivery: its attempts, what was sent, and how to check the signature. */
export function DeliveryPage() {
  const { webhookId, deliveryId } = useParams({ strict: false }) as { webhookId: string; deliveryId: string }
  const { session } = useSession()
  const query = useDelivery(webhookId, deliveryId)
  const back = { to: `/webhooks/${webhookId}`, label: 'Webhook' }
  const delivery = query.data
  if (delivery === undefined)
    return (
      <Page title="Delivery" back={back}>
        {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : <Loading />}
      </Page>
    )
  return (
    <Page
      title={delivery.eventType}
      description={
        delivery.status === 'dead_letter' ? 'All attempts failed. Halfkey will not retry automatically.' : undefined
      }
      back={back}
      actions={allows(session, 'webhooks:write') ? <Retry delivery={delivery} /> : <ReadOnly />}
    >
      <Facts delivery={delivery} />
      <Card title="Attempts" description="Newest first.">
        <Attempts attempts={delivery.attempts} />
      </Card>
      <Payload delivery={delivery} />
      <SentHeaders delivery={delivery} />
      <Verify delivery={delivery} />
    </Page>
  )
}
