import type { App, Provider } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { Pencil, Trash2 } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api } from '../../../api.ts'
import { Button, IconButton } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmDialog, Dialog } from '../../../components/layout/dialog.tsx'
import { Page } from '../../../components/layout/page.tsx'
import { EmptyState } from '../../../components/layout/states.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { useRecordDialog } from '../../../components/layout/use-record-dialog.ts'
import { Badge } from '../../../components/records/badge.tsx'
import { RelativeTime } from '../../../components/records/relative-time.tsx'
import { UserText } from '../../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../../components/table/data-table.tsx'
import { useSession } from '../../../shell/session-context.ts'
import { AddDialog } from './add-dialog.tsx'
import { CallbackUrl } from './callback-url.tsx'
import { changesOf, inputOf, settingsFor } from './provider-fields.ts'

/** As many as an app can have. */
const ALL = 10
const PHONE = { side: 'jit', detail: 'issuer', when: 'changed', act: 'actions' }
const JIT = { create: 'creates users', match: 'linked only', refuse: 'off' } as const

interface Acts {
  edit: (provider: Provider) => void
  remove: (provider: Provider) => void
}

function columnsFor(acts: Acts | null): Column<Provider>[] {
  const actions: Column<Provider> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row: { original } }) => (
      <span className="ml-auto flex justify-end gap-1">
        <IconButton label={`Change ${original.name}`} onClick={() => acts?.edit(original)}>
          <Pencil aria-hidden className="size-4" />
        </IconButton>
        <IconButton label={`Remove ${original.name}`} onClick={() => acts?.remove(original)}>
          <Trash2 aria-hidden className="size-4" />
        </IconButton>
      </span>
    ),
  }
  return [
    {
      id: 'name',
      header: 'Provider',
      cell: ({ row }) => <UserText className="font-medium">{row.original.name}</UserText>,
    },
    { id: 'issuer', header: 'Issuer', cell: ({ row }) => <UserText>{row.original.issuer}</UserText> },
    {
      id: 'jit',
      header: 'New accounts',
      cell: ({ row: { original } }) => (
        <Badge tone={original.jit === 'refuse' ? 'danger' : 'neutral'}>{JIT[original.jit]}</Badge>
      ),
    },
    { id: 'changed', header: 'Changed', cell: ({ row }) => <RelativeTime at={row.original.updatedAt} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

function EditForm({ provider, onDone }: { provider: Provider; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <div className="flex flex-col gap-4">
      <CallbackUrl url={provider.callbackUrl} />
      <Form
        fields={settingsFor(provider.clientSecretSet)}
        values={inputOf(provider)}
        action="Save"
        onCancel={onDone}
        onSubmit={async (input) => {
          await api.apps.providers.update(provider.appId, provider.id, changesOf(input))
          await queries.invalidateQueries({ queryKey: ['apps', provider.appId] })
          toast.done('Provider saved')
          onDone()
        }}
      />
    </div>
  )
}

function RemoveDialog({ dialog }: { dialog: ReturnType<typeof useRecordDialog<Provider>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  const { record, open, onOpenChange } = dialog
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
      title="Remove this provider?"
      action="Remove"
      onConfirm={async () => {
        if (record === null) return
        await api.apps.providers.remove(record.appId, record.id)
        await queries.invalidateQueries({ queryKey: ['apps', record.appId] })
        toast.done('Provider removed')
      }}
    >
      <p>
        Nobody signs in with <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{record?.name}</bdi> any
        more. Users who have no other way to sign in can no longer sign in.
      </p>
      <p>Users and active sessions stay. If you add the provider again, its users can sign in again.</p>
    </ConfirmDialog>
  )
}

function Providers({ appId, mayWrite }: { appId: App['id']; mayWrite: boolean }) {
  const editing = useRecordDialog<Provider>()
  const removing = useRecordDialog<Provider>()
  const { show: edit } = editing
  const { show: remove } = removing
  const columns = useMemo(() => columnsFor(mayWrite ? { edit, remove } : null), [mayWrite, edit, remove])
  const query = useQuery({
    queryKey: ['apps', appId, 'providers'],
    queryFn: async ({ signal }) => await api.apps.providers.list(appId, { pageSize: ALL }, { signal }),
    placeholderData: keepPreviousData,
  })
  return (
    <Card flush>
      <DataTable
        label="Sign-in providers"
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          <EmptyState title="No sign-in providers">
            Users sign in with their account at Google, Apple, Microsoft, GitHub or another provider after you add it.
          </EmptyState>
        }
      />
      <Dialog
        open={editing.open}
        onOpenChange={editing.onOpenChange}
        title="Change provider"
        description={editing.record?.issuer ?? ''}
        wide
      >
        {editing.record === null ? null : (
          <EditForm provider={editing.record} onDone={() => editing.onOpenChange(false)} />
        )}
      </Dialog>
      <RemoveDialog dialog={removing} />
    </Card>
  )
}

/** The providers with whose accounts users of an app sign in. */
export function ProvidersPage() {
  const { appId } = useParams({ strict: false }) as { appId: string }
  const { session } = useSession()
  const [adding, setAdding] = useState(false)
  const mayWrite = allows(session, 'apps:write')
  return (
    <Page
      title="Sign-in providers"
      back={{ to: `/settings/apps/${appId}`, label: 'App' }}
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setAdding(true)}>
            Add a provider
          </Button>
        ) : undefined
      }
    >
      <Providers appId={appId} mayWrite={mayWrite} />
      <AddDialog appId={appId} open={adding} onClose={() => setAdding(false)} />
    </Page>
  )
}
