import type { Wallet } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { UserPicker } from '../../components/controls/user-picker.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { CsvButton } from '../../components/table/csv-button.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { walletCommand } from '../transactions/commands.ts'
import { unknownIsEmpty } from '../transactions/unknown-is-empty.ts'
import { CUSTODY, CUSTODY_OPTIONS } from './custody-words.ts'

const STATUSES = ['pending', 'ready', 'failed', 'frozen'] as const
const PHONE = { title: 'owner', side: 'status', detail: 'wallet', when: 'custody' }
const SORTABLE = { created: 'createdAt' } as const
const FILTERS = ['custody', 'status', 'ledger', 'user_id']

const columns: Column<Wallet>[] = [
  {
    id: 'wallet',
    header: 'Wallet',
    cell: ({ row }) => <RecordLink id={row.original.id} />,
  },
  { id: 'owner', header: 'Owner', cell: ({ row }) => <UserLink userId={row.original.userId} /> },
  { id: 'custody', header: 'Custody', cell: ({ row }) => <Badge>{CUSTODY[row.original.custody]}</Badge> },
  { id: 'ledger', header: 'Ledger', cell: ({ row }) => row.original.ledger },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

type Filter = Parameters<typeof api.wallets.list>[0]

/** The filters of the URL that the API knows. */
function filterOf(values: Record<string, string | undefined>) {
  const custody = CUSTODY_OPTIONS.find(({ value }) => value === values.custody)?.value
  const status = STATUSES.find((each) => each === values.status)
  return { custody, status, ledger: values.ledger, userId: values.user_id }
}

/** All wallets, including those of guests. */
export function WalletsPage() {
  const { values, page, set } = useFilters()
  const { session } = useSession()
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['wallets', values, page],
    queryFn: ({ signal }) =>
      unknownIsEmpty(api.wallets.list({ page, sort, ...(filterOf(values) as Filter) }, { signal })),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = FILTERS.some((name) => values[name] !== undefined)
  const rows = query.data?.data ?? []
  const ledgers = [
    ...new Set(['embedded', ...(values.ledger ? [values.ledger] : []), ...rows.map((row) => row.ledger)]),
  ]
  return (
    <Page title="Wallets" description="The wallets of your users and who can sign with them.">
      <Card flush>
        <Filters>
          <UserPicker compact label="Owner" userId={values.user_id} onChange={(userId) => set({ user_id: userId })} />
          <FilterSelect name="custody" label="Custody" options={CUSTODY_OPTIONS} />
          <FilterSelect name="status" label="Status" options={STATUSES} />
          <FilterSelect name="ledger" label="Ledger" options={ledgers} />
          <CsvButton list="wallets" query={{ ...filterOf(values), sort }} />
        </Filters>
        <DataTable
          label="Wallets"
          query={query}
          columns={columns}
          phone={PHONE}
          sortable={SORTABLE}
          empty={
            isFiltered ? (
              <NoMatches names={FILTERS} what="wallets" />
            ) : (
              <EmptyState title="No wallets yet" command={walletCommand(session.publicUrl)}>
                These commands create a user with a wallet and print its party.
              </EmptyState>
            )
          }
        />
      </Card>
    </Page>
  )
}
