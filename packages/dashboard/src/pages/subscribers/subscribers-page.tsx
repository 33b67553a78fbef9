import type { Subscriber } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, FilterText, useFilters } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { CreateDialog } from './subscriber-form.tsx'

const PHONE = { detail: 'name', when: 'created' }

const columns: Column<Subscriber>[] = [
  {
    id: 'subscriber',
    header: 'External id',
    cell: ({ row }) => (
      <RecordLink id={row.original.id} className="block truncate font-medium">
        {row.original.externalId}
      </RecordLink>
    ),
  },
  {
    id: 'name',
    header: 'Name',
    cell: ({ row }) => (row.original.name === null ? '–' : <UserText>{row.original.name}</UserText>),
  },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

function NoSubscribers() {
  const { session } = useSession()
  return (
    <EmptyState
      title="No subscribers yet"
      command={curl(session.publicUrl, 'POST', '/subscribers', { externalId: 'customer-42', name: 'Ada Ltd' })}
    >
      A subscriber is a customer of your app. They receive the events that you publish for them, at endpoints that they
      manage in a portal. Create one here or with this command:
    </EmptyState>
  )
}

/** The customers of the apps, who receive events. */
export function SubscribersPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const apps = useAppOptions()
  const [creating, setCreating] = useState(false)
  const filter = { externalId: values.external_id, appId: values.app }
  const query = useQuery({
    queryKey: ['subscribers', 'list', filter, page],
    queryFn: async ({ signal }) => await api.subscribers.list({ ...filter, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const filtered = Object.values(filter).some((value) => value !== undefined)
  return (
    <Page
      title="Subscribers"
      description="Customers of your apps who receive events that you publish for them."
      actions={
        allows(session, 'subscribers:write') ? (
          <Button tone="primary" onClick={() => setCreating(true)}>
            <Plus aria-hidden className="size-4" />
            Create subscriber
          </Button>
        ) : undefined
      }
    >
      <Card flush>
        <Filters>
          <FilterText name="external_id" label="External id" placeholder="External id, in full" />
          {apps.length > 1 ? <FilterSelect name="app" label="App" options={apps} /> : null}
        </Filters>
        <DataTable
          label="Subscribers"
          query={query}
          columns={columns}
          phone={PHONE}
          empty={filtered ? <NoMatches names={['external_id', 'app']} what="subscribers" /> : <NoSubscribers />}
        />
      </Card>
      <CreateDialog open={creating} onOpenChange={setCreating} />
    </Page>
  )
}
