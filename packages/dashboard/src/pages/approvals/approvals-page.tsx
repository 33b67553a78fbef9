import type { Approval } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../api.ts'
import { UserPicker } from '../../components/controls/user-picker.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useApps } from '../../components/records/use-apps.ts'
import { FilterSelect, Filters, FilterText, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { unknownIsEmpty } from '../transactions/unknown-is-empty.ts'
import { APPROVAL_SORT, ApprovalTable } from './approval-table.tsx'

const ENDED = ['executed', 'denied', 'expired', 'canceled', 'failed'] as const
const FILTERS = ['status', 'user_id', 'wallet_id', 'delegated_session_id', 'app_id']

type Filter = NonNullable<Parameters<typeof api.approvals.list>[0]>

/** Without a status in the URL, what is open is shown. */
function statusIn({ status }: Record<string, string | undefined>): Approval['status'] | undefined {
  if (status === 'all') return undefined
  return ENDED.find((each) => each === status) ?? 'pending'
}

/** What delegated sessions ask the owners of their wallets, or approvers, for. */
export function ApprovalsPage() {
  const { values, page, set } = useFilters()
  const sort = useSort(APPROVAL_SORT)
  const apps = useApps()
  const filter = {
    status: statusIn(values),
    userId: values.user_id,
    walletId: values.wallet_id,
    delegatedSessionId: values.delegated_session_id,
    appId: values.app_id,
  } as Filter
  const query = useQuery({
    queryKey: ['approvals', 'list', filter, page, sort],
    queryFn: ({ signal }) => unknownIsEmpty(api.approvals.list({ ...filter, page, sort }, { signal })),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = FILTERS.some((name) => values[name] !== undefined)
  return (
    <Page
      title="Approvals"
      description="What delegated sessions ask the owners of their wallets for, or the users whom their policies name. Only they can approve, with their passkeys, or refuse. To withdraw a request, revoke its session."
    >
      <Card flush>
        <Filters>
          <FilterSelect
            name="status"
            label="Status"
            all="Open"
            options={[...ENDED, { value: 'all', label: 'all statuses' }]}
          />
          <UserPicker compact label="Owner" userId={values.user_id} onChange={(userId) => set({ user_id: userId })} />
          {apps.length < 2 ? null : (
            <FilterSelect
              name="app_id"
              label="App"
              options={apps.map(({ id, name }) => ({ value: id, label: name }))}
            />
          )}
          <FilterText name="wallet_id" label="Wallet" placeholder="Wallet id" />
          <FilterText name="delegated_session_id" label="Session" placeholder="Session id" />
        </Filters>
        <ApprovalTable
          query={query}
          empty={
            isFiltered ? (
              <NoMatches names={FILTERS} what="approvals" />
            ) : (
              <EmptyState title="Nothing is waiting">
                When a rule of a policy asks the owner of a wallet or other users, the request appears here until they
                have decided.
              </EmptyState>
            )
          }
        />
      </Card>
    </Page>
  )
}
