import type { Identity, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Unlink } from 'lucide-react'
import { useMemo } from 'react'
import { allows, api, apiFor } from '../../api.ts'
import { IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmDialog } from '../../components/layout/dialog.tsx'
import { EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

/** As many as a user can have. */
const ALL = 50
const PHONE = { side: 'provider', when: 'linked', act: 'actions' }

const providerOf = ({ provider, issuer }: Identity) => issuer ?? (provider === 'email' ? 'Email' : 'Telegram')

function columnsFor(unlink: ((identity: Identity) => void) | null): Column<Identity>[] {
  const actions: Column<Identity> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row: { original } }) => (
      <span className="ml-auto flex justify-end">
        <IconButton label={`Unlink ${original.subject} of ${providerOf(original)}`} onClick={() => unlink?.(original)}>
          <Unlink aria-hidden className="size-4" />
        </IconButton>
      </span>
    ),
  }
  return [
    {
      id: 'subject',
      header: 'Account',
      cell: ({ row: { original } }) => (
        <UserText className="font-medium">
          {original.username === null ? original.subject : `${original.username} (${original.subject})`}
        </UserText>
      ),
    },
    { id: 'provider', header: 'Provider', cell: ({ row }) => <UserText>{providerOf(row.original)}</UserText> },
    { id: 'linked', header: 'Linked', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
    ...(unlink === null ? [] : [actions]),
  ]
}

function UnlinkDialog({ userId, dialog }: { userId: string; dialog: ReturnType<typeof useRecordDialog<Identity>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  const { record, open, onOpenChange } = dialog
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
      title="Unlink this identity?"
      action="Unlink identity"
      onConfirm={async () => {
        await apiFor(userId).auth.identities.unlink(record?.id ?? '')
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done('Identity unlinked')
      }}
    >
      <p>
        <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{record?.subject}</bdi> of{' '}
        <bdi className="[overflow-wrap:anywhere]">{record === null ? '' : providerOf(record)}</bdi> no longer signs the
        user in. Active sessions continue.
      </p>
      <p>The last way to sign in cannot be removed.</p>
    </ConfirmDialog>
  )
}

/** The accounts elsewhere that sign a user in. Sessions that may act for users can unlink them. */
export function IdentitiesCard({ user }: { user: User }) {
  const { session } = useSession()
  const unlinking = useRecordDialog<Identity>()
  const { show } = unlinking
  const mayAct = allows(session, 'users:act_as') && user.status === 'active'
  const columns = useMemo(() => columnsFor(mayAct ? show : null), [mayAct, show])
  const query = useQuery({
    queryKey: ['users', 'one', user.id, 'identities'],
    queryFn: async ({ signal }) => await api.users.identities(user.id, { pageSize: ALL }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card flush title="Identities" description="Accounts elsewhere that sign the user in.">
      <DataTable
        label="Identities"
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          <EmptyState title="No identities">
            The user signs in without an account elsewhere. An identity is added when the user signs in with a token of
            an issuer that the app trusts, or links one.
          </EmptyState>
        }
      />
      <UnlinkDialog userId={user.id} dialog={unlinking} />
    </Card>
  )
}
