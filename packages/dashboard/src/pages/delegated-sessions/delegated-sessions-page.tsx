import type { DelegatedSession } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { allows, api } from '../../api.ts'
import { buttonClass } from '../../components/controls/button.tsx'
import { UserPicker } from '../../components/controls/user-picker.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { sessionCommand } from '../transactions/commands.ts'
import { unknownIsEmpty } from '../transactions/unknown-is-empty.ts'
import { SectionTabs } from './section-tabs.tsx'
import { SESSION_SORT, SessionTable } from './session-table.tsx'

const STATUSES = ['active', 'exhausted', 'expired', 'revoked'] as const
const FILTERS = ['status', 'user_id', 'wallet_id']

type Filter = NonNullable<Parameters<typeof api.delegatedSessions.list>[0]>

function filterOf(values: Record<string, string | undefined>): Filter {
  const status: DelegatedSession['status'] | undefined = STATUSES.find((each) => each === values.status)
  return { status, userId: values.user_id, walletId: values.wallet_id } as Filter
}

/** All delegated sessions, including ended ones. */
export function DelegatedSessionsPage() {
  const { values, page, set } = useFilters()
  const { session } = useSession()
  const sort = useSort(SESSION_SORT)
  const query = useQuery({
    queryKey: ['delegated-sessions', values, page],
    queryFn: ({ signal }) =>
      unknownIsEmpty(api.delegatedSessions.list({ page, sort, ...filterOf(values) }, { signal })),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = FILTERS.some((name) => values[name] !== undefined)
  return (
    <Page
      title="Delegated sessions"
      description="Sessions that let an agent, a job or your backend act from the wallet of a user, within a policy."
      actions={
        allows(session, 'users:act_as') ? (
          <Link to="/delegated-sessions/new" className={buttonClass('primary')}>
            <Plus aria-hidden className="size-4" />
            New session
          </Link>
        ) : (
          <p className="self-center text-sm text-soft">
            Your API key cannot create sessions: it does not have the scope users:act_as.
          </p>
        )
      }
    >
      <SectionTabs shown="sessions">
        <Card flush>
          <Filters>
            <UserPicker compact label="Owner" userId={values.user_id} onChange={(userId) => set({ user_id: userId })} />
            <FilterSelect name="status" label="Status" options={STATUSES} />
          </Filters>
          <SessionTable
            query={query}
            empty={
              isFiltered ? (
                <NoMatches names={FILTERS} what="delegated sessions" />
              ) : (
                <EmptyState title="No delegated sessions yet" command={sessionCommand(session.publicUrl)}>
                  These commands create a user with a wallet and a session that can write notes.
                </EmptyState>
              )
            }
          />
        </Card>
      </SectionTabs>
    </Page>
  )
}
