import type { Subscriber, Webhook } from '@halfkey/sdk'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { Link as LinkIcon } from 'lucide-react'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { EditDialog } from './subscriber-form.tsx'

const PHONE = { side: 'status', when: 'created' }

const columns: Column<Webhook>[] = [
  {
    id: 'url',
    header: 'Endpoint',
    cell: ({ row }) => (
      <RecordLink id={row.original.id} className="block truncate font-medium">
        {row.original.url}
      </RecordLink>
    ),
  },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

/** Copies a new link. It works for an hour, for anyone who has it. */
function CopyLinkButton({ subscriberId }: { subscriberId: string }) {
  const { done, failed } = useToast()
  const copy = useMutation({
    mutationFn: async () => {
      const { url } = await api.subscribers.createPortalLink(subscriberId)
      await navigator.clipboard.writeText(url)
    },
    onSuccess: () => done('Portal link copied', 'It works for an hour, for anyone who has it.'),
    onError: (error) => failed('The link was not copied', messageOf(error)),
  })
  return (
    <Button tone="primary" busy={copy.isPending} onClick={() => copy.mutate()}>
      <LinkIcon aria-hidden className="size-4" />
      Copy portal link
    </Button>
  )
}

function Actions({ subscriber }: { subscriber: Subscriber }) {
  const [editing, setEditing] = useState(false)
  const queries = useQueryClient()
  const navigate = useNavigate()
  const { done } = useToast()
  const { id } = subscriber
  return (
    <>
      <CopyLinkButton subscriberId={id} />
      <Button onClick={() => setEditing(true)}>Edit…</Button>
      <ConfirmButton
        label="Revoke links…"
        title="Revoke all portal links"
        action="Revoke links"
        onConfirm={async () => {
          const { revoked } = await api.subscribers.revokePortalLinks(id)
          done(revoked === 1 ? '1 link was revoked' : `${revoked} links were revoked`)
        }}
      >
        <p>Pages of this subscriber’s portal that are open stop working at once.</p>
      </ConfirmButton>
      <ConfirmButton
        label="Delete"
        tone="danger"
        title="Delete this subscriber"
        action="Delete subscriber"
        onConfirm={async () => {
          await api.subscribers.delete(id)
          done('Subscriber deleted')
          await navigate({ to: '/subscribers' })
          queries.removeQueries({ queryKey: ['subscribers', id] })
          await queries.invalidateQueries({ queryKey: ['subscribers'] })
        }}
      >
        <p>Its webhooks are deleted, waiting deliveries are cancelled, and its portal links stop working.</p>
        <p>This cannot be undone.</p>
      </ConfirmButton>
      <EditDialog subscriber={subscriber} open={editing} onOpenChange={setEditing} />
    </>
  )
}

function Webhooks({ subscriberId }: { subscriberId: string }) {
  const { page } = useFilters()
  const query = useQuery({
    queryKey: ['webhooks', 'list', { subscriberId, page }],
    queryFn: async ({ signal }) => await api.webhooks.list({ subscriberId, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush title="Webhooks" description="They receive the events of this subscriber only.">
      <DataTable
        label="Webhooks of the subscriber"
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          <EmptyState title="No webhooks yet">
            The customer adds them in the portal. You can also create one with the API, with this subscriber’s id as
            subscriberId.
          </EmptyState>
        }
      />
    </Card>
  )
}

/** One subscriber, with its webhooks. */
export function SubscriberPage() {
  const { subscriberId } = useParams({ strict: false }) as { subscriberId: string }
  const { session } = useSession()
  const query = useQuery({
    queryKey: ['subscribers', subscriberId],
    queryFn: ({ signal }) => api.subscribers.get(subscriberId, { signal }),
    ...LIVE,
  })
  const back = { to: '/subscribers', label: 'Subscribers' }
  const subscriber = query.data
  if (subscriber === undefined)
    return (
      <Page title="Subscriber" back={back}>
        {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : <Loading />}
      </Page>
    )
  return (
    <Page
      title={subscriber.name ?? subscriber.externalId}
      back={back}
      actions={allows(session, 'subscribers:write') ? <Actions subscriber={subscriber} /> : undefined}
    >
      <Card>
        <Details>
          <IdDetail label="External id" id={subscriber.externalId} what="external id" />
          <IdDetail label="Id" id={subscriber.id} what="id" />
          <Detail label="App">
            <RecordLink id={subscriber.appId} />
          </Detail>
          <TimeDetail label="Created" at={subscriber.createdAt} />
        </Details>
      </Card>
      {allows(session, 'webhooks:read') ? <Webhooks subscriberId={subscriberId} /> : null}
    </Page>
  )
}
