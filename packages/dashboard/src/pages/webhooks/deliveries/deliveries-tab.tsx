import type { Delivery, Webhook } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../../api.ts'
import { Card } from '../../../components/layout/card.tsx'
import { curl, EmptyState } from '../../../components/layout/states.tsx'
import { StatusBadge } from '../../../components/records/badge.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { CsvButton } from '../../../components/table/csv-button.tsx'
import { type Column, DataTable } from '../../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../../components/table/filters.tsx'
import { NoMatches } from '../../../components/table/no-matches.tsx'
import { LIVE } from '../../../query-client.ts'
import { useSession } from '../../../shell/session-context.ts'
import { typeOptions, useEventTypes } from '../../event-types/known-types.ts'
import { covers } from '../endpoint/events-picker.tsx'
import { DeliveryLink } from './delivery-link.tsx'
import { attemptsOf, LastAnswer } from './last-answer.tsx'

const STATUSES = ['pending', 'delivering', 'retrying', 'succeeded', 'dead_letter', 'cancelled', 'failed'] as const

const columns: Column<Delivery>[] = [
  { id: 'event', header: 'Event', cell: ({ row }) => <DeliveryLink delivery={row.original} /> },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'answer', header: 'Last response', cell: ({ row }) => <LastAnswer delivery={row.original} /> },
  { id: 'attempts', header: 'Attempts', cell: ({ row }) => attemptsOf(row.original) },
  {
    id: 'next',
    header: 'Next attempt',
    cell: ({ row: { original } }) =>
      original.heldByKey === null ? <RelativeTime at={original.nextAttemptAt} /> : 'Waits for its turn',
  },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]
const SORTABLE = { created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'answer', when: 'created' }
const NUMERIC = ['attempts']

function NoDeliveries({ webhook }: { webhook: Webhook }) {
  const { session } = useSession()
  return (
    <EmptyState
      title="No deliveries yet"
      command={
        covers(webhook.events, 'user.created')
          ? curl(session.publicUrl, 'POST', '/users', { email: 'ada@example.com' })
          : curl(session.publicUrl, 'POST', `/webhooks/${webhook.id}/test`)
      }
    >
      Send a test event with the button above, or run this command:
    </EmptyState>
  )
}

/** The deliveries of a webhook. */
export function DeliveriesTab({ webhook }: { webhook: Webhook }) {
  const { values, page } = useFilters()
  const types = useEventTypes()
  const status = STATUSES.find((each) => each === values.status)
  // The URL may hold any text. The server refuses unknown types.
  const eventType = values.type as Delivery['eventType'] | undefined
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['webhooks', webhook.id, 'deliveries', { page, status, eventType, sort }],
    queryFn: ({ signal }) =>
      api.webhooks.deliveries.list(webhook.id, { page, status, eventType: eventType as never, sort }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush>
      <Filters>
        <FilterSelect name="status" label="Status" options={STATUSES} />
        <FilterSelect name="type" label="Event" options={typeOptions(types)} />
        <CsvButton list="deliveries" path={`/webhooks/${webhook.id}/deliveries`} query={{ status, eventType, sort }} />
      </Filters>
      <DataTable
        label="Deliveries"
        query={query}
        columns={columns}
        numeric={NUMERIC}
        phone={PHONE}
        sortable={SORTABLE}
        empty={
          status === undefined && eventType === undefined ? (
            <NoDeliveries webhook={webhook} />
          ) : (
            <NoMatches names={['status', 'type']} what="deliveries" />
          )
        }
      />
    </Card>
  )
}
