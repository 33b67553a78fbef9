import type { Session, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { allows, api, apiFor } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmButton } from '../../components/layout/confirm-button.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { deviceInWords, methodsInWords } from './sign-in-words.ts'

const PHONE = { side: 'methods', detail: 'address', when: 'since', act: 'end' }

function columnsFor(end: ((session: Session) => void) | null, ended: boolean): Column<Session>[] {
  const action: Column<Session> = {
    id: 'end',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row }) => (
      <span className="ml-auto flex justify-end">
        <Button
          aria-label={`End the session on ${deviceInWords(row.original.userAgent)}`}
          onClick={() => end?.(row.original)}
        >
          End
        </Button>
      </span>
    ),
  }
  return [
    {
      id: 'device',
      header: 'Device',
      cell: ({ row }) => (
        <span title={row.original.userAgent ?? undefined}>
          <UserText className="font-medium">{deviceInWords(row.original.userAgent)}</UserText>
        </span>
      ),
    },
    { id: 'methods', header: 'Method', cell: ({ row }) => methodsInWords(row.original.methods) },
    {
      id: 'address',
      header: 'IP address',
      cell: ({ row }) => <code className="font-mono text-xs">{row.original.address}</code>,
    },
    { id: 'since', header: 'Signed in', cell: ({ row }) => <RelativeTime at={row.original.signedInAt} /> },
    {
      id: 'mfa',
      header: 'Second factor',
      cell: ({ row }) => <RelativeTime at={row.original.mfaVerifiedAt} none="not used" />,
    },
    ended
      ? { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> }
      : { id: 'ends', header: 'Expires', cell: ({ row }) => <RelativeTime at={row.original.expiresAt} /> },
    ...(end === null ? [] : [action]),
  ]
}

function EndAll({ user }: { user: User }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmButton
      label="Sign out everywhere"
      title="Sign this user out everywhere?"
      action="Sign out"
      onConfirm={async () => {
        const { revoked } = await apiFor(user.id).auth.logOut({ everywhere: true })
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done(revoked === 1 ? 'One session ended' : `${revoked} sessions ended`)
      }}
    >
      <p>All sessions end immediately, on all devices. The user can sign in again.</p>
    </ConfirmButton>
  )
}

function EndOne({ userId, dialog }: { userId: string; dialog: ReturnType<typeof useRecordDialog<Session>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  const { record, open, onOpenChange } = dialog
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
      title="End this session?"
      action="End session"
      onConfirm={async () => {
        await apiFor(userId).auth.sessions.end(record?.id ?? '')
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done('Session ended')
      }}
    >
      <p className="[overflow-wrap:anywhere]">
        {deviceInWords(record?.userAgent ?? null)} at {record?.address} is signed out immediately. The user can sign in
        again.
      </p>
    </ConfirmDialog>
  )
}

/** The sessions of a user: the active ones with the actions that end them, or those that have ended. */
export function SessionsTab({ user }: { user: User }) {
  const { session } = useSession()
  const { values, page, set } = useFilters()
  const ended = values.sessions === 'ended'
  const dialog = useRecordDialog<Session>()
  const mayAct = allows(session, 'users:act_as') && user.status === 'active'
  const { show } = dialog
  const columns = useMemo(() => columnsFor(mayAct && !ended ? show : null, ended), [mayAct, ended, show])
  const query = useQuery({
    queryKey: ['users', 'one', user.id, 'sessions', ended, page],
    queryFn: async ({ signal }) =>
      await api.users.sessions(user.id, { page, ...(ended ? { status: 'ended' } : {}) }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const some = (query.data?.total ?? 0) > 0
  return (
    <Card
      flush
      title={ended ? 'Ended sessions' : 'Active sessions'}
      description={
        ended
          ? 'Sessions that ended in the last 30 days.'
          : some && !allows(session, 'users:act_as')
            ? 'To end a session, sign in with a key that has the scope users:act_as.'
            : 'Where the user is signed in now.'
      }
      actions={
        <>
          <Button onClick={() => set({ sessions: ended ? undefined : 'ended' })}>
            {ended ? 'Show active' : 'Show ended'}
          </Button>
          {mayAct && some && !ended ? <EndAll user={user} /> : null}
        </>
      }
    >
      <DataTable
        label={ended ? 'Ended sessions' : 'Active sessions'}
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          ended ? (
            <EmptyState title="No session ended in the last 30 days" />
          ) : (
            <EmptyState title="Not signed in anywhere">
              {user.status === 'suspended'
                ? 'All sessions ended when the user was suspended. The user can sign in again after you activate them.'
                : 'A session starts when the user signs in.'}
            </EmptyState>
          )
        }
      />
      <EndOne userId={user.id} dialog={dialog} />
    </Card>
  )
}
