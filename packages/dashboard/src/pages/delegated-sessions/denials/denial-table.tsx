import type { Denial, Page as ListPage } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { RecordName } from '../../../components/records/record-name.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { UserLink } from '../../../components/records/user-link.tsx'
import { type Column, DataTable } from '../../../components/table/data-table.tsx'
import { BUDGET_WINDOWS } from '../policy/policy-words.ts'

/** What would have been allowed; null if no cap refused. */
function allowedInWords({ remaining, asset, limit, window }: Denial): string | null {
  if (remaining === null || asset === null) return null
  const cap = limit === null || window === null ? '' : `, of ${limit} ${asset.symbol} ${BUDGET_WINDOWS[window]}`
  return `Would have been allowed: up to ${remaining} ${asset.symbol}${cap}`
}

function Reason({ denial }: { denial: Denial }) {
  const allowed = allowedInWords(denial)
  return (
    <div className="flex flex-col py-2 whitespace-normal [overflow-wrap:anywhere]">
      <span className="font-medium">{denial.message}</span>
      <span className="text-soft">
        <code className="font-mono text-xs">{denial.rule}</code>
        {allowed === null ? null : ` · ${allowed}`}
      </span>
    </div>
  )
}

const reason: Column<Denial> = {
  id: 'reason',
  header: 'Why it was refused',
  cell: ({ row }) => <Reason denial={row.original} />,
}
const session: Column<Denial> = {
  id: 'session',
  header: 'Session',
  cell: ({ row }) => <RecordName id={row.original.sessionId} />,
}
const owner: Column<Denial> = {
  id: 'owner',
  header: 'Owner',
  cell: ({ row }) => <UserLink userId={row.original.userId} />,
}
const rest: Column<Denial>[] = [
  {
    id: 'count',
    header: 'Attempts',
    cell: ({ row }) => <span title="How many attempts this rule refused within one minute">×{row.original.count}</span>,
  },
  { id: 'time', header: 'Last', cell: ({ row }) => <RelativeTime at={row.original.lastAt} /> },
]

const NUMERIC = ['count']
const COLUMNS = {
  session: [reason, ...rest],
  user: [reason, session, ...rest],
  all: [reason, session, owner, ...rest],
} satisfies Record<string, Column<Denial>[]>
const PHONE = {
  session: { side: 'count', when: 'time' },
  user: { side: 'count', detail: 'session', when: 'time' },
  all: { side: 'count', detail: 'session', when: 'time' },
}

/** A record has no id: there is one for each session, rule and minute. */
const keyOf = ({ sessionId, code, rule, command, firstAt }: Denial) =>
  [sessionId, code, rule, command, firstAt].join(' ')

/** A table of refused attempts. `of` is what all of them have in common: that column is left out. */
export function DenialTable({
  query,
  of,
  empty,
}: {
  query: UseQueryResult<ListPage<Denial>>
  of: 'session' | 'user' | 'all'
  empty: ReactNode
}) {
  return (
    <DataTable
      label="Refused attempts"
      query={query}
      columns={COLUMNS[of]}
      phone={PHONE[of]}
      numeric={NUMERIC}
      rowKey={keyOf}
      empty={empty}
    />
  )
}
