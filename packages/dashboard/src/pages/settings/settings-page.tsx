import type { App, Tenant } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useMemo, useState } from 'react'
import { allows, api, fieldErrors, messageOf } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Labelled, TextField } from '../../components/controls/field.tsx'
import { Select } from '../../components/controls/select.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'

function TenantForm({ tenant }: { tenant: Tenant }) {
  const client = useQueryClient()
  const toast = useToast()
  const apps = useAppOptions()
  const [name, setName] = useState(tenant.name)
  const [defaultAppId, setDefaultAppId] = useState(tenant.settings.defaultAppId)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const errors = fieldErrors(error)
  const save = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await api.tenant.update({ name, settings: { defaultAppId } })
      await client.invalidateQueries()
      toast.done('Saved')
    } catch (failure) {
      setError(failure)
    } finally {
      setBusy(false)
    }
  }
  return (
    <form onSubmit={(event) => void save(event)} className="flex max-w-lg flex-col gap-4">
      <TextField label="Name" value={name} onChange={setName} error={errors.name} required maxLength={200} />
      {apps.length < 2 ? null : (
        <Labelled
          label="Default app"
          hint="Users and sign-ins that name no app are this one’s."
          error={errors['settings.defaultAppId']}
        >
          <Select label="Default app" value={defaultAppId} options={apps} onChange={setDefaultAppId} />
        </Labelled>
      )}
      {error === null || Object.keys(errors).length > 0 ? null : (
        <p role="alert" className="text-sm text-danger">
          {messageOf(error)}
        </p>
      )}
      <Button tone="primary" type="submit" busy={busy} className="self-start">
        Save
      </Button>
    </form>
  )
}

function TenantCard() {
  const { session } = useSession()
  const query = useQuery({ queryKey: ['tenant'], queryFn: ({ signal }) => api.tenant.get({ signal }) })
  if (query.isPending) return <Loading />
  if (query.data === undefined) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  const mayWrite = allows(session, 'tenant:write') && session.appId === null
  return (
    <Card title="Tenant" description="What everything here belongs to.">
      <div className="flex flex-col gap-5">
        <Details>
          <Detail label="Id">
            <CopyableId id={query.data.id} what="tenant id" />
          </Detail>
          <Detail label="Plan">
            <Badge tone="accent">{query.data.plan.replaceAll('_', ' ')}</Badge>
          </Detail>
          <Detail label="Created">
            <RelativeTime at={query.data.createdAt} />
          </Detail>
        </Details>
        {mayWrite ? <TenantForm key={query.data.updatedAt} tenant={query.data} /> : <p>{query.data.name}</p>}
      </div>
    </Card>
  )
}

function columnsOf(defaultAppId: string): Column<App>[] {
  return [
    {
      id: 'name',
      header: 'App',
      cell: ({ row }) => (
        <span className="flex flex-wrap items-center gap-2">
          <Link
            to="/settings/apps/$appId"
            params={{ appId: row.original.id } as never}
            className="font-medium text-accent hover:underline [overflow-wrap:anywhere]"
          >
            {row.original.name}
          </Link>
          {row.original.id === defaultAppId ? <Badge>default</Badge> : null}
        </span>
      ),
    },
    { id: 'rp', header: 'Passkeys of', cell: ({ row }) => row.original.passkey.rpId },
    { id: 'origins', header: 'Origins', cell: ({ row }) => row.original.allowedOrigins.length },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  ]
}

function NewApp({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const create = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    try {
      const app = await api.apps.create({ name })
      await client.invalidateQueries({ queryKey: ['apps'] })
      await navigate({ to: '/settings/apps/$appId', params: { appId: app.id } as never })
    } catch (failure) {
      setError(failure)
      setBusy(false)
    }
  }
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Create an app"
      description="An app has users, keys and settings of its own."
    >
      <form onSubmit={(event) => void create(event)} className="flex flex-col gap-4">
        <TextField
          label="Name"
          value={name}
          onChange={setName}
          required
          maxLength={200}
          error={error === null ? undefined : (fieldErrors(error).name ?? messageOf(error))}
        />
        <Button tone="primary" type="submit" busy={busy} className="self-end">
          Create
        </Button>
      </form>
    </Dialog>
  )
}

/** The tenant and its apps. */
export function SettingsPage() {
  const { session } = useSession()
  const { values, page, set } = useFilters()
  const columns = useMemo(() => columnsOf(session.defaultAppId), [session.defaultAppId])
  const query = useQuery({
    queryKey: ['apps', page],
    queryFn: async ({ signal }) => await api.apps.list({ page }, { signal }),
    placeholderData: keepPreviousData,
    enabled: allows(session, 'apps:read'),
  })
  const mayCreate = allows(session, 'apps:write') && session.appId === null
  return (
    <Page title="Settings">
      {allows(session, 'tenant:read') ? <TenantCard /> : null}
      {allows(session, 'apps:read') ? (
        <Card
          flush
          title="Apps"
          description="Each has its own users, origins and ways to sign in."
          actions={mayCreate ? <Button onClick={() => set({ create: '1' })}>Create an app</Button> : undefined}
        >
          <DataTable
            label="Apps"
            query={query}
            columns={columns}
            empty={<EmptyState title="No apps" command={curl(session.publicUrl, 'POST', '/apps', { name: 'Shop' })} />}
          />
        </Card>
      ) : null}
      {values.create === undefined ? null : <NewApp onClose={() => set({ create: '' })} />}
    </Page>
  )
}
