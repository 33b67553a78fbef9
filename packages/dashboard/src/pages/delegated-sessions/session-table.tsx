import type { DelegatedSession, Page as ListPage } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'

function Left({ session }: { session: DelegatedSession }) {
  const { spend } = session.remaining
  if (spend.length === 0) return <span className="text-soft">Nothing</span>
  const caps = spend.map(({ asset, remaining, limit }) =>
    limit === null ? `${asset.symbol}, no limit` : `${remaining} of ${limit} ${asset.symbol}`,
  )
  return (
    <span title={caps.join('\n')} className="block truncate tabular-nums">
      {caps[0]}
      {caps.length > 1 ? <span className="text-soft"> +{caps.length - 1}</span> : null}
    </span>
  )
}

const name: Column<DelegatedSession> = {
  id: 'name',
  header: 'Session',
  cell: ({ row: { original } }) => (
    <RecordLink id={original.id} dir="auto" title={original.name ?? original.id} className="block truncate font-medium">
      {original.name ?? 'Unnamed session'}
    </RecordLink>
  ),
}

const owner: Column<DelegatedSession> = {
  id: 'owner',
  header: 'Owner',
  cell: ({ row }) => <UserLink userId={row.original.userId} />,
}

const rest: Column<DelegatedSession>[] = [
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'left', header: 'Left to spend', cell: ({ row }) => <Left session={row.original} /> },
  {
    id: 'uses',
    header: 'Uses',
    cell: ({ row: { original } }) => (
      <span className="tabular-nums">
        {original.uses}
        {original.maxUses === null ? '' : ` of ${original.maxUses}`}
      </span>
    ),
  },
  { id: 'expires', header: 'Expires', cell: ({ row }) => <RelativeTime at={row.original.expiresAt} /> },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

const FIGURES = ['left', 'uses']
const PHONE = { side: 'status', detail: 'owner', when: 'left' }
const PHONE_WITHOUT_OWNER = { side: 'status', detail: 'left', when: 'expires' }
const ALL = [name, owner, ...rest]
const WITHOUT_OWNER = [name, ...rest]

/** How the table can be sorted. */
export const SESSION_SORT = { created: 'createdAt' } as const

/** A table of delegated sessions. `ofOne`: all belong to one wallet, so the owner is not shown. */
export function SessionTable({
  query,
  empty,
  ofOne = false,
}: {
  query: UseQueryResult<ListPage<DelegatedSession>>
  empty: ReactNode
  ofOne?: boolean
}) {
  return (
    <DataTable
      label="Delegated sessions"
      query={query}
      columns={ofOne ? WITHOUT_OWNER : ALL}
      numeric={FIGURES}
      phone={ofOne ? PHONE_WITHOUT_OWNER : PHONE}
      sortable={SESSION_SORT}
      empty={empty}
    />
  )
}
