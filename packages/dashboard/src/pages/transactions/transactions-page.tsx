import type { TransactionSummary } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { X } from 'lucide-react'
import { api } from '../../api.ts'
import { UserPicker } from '../../components/controls/user-picker.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { CsvButton } from '../../components/table/csv-button.tsx'
import { FilterSelect, Filters, FilterText, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { transactionCommand } from './commands.ts'
import { TRANSACTION_SORT, TransactionTable } from './transaction-table.tsx'
import { unknownIsEmpty } from './unknown-is-empty.ts'

const STATUSES = [
  'received',
  'reserved',
  'approval_required',
  'signature_required',
  'submitted',
  'completed',
  'failed',
] as const
const FILTERS = ['status', 'user_id', 'wallet_id', 'delegated_session_id', 'command_id', 'find']
const ID = /^(wal|dse|usr)_[0-9a-z]{26}$/
const FILTER_OF_ID = { wal: 'walletId', dse: 'delegatedSessionId', usr: 'userId' } as const

/** The filter for a typed id, by its prefix; any other text is a command id. */
function filterOfText(find: string | undefined): object {
  if (find === undefined || find === '') return {}
  const prefix = ID.exec(find)?.[1] as keyof typeof FILTER_OF_ID | undefined
  return { [prefix === undefined ? 'commandId' : FILTER_OF_ID[prefix]]: find }
}

function filterOfStatus(status: string | undefined): { status?: TransactionSummary['status'] } {
  const found = STATUSES.find((each) => each === status)
  return found === undefined ? {} : { status: found }
}

/** The filters of the URL, by their names in the API. */
function filterOf(values: Record<string, string | undefined>): Record<string, string | undefined> {
  return {
    userId: values.user_id,
    walletId: values.wallet_id,
    delegatedSessionId: values.delegated_session_id,
    commandId: values.command_id,
    ...filterOfStatus(values.status),
    ...filterOfText(values.find),
  }
}

/** A filter that came with a link and can only be removed. */
function Chip({ name, label }: { name: string; label: string }) {
  const { values, set } = useFilters()
  const value = values[name]
  if (value === undefined) return null
  return (
    <span className="inline-flex min-h-9 max-w-full items-center gap-1 rounded-control bg-accent-wash pl-3 text-sm text-accent">
      <span className="min-w-0 truncate">
        {label} <span className="font-mono text-[0.8125rem]">{value}</span>
      </span>
      <button
        type="button"
        aria-label={`Remove the filter ${label}`}
        onClick={() => set({ [name]: undefined })}
        className="inline-flex size-9 flex-none items-center justify-center rounded-control max-md:size-11"
      >
        <X aria-hidden className="size-4" />
      </button>
    </span>
  )
}

function TransactionFilters() {
  const { values, set } = useFilters()
  const sort = useSort(TRANSACTION_SORT)
  return (
    <Filters>
      <FilterText name="find" label="Find" placeholder="Command, wallet or session id" />
      <FilterSelect name="status" label="Status" options={STATUSES} />
      <UserPicker compact label="Owner" userId={values.user_id} onChange={(userId) => set({ user_id: userId })} />
      <Chip name="wallet_id" label="Wallet" />
      <Chip name="delegated_session_id" label="Session" />
      <Chip name="command_id" label="Command" />
      <CsvButton list="transactions" query={{ ...filterOf(values), sort }} />
    </Filters>
  )
}

/** The transactions of all delegated sessions. */
export function TransactionsPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const sort = useSort(TRANSACTION_SORT)
  const query = useQuery({
    queryKey: ['transactions', values, page],
    queryFn: ({ signal }) => {
      const filter = { page, sort, ...filterOf(values) }
      return unknownIsEmpty(api.transactions.list(filter as Parameters<typeof api.transactions.list>[0], { signal }))
    },
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const isFiltered = FILTERS.some((name) => values[name] !== undefined)
  return (
    <Page
      title="Transactions"
      description="Transactions that delegated sessions executed from the wallets of your users."
    >
      <Card flush>
        <TransactionFilters />
        <TransactionTable
          query={query}
          empty={
            isFiltered ? (
              <NoMatches names={FILTERS} what="transactions" />
            ) : (
              <EmptyState title="No transactions yet" command={transactionCommand(session.publicUrl)}>
                These commands create a user with a wallet, a delegated session that can write notes, and a first note.
              </EmptyState>
            )
          }
        />
      </Card>
    </Page>
  )
}
