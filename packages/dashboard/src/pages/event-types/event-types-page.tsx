import type { App, CustomEventType } from '@halfkey/sdk'
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Archive, ArchiveRestore, Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button, IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions, useApps } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { CsvButton } from '../../components/table/csv-button.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { messageOf } from '../../error-words.ts'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { unknownIsEmpty } from '../transactions/unknown-is-empty.ts'
import { CreateTypeDialog } from './create-type-dialog.tsx'
import { TypeDialog } from './type-dialog.tsx'

const FILTERS = ['status', 'app']
const SORTABLE = { created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'description', when: 'changed', act: 'actions' }
const NUMERIC = ['version']

interface Acts {
  archive: (type: CustomEventType) => void
  restore: (type: CustomEventType) => void
}

function Named({ type }: { type: CustomEventType }) {
  return (
    <span className="flex min-w-0 items-center gap-x-2">
      <Link
        to="."
        search={((before: Record<string, string | undefined>) => ({ ...before, id: type.id })) as never}
        title={type.name}
        className="min-w-0 truncate font-mono text-[0.8125rem] font-medium text-accent hover:underline"
      >
        {type.name}
      </Link>
      {type.deprecated ? <Badge tone="warn">deprecated</Badge> : null}
    </span>
  )
}

function RowAction({ type, acts }: { type: CustomEventType; acts: Acts }) {
  return type.status === 'active' ? (
    <IconButton label={`Archive ${type.name}`} onClick={() => acts.archive(type)}>
      <Archive aria-hidden className="size-4" />
    </IconButton>
  ) : (
    <IconButton label={`Restore ${type.name}`} onClick={() => acts.restore(type)}>
      <ArchiveRestore aria-hidden className="size-4" />
    </IconButton>
  )
}

function columnsFor(apps: App[], acts: Acts | null): Column<CustomEventType>[] {
  const nameOf = (appId: string) => apps.find(({ id }) => id === appId)?.name ?? appId
  const app: Column<CustomEventType> = {
    id: 'app',
    header: 'App',
    cell: ({ row }) => <UserText>{nameOf(row.original.appId)}</UserText>,
  }
  const actions: Column<CustomEventType> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row }) => (acts === null ? null : <RowAction type={row.original} acts={acts} />),
  }
  return [
    { id: 'name', header: 'Name', cell: ({ row }) => <Named type={row.original} /> },
    {
      id: 'description',
      header: 'Description',
      cell: ({ row }) => <UserText>{row.original.description ?? '–'}</UserText>,
    },
    ...(apps.length > 1 ? [app] : []),
    {
      id: 'version',
      header: 'Schema version',
      cell: ({ row }) => (row.original.schema === null ? '–' : row.original.schemaVersion),
    },
    { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
    { id: 'changed', header: 'Changed', cell: ({ row }) => <RelativeTime at={row.original.updatedAt} /> },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

function NoTypes() {
  const { session } = useSession()
  const schema = { required: ['invoiceId'], properties: { invoiceId: { type: 'string' } } }
  return (
    <EmptyState
      title="No event types yet"
      command={curl(session.publicUrl, 'POST', '/event-types', { name: 'acme.invoice.paid', schema })}
    >
      Create a type for each kind of event that your servers publish.{' '}
      <a href="/docs/own-events" target="_blank" rel="noreferrer" className="text-accent underline">
        How to publish events
      </a>
    </EmptyState>
  )
}

function ArchiveDialog({
  type,
  ...dialog
}: {
  type: CustomEventType | null
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmDialog
      {...dialog}
      title="Archive this event type?"
      action="Archive"
      onConfirm={async () => {
        await api.eventTypes.archive(type?.id ?? '')
        toast.done('Event type archived', type?.name)
        await queries.invalidateQueries({ queryKey: ['event-types'] })
      }}
    >
      <p>
        Halfkey then refuses new events of the type{' '}
        <span className="font-mono text-ink [overflow-wrap:anywhere]">{type?.name}</span>. Events that were published
        are still delivered. You can restore the type.
      </p>
    </ConfirmDialog>
  )
}

function useRestore() {
  const queries = useQueryClient()
  const toast = useToast()
  const { mutate } = useMutation({
    mutationFn: (type: CustomEventType) => api.eventTypes.update(type.id, { status: 'active' }),
    onSuccess: (type) => {
      toast.done('Event type restored', type.name)
      return queries.invalidateQueries({ queryKey: ['event-types'] })
    },
    onError: (error) => toast.failed('The event type was not restored', messageOf(error)),
  })
  return mutate
}

/** The types of the events that the team publishes: create, change, archive and restore them. */
export function EventTypesPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const [creating, setCreating] = useState(false)
  const { record, open, onOpenChange, show } = useRecordDialog<CustomEventType>()
  const restore = useRestore()
  const apps = useApps()
  const appOptions = useAppOptions()
  const mayWrite = allows(session, 'event_types:write')
  const columns = useMemo(
    () => columnsFor(apps, mayWrite ? { archive: show, restore } : null),
    [apps, mayWrite, show, restore],
  )
  const filter = { status: values.status === 'archived' ? ('archived' as const) : undefined, appId: values.app }
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['event-types', 'list', filter, sort, page],
    queryFn: ({ signal }) => unknownIsEmpty(api.eventTypes.list({ ...filter, sort, page }, { signal })),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Page
      title="Event types"
      description="Types of the events that your servers publish. Halfkey’s own types are not listed here."
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setCreating(true)}>
            <Plus aria-hidden className="size-4" />
            Create event type
          </Button>
        ) : undefined
      }
    >
      <Card flush>
        <Filters>
          <FilterSelect name="status" label="Status" all="active" options={['archived']} />
          {appOptions.length > 1 ? <FilterSelect name="app" label="App" options={appOptions} /> : null}
          <CsvButton list="event-types" query={{ ...filter, sort }} />
        </Filters>
        <DataTable
          label="Event types"
          query={query}
          columns={columns}
          empty={isFiltered ? <NoMatches names={FILTERS} what="event types" /> : <NoTypes />}
          phone={PHONE}
          numeric={NUMERIC}
          sortable={SORTABLE}
        />
      </Card>
      <CreateTypeDialog open={creating} onClose={() => setCreating(false)} />
      <ArchiveDialog type={record} open={open} onOpenChange={onOpenChange} />
      <TypeDialog mayWrite={mayWrite} />
    </Page>
  )
}
