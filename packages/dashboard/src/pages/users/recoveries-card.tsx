import type { EmailRecovery, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Ban } from 'lucide-react'
import { useMemo } from 'react'
import { allows, api, apiFor } from '../../api.ts'
import { IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

/** More than a user can have: old ones are deleted. */
const ALL = 50
const PHONE = { side: 'available', when: 'requested', act: 'actions' }

const ENDED_BY: Record<NonNullable<EmailRecovery['endedBy']>, string> = {
  session: 'by the user or a server',
  link: 'by the link in the email',
  passkey: 'because a passkey was used or added',
  second_factor: 'because a second factor was set up',
  email_changed: 'because the address changed',
  suspended: 'because the user was suspended',
  tampered: 'because its record was changed outside Halfkey',
}

const isOpen = ({ status }: EmailRecovery) => status === 'pending' || status === 'ready'

function columnsFor(cancel: ((recovery: EmailRecovery) => void) | null): Column<EmailRecovery>[] {
  const actions: Column<EmailRecovery> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row: { original } }) =>
      isOpen(original) ? (
        <span className="ml-auto flex justify-end">
          <IconButton label="Cancel this recovery" onClick={() => cancel?.(original)}>
            <Ban aria-hidden className="size-4" />
          </IconButton>
        </span>
      ) : null,
  }
  return [
    {
      id: 'status',
      header: 'Status',
      cell: ({ row: { original } }) => (
        <span className="flex flex-wrap items-center gap-2">
          <StatusBadge status={original.status} />
          {original.endedBy === null ? null : <span className="text-soft">{ENDED_BY[original.endedBy]}</span>}
        </span>
      ),
    },
    { id: 'requested', header: 'Requested', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
    { id: 'available', header: 'Wait ends', cell: ({ row }) => <RelativeTime at={row.original.availableAt} /> },
    ...(cancel === null ? [] : [actions]),
  ]
}

function CancelDialog({
  userId,
  dialog,
}: {
  userId: string
  dialog: ReturnType<typeof useRecordDialog<EmailRecovery>>
}) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmDialog
      open={dialog.open}
      onOpenChange={dialog.onOpenChange}
      title="Cancel this recovery?"
      action="Cancel recovery"
      onConfirm={async () => {
        await apiFor(userId).auth.email.cancelRecovery()
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done('Recovery canceled')
      }}
    >
      <p>Nobody gets a new passkey. The user can request another recovery, which waits again.</p>
    </ConfirmDialog>
  )
}

/** Recoveries of a user who lost their passkeys, if there were any. Sessions that may act for users can cancel one. */
export function RecoveriesCard({ user }: { user: User }) {
  const { session } = useSession()
  const canceling = useRecordDialog<EmailRecovery>()
  const { show } = canceling
  const mayAct = ['users:act_as', 'auth:write'].every((scope) => allows(session, scope)) && user.status === 'active'
  const columns = useMemo(() => columnsFor(mayAct ? show : null), [mayAct, show])
  const query = useQuery({
    queryKey: ['users', 'one', user.id, 'recoveries'],
    queryFn: async ({ signal }) => await api.users.recoveries(user.id, { pageSize: ALL }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  if (query.data === undefined || query.data.total === 0) return null
  return (
    <Card
      flush
      title="Recoveries by email"
      description="Requests for a new passkey by somebody who reads the user’s mailbox."
    >
      <DataTable label="Recoveries by email" query={query} columns={columns} phone={PHONE} empty={null} />
      <CancelDialog userId={user.id} dialog={canceling} />
    </Card>
  )
}
