import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api } from '../../../api.ts'
import { UserPicker } from '../../../components/controls/user-picker.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { Page } from '../../../components/layout/page.tsx'
import { EmptyState } from '../../../components/layout/states.tsx'
import { CsvButton } from '../../../components/table/csv-button.tsx'
import { Filters, FilterText, useFilters } from '../../../components/table/filters.tsx'
import { NoMatches } from '../../../components/table/no-matches.tsx'
import { LIVE } from '../../../query-client.ts'
import { SectionTabs } from '../section-tabs.tsx'
import { DenialTable } from './denial-table.tsx'

const FILTERS = ['user_id', 'wallet_id', 'session_id']

/** What delegated sessions were refused, and why. */
export function DenialsPage() {
  const { values, page, set } = useFilters()
  const filter = { userId: values.user_id, walletId: values.wallet_id, sessionId: values.session_id }
  const query = useQuery({
    queryKey: ['denials', 'list', filter, page],
    queryFn: async ({ signal }) => await api.denials.list({ ...filter, page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = FILTERS.some((name) => values[name] !== undefined)
  return (
    <Page
      title="Refused attempts"
      description="What the policies of delegated sessions refused in the last 30 days, by which rule, and what would have been allowed."
    >
      <SectionTabs shown="denials">
        <Card flush>
          <Filters>
            <UserPicker compact label="Owner" userId={values.user_id} onChange={(userId) => set({ user_id: userId })} />
            <FilterText name="wallet_id" label="Wallet" placeholder="Wallet id" />
            <FilterText name="session_id" label="Session" placeholder="Session id" />
            <CsvButton list="denials" query={filter} />
          </Filters>
          <DenialTable
            query={query}
            of="all"
            empty={
              isFiltered ? (
                <NoMatches names={FILTERS} what="refused attempts" />
              ) : (
                <EmptyState title="Nothing was refused">
                  When a delegated session attempts something that its policy does not allow, the attempt appears here
                  with the rule that refused it. Dry runs do not appear.
                </EmptyState>
              )
            }
          />
        </Card>
      </SectionTabs>
    </Page>
  )
}
