import type { App, Issuer } from '@halfkey/sdk'
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
import { changesOf, inputOf, SETTINGS } from './issuer-fields.ts'
import { TrustDialog } from './trust-dialog.tsx'

/** As many as an app can trust. */
const ALL = 10
const PHONE = { side: 'jit', detail: 'audiences', when: 'changed', act: 'actions' }
const JIT = { create: 'creates users', match: 'linked only', refuse: 'refused' } as const

interface Acts {
  edit: (issuer: Issuer) => void
  remove: (issuer: Issuer) => void
}

function columnsFor(acts: Acts | null): Column<Issuer>[] {
  const actions: Column<Issuer> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row: { original } }) => (
      <span className="ml-auto flex justify-end gap-1">
        <IconButton label={`Change ${original.issuer}`} onClick={() => acts?.edit(original)}>
          <Pencil aria-hidden className="size-4" />
        </IconButton>
        <IconButton label={`Stop trusting ${original.issuer}`} onClick={() => acts?.remove(original)}>
          <Trash2 aria-hidden className="size-4" />
        </IconButton>
      </span>
    ),
  }
  return [
    {
      id: 'issuer',
      header: 'Issuer',
      cell: ({ row }) => <UserText className="font-medium">{row.original.issuer}</UserText>,
    },
    {
      id: 'audiences',
      header: 'Audiences',
      cell: ({ row }) => <UserText>{row.original.audiences.join(', ')}</UserText>,
    },
    {
      id: 'jit',
      header: 'New identities',
      cell: ({ row: { original } }) => (
        <Badge tone={original.jit === 'refuse' ? 'danger' : 'neutral'}>{JIT[original.jit]}</Badge>
      ),
    },
    { id: 'changed', header: 'Changed', cell: ({ row }) => <RelativeTime at={row.original.updatedAt} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

function EditForm({ issuer, onDone }: { issuer: Issuer; onDone: () => void }) {
  const queries = useQueryClient()
  const toast = useToast()
  return (
    <Form
      fields={SETTINGS}
      values={inputOf(issuer)}
      action="Save"
      onCancel={onDone}
      onSubmit={async ({ issuer: _, ...settings }) => {
        await api.apps.issuers.update(issuer.appId, issuer.id, changesOf(settings))
        await queries.invalidateQueries({ queryKey: ['apps', issuer.appId] })
        toast.done('Issuer saved')
        onDone()
      }}
    />
  )
}

function RemoveDialog({ dialog }: { dialog: ReturnType<typeof useRecordDialog<Issuer>> }) {
  const queries = useQueryClient()
  const toast = useToast()
  const { record, open, onOpenChange } = dialog
  return (
    <ConfirmDialog
      open={open}
      onOpenChange={onOpenChange}
      title="Stop trusting this issuer?"
      action="Stop trusting"
      onConfirm={async () => {
        if (record === null) return
        await api.apps.issuers.remove(record.appId, record.id)
        await queries.invalidateQueries({ queryKey: ['apps', record.appId] })
        toast.done('Issuer removed')
      }}
    >
      <p>
        Tokens of <bdi className="font-medium text-ink [overflow-wrap:anywhere]">{record?.issuer}</bdi> are refused
        immediately. Users who have no other way to sign in can no longer sign in.
      </p>
      <p>Users and active sessions stay. If you trust the issuer again, its users can sign in again.</p>
    </ConfirmDialog>
  )
}

function Issuers({ appId, mayWrite }: { appId: App['id']; mayWrite: boolean }) {
  const editing = useRecordDialog<Issuer>()
  const removing = useRecordDialog<Issuer>()
  const { show: edit } = editing
  const { show: remove } = removing
  const columns = useMemo(() => columnsFor(mayWrite ? { edit, remove } : null), [mayWrite, edit, remove])
  const query = useQuery({
    queryKey: ['apps', appId, 'issuers'],
    queryFn: async ({ signal }) => await api.apps.issuers.list(appId, { pageSize: ALL }, { signal }),
    placeholderData: keepPreviousData,
  })
  return (
    <Card flush>
      <DataTable
        label="Trusted issuers"
        query={query}
        columns={columns}
        phone={PHONE}
        empty={
          <EmptyState title="No trusted issuers">
            Users of a login that you have, such as Auth0 or Keycloak, sign in with its tokens after the app trusts it.
          </EmptyState>
        }
      />
      <Dialog
        open={editing.open}
        onOpenChange={editing.onOpenChange}
        title="Change issuer"
        description={editing.record?.issuer ?? ''}
        wide
      >
        {editing.record === null ? null : (
          <EditForm issuer={editing.record} onDone={() => editing.onOpenChange(false)} />
        )}
      </Dialog>
      <RemoveDialog dialog={removing} />
    </Card>
  )
}

/** The logins whose tokens an app accepts. */
export function IssuersPage() {
  const { appId } = useParams({ strict: false }) as { appId: string }
  const { session } = useSession()
  const [trusting, setTrusting] = useState(false)
  const mayWrite = allows(session, 'apps:write')
  return (
    <Page
      title="Trusted issuers"
      back={{ to: `/settings/apps/${appId}`, label: 'App' }}
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setTrusting(true)}>
            Trust an issuer
          </Button>
        ) : undefined
      }
    >
      <Issuers appId={appId} mayWrite={mayWrite} />
      <TrustDialog appId={appId} open={trusting} onClose={() => setTrusting(false)} />
    </Page>
  )
}
