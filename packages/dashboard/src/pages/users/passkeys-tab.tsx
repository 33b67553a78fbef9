import type { Passkey, User } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Pencil, Trash2 } from 'lucide-react'
import { useMemo } from 'react'
import { allows, api, apiFor } from '../../api.ts'
import { IconButton } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import { Card } from '../../components/layout/card.tsx'
import { ConfirmDialog, Dialog } from '../../components/layout/dialog.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'

const nameOf = (passkey: Passkey | null) => passkey?.name ?? 'Unnamed passkey'

interface Acts {
  rename: (passkey: Passkey) => void
  remove: (passkey: Passkey) => void
}

const PHONE = { side: 'kind', detail: 'rp', when: 'used', act: 'actions' }

function columnsFor(acts: Acts | null): Column<Passkey>[] {
  const actions: Column<Passkey> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row }) => (
      <span className="ml-auto flex justify-end gap-1">
        <IconButton label={`Rename ${nameOf(row.original)}`} onClick={() => acts?.rename(row.original)}>
          <Pencil aria-hidden className="size-4" />
        </IconButton>
        <IconButton label={`Remove ${nameOf(row.original)}`} onClick={() => acts?.remove(row.original)}>
          <Trash2 aria-hidden className="size-4" />
        </IconButton>
      </span>
    ),
  }
  return [
    {
      id: 'name',
      header: 'Name',
      cell: ({ row }) => <UserText className="font-medium">{nameOf(row.original)}</UserText>,
    },
    {
      id: 'kind',
      header: 'Storage',
      cell: ({ row: { original } }) =>
        original.deviceType === 'singleDevice' ? 'on one device' : original.backedUp ? 'synced' : 'can be synced',
    },
    {
      id: 'rp',
      header: 'Relying party id',
      cell: ({ row }) => <UserText>{row.original.rpId}</UserText>,
    },
    { id: 'used', header: 'Last used', cell: ({ row }) => <RelativeTime at={row.original.lastUsedAt} none="never" /> },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

function RenameForm({ userId, passkey, onDone }: { userId: string; passkey: Passkey; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <Form
      fields={[{ name: 'name', label: 'Name', help: 'The user sees this name too.', input: { dir: 'auto' } }]}
      values={{ name: passkey.name ?? '' }}
      action="Save"
      onCancel={onDone}
      onSubmit={async ({ name }) => {
        await apiFor(userId).auth.passkeys.rename(passkey.id, name === '' ? null : name)
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done('Passkey renamed')
        onDone()
      }}
    />
  )
}

function RemoveDialog({ userId, dialog }: { userId: string; dialog: ReturnType<typeof useRecordDialog<Passkey>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <ConfirmDialog
      open={dialog.open}
      onOpenChange={dialog.onOpenChange}
      title="Remove this passkey?"
      action="Remove passkey"
      onConfirm={async () => {
        await apiFor(userId).auth.passkeys.remove(dialog.record?.id ?? '')
        await queries.invalidateQueries({ queryKey: ['users'] })
        toast.done('Passkey removed')
      }}
    >
      <p>
        <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{nameOf(dialog.record)}</bdi> no longer signs the
        user in. Active sessions continue.
      </p>
      <p>The user can delete the passkey from the device.</p>
    </ConfirmDialog>
  )
}

/** The passkeys of a user. Sessions that may act for users can rename and remove them. */
export function PasskeysTab({ user }: { user: User }) {
  const { session } = useSession()
  const { page } = useFilters()
  const renaming = useRecordDialog<Passkey>()
  const removing = useRecordDialog<Passkey>()
  const mayAct = allows(session, 'users:act_as') && user.status === 'active'
  const { show: rename } = renaming
  const { show: remove } = removing
  const columns = useMemo(() => columnsFor(mayAct ? { rename, remove } : null), [mayAct, rename, remove])
  const query = useQuery({
    queryKey: ['users', 'one', user.id, 'passkeys', page],
    queryFn: async ({ signal }) => await api.users.passkeys(user.id, { page }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Card
      flush
      title="Passkeys"
      {...(allows(session, 'users:act_as')
        ? {}
        : { description: 'To rename or remove a passkey, sign in with a key that has the scope users:act_as.' })}
    >
      <DataTable
        label="Passkeys"
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          <EmptyState
            title="No passkeys"
            command={curl(session.publicUrl, 'POST', '/auth/passkey/register-options', {}, user.id)}
          >
            Your server starts the registration with this command. The browser of the user completes it with the
            response.
          </EmptyState>
        }
      />
      <Dialog open={renaming.open} onOpenChange={renaming.onOpenChange} title="Rename passkey">
        {renaming.record === null ? null : (
          <RenameForm userId={user.id} passkey={renaming.record} onDone={() => renaming.onOpenChange(false)} />
        )}
      </Dialog>
      <RemoveDialog userId={user.id} dialog={removing} />
    </Card>
  )
}
