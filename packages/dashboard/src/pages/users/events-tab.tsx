import type { AuditEntry, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { api } from '../../api.ts'
import { Select } from '../../components/controls/select.tsx'
import { Card } from '../../components/layout/card.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { RecordName } from '../../components/records/record-name.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'

const VIEWS = [
  { value: 'by', label: 'By or for this user' },
  { value: 'to', label: 'Changes to this user' },
] as const

/** Shows the other party of an entry: the user is the same in all of them. */
function columnsFor(other: Column<AuditEntry>): Column<AuditEntry>[] {
  return [
    {
      id: 'action',
      header: 'Event',
      cell: ({ row }) => <code className="font-mono text-[0.8125rem] font-medium">{row.original.action}</code>,
    },
    other,
    {
      id: 'address',
      header: 'IP address',
      cell: ({ row }) =>
        row.original.address === null ? (
          '–'
        ) : (
          <code className="font-mono text-[0.8125rem]">{row.original.address}</code>
        ),
    },
    { id: 'at', header: 'Time', cell: ({ row }) => <RelativeTime at={row.original.at} /> },
  ]
}

const COLUMNS = {
  by: columnsFor({ id: 'target', header: 'Target', cell: ({ row }) => <RecordName id={row.original.target} /> }),
  to: columnsFor({ id: 'actor', header: 'Actor', cell: ({ row }) => <RecordName id={row.original.actor} /> }),
}

const PHONE = {
  by: { detail: 'target', when: 'at' },
  to: { detail: 'actor', when: 'at' },
}

/** The audit log of a user: what they did, and what was done to their record. */
export function EventsTab({ user }: { user: User }) {
  const { values, page, set } = useFilters()
  const view = values.events === 'to' ? 'to' : 'by'
  const query = useQuery({
    queryKey: ['audit-log', 'of', user.id, view, page],
    queryFn: async ({ signal }) =>
      await api.auditLog.list({ ...(view === 'to' ? { target: user.id } : { actor: user.id }), page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card
      flush
      title="Events"
      description="From the audit log. New entries appear after about a second."
      actions={
        <>
          <Link
            to="/audit-log"
            search={{ user_id: user.id } as never}
            className="self-center text-sm text-accent hover:underline"
          >
            Audit log of this user
          </Link>
          <Select
            label="Which events"
            value={view}
            options={VIEWS}
            onChange={(next) => set({ events: next === 'by' ? undefined : next })}
          />
        </>
      }
    >
      <DataTable
        label="Events"
        query={query}
        columns={COLUMNS[view]}
        phone={PHONE[view]}
        empty={
          <EmptyState title="No events yet">
            {view === 'by'
              ? 'Sign-ins, passkeys, the wallet and delegated sessions of the user appear here.'
              : 'The creation of the user, changes and the second factor appear here.'}
          </EmptyState>
        }
      />
    </Card>
  )
}
