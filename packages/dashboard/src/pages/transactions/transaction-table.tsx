import type { Page as ListPage, TransactionSummary } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { operationsWords } from './operation-words.ts'

const what: Column<TransactionSummary> = {
  id: 'what',
  header: 'Transaction',
  cell: ({ row: { original } }) => (
    <RecordLink id={original.id} className="block truncate font-medium">
      {operationsWords(original.operations)}
    </RecordLink>
  ),
}

const owner: Column<TransactionSummary> = {
  id: 'owner',
  header: 'Owner',
  cell: ({ row }) => <UserLink userId={row.original.userId} />,
}

const command: Column<TransactionSummary> = {
  id: 'command',
  header: 'Command',
  cell: ({ row }) => (
    <span className="block truncate font-mono text-xs text-soft" title={row.original.commandId}>
      {row.original.commandId}
    </span>
  ),
}

const rest: Column<TransactionSummary>[] = [
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'ledger', header: 'Ledger', cell: ({ row }) => row.original.ledger },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

const ALL = [what, owner, command, ...rest]
const WITHOUT_OWNER = [what, command, ...rest]
const PHONE = { side: 'status', detail: 'owner', when: 'created' }
const PHONE_WITHOUT_OWNER = { ...PHONE, detail: 'command' }

/** How the table can be sorted. */
export const TRANSACTION_SORT = { created: 'createdAt' } as const

/** A table of transactions. `ofOne`: all belong to one wallet, so the owner is not shown. */
export function TransactionTable({
  query,
  empty,
  ofOne = false,
}: {
  query: UseQueryResult<ListPage<TransactionSummary>>
  empty: ReactNode
  ofOne?: boolean
}) {
  return (
    <DataTable
      label="Transactions"
      query={query}
      columns={ofOne ? WITHOUT_OWNER : ALL}
      phone={ofOne ? PHONE_WITHOUT_OWNER : PHONE}
      sortable={TRANSACTION_SORT}
      empty={empty}
    />
  )
}
