import type { App, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Plus } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { useKeptJob } from '../../components/jobs/use-kept-job.ts'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { ShortId } from '../../components/records/short-id.tsx'
import { useAppOptions, useApps } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { CsvButton } from '../../components/table/csv-button.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, FilterText, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { Selection, SelectionBar, useSelection } from '../../components/table/selection.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { BulkActions, BulkProgress, tick } from './bulk.tsx'
import { CreateUserDialog } from './create-user-dialog.tsx'
import { TRUST_LEVELS, TrustLevelBadge, trustLevelOf } from './trust-level.tsx'

const FILTERS = ['search', 'trust_level', 'app']
const PHONE = { lead: 'tick', title: 'user', side: 'status', detail: 'externalId', when: 'seen' }
const SORTABLE = { user: 'email', externalId: 'externalId', created: 'createdAt' } as const

function Who({ user }: { user: User }) {
  const first = user.email ?? user.name ?? user.externalId
  const second = user.email === null ? null : user.name
  return (
    // The name is shown where there is room for it: otherwise it wraps out of sight. The padding leaves room for a focus ring.
    <div className="-m-1 flex h-8 min-w-0 flex-wrap items-baseline gap-x-2 overflow-hidden p-1 leading-6">
      <RecordLink id={user.id} className="min-w-0 flex-none max-w-full truncate font-medium">
        {first === null ? <ShortId id={user.id} className="max-w-64" /> : <UserText>{first}</UserText>}
      </RecordLink>
      {second === null ? null : <UserText className="min-w-24 flex-1 text-soft max-md:hidden">{second}</UserText>}
    </div>
  )
}

function columnsFor(apps: App[], mayWrite: boolean): Column<User>[] {
  const nameOf = (appId: string) => apps.find(({ id }) => id === appId)?.name ?? appId
  const app: Column<User> = {
    id: 'app',
    header: 'App',
    cell: ({ row }) => <UserText>{nameOf(row.original.appId)}</UserText>,
  }
  return [
    ...(mayWrite ? [tick] : []),
    { id: 'user', header: 'User', cell: ({ row }) => <Who user={row.original} /> },
    {
      id: 'externalId',
      header: 'External id',
      cell: ({ row }) =>
        row.original.externalId === null ? (
          '–'
        ) : (
          <UserText className="font-mono text-xs text-soft">{row.original.externalId}</UserText>
        ),
    },
    ...(apps.length > 1 ? [app] : []),
    { id: 'trust', header: 'Trust level', cell: ({ row }) => <TrustLevelBadge level={row.original.trustLevel} /> },
    { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
    {
      id: 'seen',
      header: 'Last seen',
      cell: ({ row }) => <RelativeTime at={row.original.lastSeenAt} none="never" />,
    },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  ]
}

function NoUsers() {
  const { session } = useSession()
  return (
    <EmptyState
      title="No users yet"
      command={curl(session.publicUrl, 'POST', '/users', { email: 'ada@example.com', name: 'Ada' })}
    >
      Users sign up in your app, or your server creates them:
    </EmptyState>
  )
}

/** The tenant's users: found, filtered, created. */
export function UsersPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const [creating, setCreating] = useState(false)
  const apps = useApps()
  const appOptions = useAppOptions()
  const mayWrite = allows(session, 'users:write')
  const columns = useMemo(() => columnsFor(apps, mayWrite), [apps, mayWrite])
  const selection = useSelection()
  const bulk = useKeptJob('users-bulk')
  const filter = { search: values.search, trustLevel: trustLevelOf(values.trust_level), appId: values.app }
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['users', 'list', filter, sort, page],
    queryFn: async ({ signal }) => await api.users.list({ ...filter, sort, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const filtered = Object.values(filter).some((value) => value !== undefined)
  const shown = query.data?.data.map(({ id }) => id) ?? []
  return (
    <Page
      title="Users"
      description="Everyone with an account in your apps. Guests are listed separately."
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setCreating(true)}>
            <Plus aria-hidden className="size-4" />
            Create user
          </Button>
        ) : undefined
      }
    >
      {bulk.jobId === null ? null : <BulkProgress jobId={bulk.jobId} onDismiss={bulk.forget} />}
      <Card flush>
        <Filters>
          <FilterText name="search" label="Search users" placeholder="Email, name, external id, party or id" />
          <FilterSelect name="trust_level" label="Trust level" options={TRUST_LEVELS} />
          {appOptions.length > 1 ? <FilterSelect name="app" label="App" options={appOptions} /> : null}
          <CsvButton list="users" query={{ ...filter, sort }} />
        </Filters>
        {mayWrite && shown.length > 0 ? (
          <div className="-mt-4">
            <SelectionBar shown={shown} selection={selection}>
              <BulkActions
                ids={selection.ids}
                onBegun={(jobId) => {
                  selection.clear()
                  bulk.begin(jobId)
                }}
              />
            </SelectionBar>
          </div>
        ) : null}
        <Selection value={selection}>
          <DataTable
            label="Users"
            query={query}
            columns={columns}
            phone={PHONE}
            sortable={SORTABLE}
            empty={filtered ? <NoMatches names={FILTERS} what="users" /> : <NoUsers />}
          />
        </Selection>
      </Card>
      <CreateUserDialog open={creating} onOpenChange={setCreating} />
    </Page>
  )
}
