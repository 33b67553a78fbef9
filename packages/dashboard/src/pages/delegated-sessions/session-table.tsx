import type { DelegatedSession, Page as ListPage } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'

const CAPS_SHOWN = 2

function Left({ session }: { session: DelegatedSession }) {
  const { spend } = session.remaining
  if (spend.length === 0) return <span className="text-soft">Nothing</span>
  return (
    <span className="flex flex-col items-end tabular-nums">
      {spend.slice(0, CAPS_SHOWN).map(({ asset, remaining, limit }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a cap is known by its place in the policy
        <span key={index} className="max-w-56 truncate">
          {limit === null ? `${asset.symbol}, no limit` : `${remaining} of ${limit} ${asset.symbol}`}
        </span>
      ))}
      {spend.length > CAPS_SHOWN ? <span className="text-soft">and {spend.length - CAPS_SHOWN} more</span> : null}
    </span>
  )
}

const name: Column<DelegatedSession> = {
  id: 'name',
  header: 'Session',
  cell: ({ row: { original } }) => (
    <span className="block max-w-72 min-w-0">
      <RecordLink id={original.id} dir="auto" className="line-clamp-2 font-medium [overflow-wrap:anywhere]">
        {original.name ?? 'Unnamed session'}
      </RecordLink>
      <span className="block truncate font-mono text-xs text-soft">{original.id}</span>
    </span>
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
]

const FIGURES = ['left', 'uses']
const ALL = [name, owner, ...rest]
const WITHOUT_OWNER = [name, ...rest]

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
      empty={empty}
    />
  )
}
