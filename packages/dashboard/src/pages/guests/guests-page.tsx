import type { App, Guest } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Eraser, Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { ShortId } from '../../components/records/short-id.tsx'
import { useAppOptions, useApps } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { CleanUpDialog } from './clean-up-dialog.tsx'
import { CreateGuestDialog } from './create-guest-dialog.tsx'
import { GuestDialog } from './guest-dialog.tsx'
import { GuestEnd } from './guest-end.tsx'

const STATUSES = ['active', 'converted', 'expired'] as const
const FILTERS = ['status', 'app']
const SORTABLE = { created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'app', when: 'ends' }

function columnsFor(apps: App[]): Column<Guest>[] {
  const nameOf = (appId: string) => apps.find(({ id }) => id === appId)?.name ?? appId
  const app: Column<Guest> = {
    id: 'app',
    header: 'App',
    cell: ({ row }) => <UserText>{nameOf(row.original.appId)}</UserText>,
  }
  return [
    {
      id: 'guest',
      header: 'Guest',
      cell: ({ row }) => (
        <Link
          to="."
          search={((before: Record<string, string | undefined>) => ({ ...before, guest: row.original.id })) as never}
          className="text-accent hover:underline"
        >
          <ShortId id={row.original.id} className="max-w-full" />
        </Link>
      ),
    },
    ...(apps.length > 1 ? [app] : []),
    { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
    {
      id: 'ends',
      header: 'Ends',
      cell: ({ row }) => <GuestEnd guest={row.original} />,
    },
    { id: 'created', header: 'Started', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  ]
}

function NoGuests() {
  const { session } = useSession()
  return (
    <EmptyState title="No guests yet" command={curl(session.publicUrl, 'POST', '/guests', { ttlMinutes: 60 })}>
      A guest uses your app without an account and keeps everything when they create one. Your app or your server starts
      the session:
    </EmptyState>
  )
}

function Actions() {
  const [open, setOpen] = useState<'create' | 'clean-up' | null>(null)
  const close = () => setOpen(null)
  return (
    <>
      <Button onClick={() => setOpen('clean-up')}>
        <Eraser aria-hidden className="size-4" />
        Clean up
      </Button>
      <Button tone="primary" onClick={() => setOpen('create')}>
        <Plus aria-hidden className="size-4" />
        Start guest session
      </Button>
      <CreateGuestDialog open={open === 'create'} onClose={close} />
      <CleanUpDialog open={open === 'clean-up'} onClose={close} />
    </>
  )
}

/** Guest sessions: who uses an app without an account, and what becomes of them. */
export function GuestsPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const apps = useApps()
  const appOptions = useAppOptions()
  const columns = useMemo(() => columnsFor(apps), [apps])
  const filter = { status: STATUSES.find((status) => status === values.status), appId: values.app }
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['guests', 'list', filter, sort, page],
    queryFn: async ({ signal }) => await api.guests.list({ ...filter, sort, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const filtered = Object.values(filter).some((value) => value !== undefined)
  return (
    <Page
      title="Guests"
      description="People who use your apps before they have an account."
      actions={allows(session, 'guests:write') ? <Actions /> : undefined}
    >
      <Card flush>
        <Filters>
          <FilterSelect name="status" label="Status" options={STATUSES} />
          {appOptions.length > 1 ? <FilterSelect name="app" label="App" options={appOptions} /> : null}
        </Filters>
        <DataTable
          label="Guest sessions"
          query={query}
          columns={columns}
          phone={PHONE}
          sortable={SORTABLE}
          empty={filtered ? <NoMatches names={FILTERS} what="guests" /> : <NoGuests />}
        />
      </Card>
      <GuestDialog />
    </Page>
  )
}
