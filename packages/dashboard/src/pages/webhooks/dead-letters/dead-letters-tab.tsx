import type { Delivery, Webhook } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../../api.ts'
import { useKeptJob } from '../../../components/jobs/use-kept-job.ts'
import { Card } from '../../../components/layout/card.tsx'
import { EmptyState } from '../../../components/layout/states.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { type Column, DataTable } from '../../../components/table/data-table.tsx'
import { useFilters, useSort } from '../../../components/table/filters.tsx'
import { Selection, SelectionBar, Tick, useSelection } from '../../../components/table/selection.tsx'
import { LIVE } from '../../../query-client.ts'
import { DeliveryLink } from '../deliveries/delivery-link.tsx'
import { attemptsOf, LastAnswer } from '../deliveries/last-answer.tsx'
import { AllActions, SelectedActions } from './bulk-actions.tsx'
import { DeadLetterJob } from './dead-letter-job.tsx'
import { RecoverDialog } from './recover-dialog.tsx'

const PAGE_SIZE = 50
const SORTABLE = { created: 'createdAt' } as const
const PHONE = { lead: 'tick', title: 'event', detail: 'answer', when: 'given-up' }
const NUMERIC = ['attempts']

const rest: Column<Delivery>[] = [
  { id: 'event', header: 'Event', cell: ({ row }) => <DeliveryLink delivery={row.original} /> },
  { id: 'answer', header: 'Last response', cell: ({ row }) => <LastAnswer delivery={row.original} /> },
  { id: 'attempts', header: 'Attempts', cell: ({ row }) => attemptsOf(row.original) },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  { id: 'given-up', header: 'Last attempt', cell: ({ row }) => <RelativeTime at={row.original.updatedAt} /> },
]
const columns: Column<Delivery>[] = [
  {
    id: 'tick',
    header: 'Select',
    cell: ({ row: { original } }) => <Tick id={original.id} name={`${original.eventType} ${original.eventId}`} />,
  },
  ...rest,
]

/** The dead letters: look at them, retry them, purge them. */
export function DeadLettersTab({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const { page } = useFilters()
  const [recovering, setRecovering] = useState(false)
  const selection = useSelection()
  const jobs = [
    { label: 'Retry by time', ...useKeptJob(`recovery.${webhook.id}`) },
    { label: 'Action on the selected dead letters', ...useKeptJob(`dead-letters.${webhook.id}`) },
  ] as const
  const [recovery, bulk] = jobs
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['webhooks', webhook.id, 'dead-letters', { page, sort }],
    queryFn: ({ signal }) =>
      api.webhooks.deliveries.list(webhook.id, { page, pageSize: PAGE_SIZE, status: 'dead_letter', sort }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <>
      {jobs.map(({ label, jobId, forget }) =>
        jobId === null ? null : (
          <DeadLetterJob key={label} label={label} jobId={jobId} webhookId={webhook.id} onDismiss={forget} />
        ),
      )}
      <Card flush>
        {mayWrite && (query.data?.total ?? 0) > 0 ? (
          <SelectionBar shown={query.data?.data.map(({ id }) => id) ?? []} selection={selection}>
            {selection.ids.size === 0 ? (
              <AllActions webhook={webhook} onRecover={() => setRecovering(true)} />
            ) : (
              <SelectedActions
                webhook={webhook}
                ids={selection.ids}
                onBegun={(jobId) => {
                  selection.clear()
                  bulk.begin(jobId)
                }}
              />
            )}
          </SelectionBar>
        ) : null}
        {mayWrite && webhook.status === 'disabled' ? (
          <p className="px-5 pb-3 text-sm text-soft max-md:px-4">Activate the webhook before you retry.</p>
        ) : null}
        <Selection value={selection}>
          <DataTable
            label="Dead letters"
            query={query}
            columns={mayWrite ? columns : rest}
            numeric={NUMERIC}
            phone={PHONE}
            sortable={SORTABLE}
            empty={
              <EmptyState title="No dead letters">
                Deliveries whose attempts all failed are kept here for 90 days.
              </EmptyState>
            }
          />
        </Selection>
      </Card>
      <RecoverDialog
        webhook={webhook}
        open={recovering}
        onClose={() => setRecovering(false)}
        onBegun={recovery.begin}
      />
    </>
  )
}
