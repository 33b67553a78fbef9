import type { Approval, Page as ListPage } from '@halfkey/sdk'
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CopyButton } from '../../components/records/copy.tsx'
import { shortParty } from '../../components/records/party.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RecordName } from '../../components/records/record-name.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserLink } from '../../components/records/user-link.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'

const RECIPIENTS_MAX = 2

/** How far each group of approvers has come, and who they are. Nothing if the owner alone is asked. */
function Progress({ approval: { approvers, approvedBy, userId } }: { approval: Approval }) {
  const isOwnerAlone = approvers.length === 1 && approvers[0]?.users.join() === userId
  if (isOwnerAlone) return null
  const approved = new Set(approvedBy.map((each) => each.userId))
  return approvers.map(({ users, threshold }) => (
    <div key={users.join()} className="flex flex-col py-1 text-soft">
      <span>
        {users.filter((id) => approved.has(id)).length} of {threshold} approved
      </span>
      {users.map((id) => (
        <span key={id}>
          {approved.has(id) ? '✓ ' : ''}
          <UserLink userId={id} />
        </span>
      ))}
    </div>
  ))
}

/** What would be paid, to whom, and why somebody is asked. Symbols and names were chosen by others. */
function Asked({ approval }: { approval: Approval }) {
  const { costs, recipients, rules, transactionId, reason } = approval
  const paid = costs.map(({ amount, asset }) => `${amount} ${asset.symbol}`).join(', ')
  const shown = recipients.slice(0, RECIPIENTS_MAX).map(shortParty).join(', ')
  const more = recipients.length - RECIPIENTS_MAX
  return (
    <div className="flex flex-col py-2 whitespace-normal [overflow-wrap:anywhere]">
      <RecordLink id={transactionId} className="font-medium">
        <bdi>{paid === '' ? 'Pays nothing' : paid}</bdi>
      </RecordLink>
      {shown === '' ? null : (
        <span title={recipients.join('\n')} className="text-soft">
          to <bdi>{shown}</bdi>
          {more > 0 ? ` and ${more} more` : ''}
        </span>
      )}
      {rules.map(({ rule, message }) => (
        <span key={rule} className="text-soft">
          <bdi>{message}</bdi>
        </span>
      ))}
      {reason === null ? null : (
        <span className="text-soft">
          Refused: <bdi>{reason}</bdi>
        </span>
      )}
    </div>
  )
}

const COLUMNS: Column<Approval>[] = [
  { id: 'asked', header: 'What is asked', cell: ({ row }) => <Asked approval={row.original} /> },
  { id: 'session', header: 'By', cell: ({ row }) => <RecordName id={row.original.delegatedSessionId} /> },
  { id: 'owner', header: 'Owner', cell: ({ row }) => <UserLink userId={row.original.userId} /> },
  { id: 'approvers', header: 'Approvers', cell: ({ row }) => <Progress approval={row.original} /> },
  { id: 'wallet', header: 'Wallet', cell: ({ row }) => <RecordLink id={row.original.walletId} /> },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  {
    id: 'expires',
    header: 'Expires',
    cell: ({ row: { original } }) =>
      original.status === 'pending' ? <RelativeTime at={original.expiresAt} /> : <span className="text-soft">–</span>,
  },
  {
    id: 'link',
    header: 'Link',
    cell: ({ row: { original } }) =>
      original.status === 'pending' ? <CopyButton text={original.link} what="the link to decide" /> : null,
  },
  { id: 'created', header: 'Asked', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

const PHONE = { side: 'status', detail: 'owner', when: 'expires' }

/** How the table can be sorted. */
export const APPROVAL_SORT = { created: 'createdAt' } as const

/** A table of what owners and approvers are asked for. */
export function ApprovalTable({ query, empty }: { query: UseQueryResult<ListPage<Approval>>; empty: ReactNode }) {
  return (
    <DataTable label="Approvals" query={query} columns={COLUMNS} phone={PHONE} sortable={APPROVAL_SORT} empty={empty} />
  )
}
