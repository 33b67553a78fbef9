import type { App, Tenant } from '@halfkey/sdk'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Form } from '../../components/form/form.tsx'
import type { FormField } from '../../components/form/form-field.ts'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Dialog } from '../../components/layout/dialog.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState, ErrorState, Loading } from '../../components/layout/states.tsx'
import { useToast } from '../../components/layout/toast.tsx'
import { Badge } from '../../components/records/badge.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions } from '../../components/records/use-apps.ts'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { useFilters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'

interface TenantInput {
  name: string
  settings: { defaultAppId: string }
}

const NAME = { name: 'name', label: 'Name', required: 'Enter a name.' } as const

function TenantForm({ tenant }: { tenant: Tenant }) {
  const client = useQueryClient()
  const toast = useToast()
  const apps = useAppOptions()
  const fields: FormField<TenantInput>[] = [
    NAME,
    {
      name: 'settings.defaultAppId',
      label: 'Default app',
      kind: 'select',
      help: 'Used for users and sign-ins without an app id.',
      options: apps,
    },
  ]
  return (
    <Form
      fields={apps.length < 2 ? [NAME] : fields}
      values={{ name: tenant.name, settings: { defaultAppId: tenant.settings.defaultAppId } }}
      action="Save"
      stays
      className="max-w-lg"
      onSubmit={async (_, changes) => {
        await api.tenant.update(changes)
        await client.invalidateQueries()
        toast.done('Saved')
      }}
    />
  )
}

function TenantCard() {
  const { session } = useSession()
  const query = useQuery({ queryKey: ['tenant'], queryFn: ({ signal }) => api.tenant.get({ signal }) })
  if (query.isPending) return <Loading />
  if (query.data === undefined) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  const mayWrite = allows(session, 'tenant:write') && session.appId === null
  return (
    <Card title="Tenant" description="The owner of all apps, users, wallets and keys.">
      <div className="flex flex-col gap-5">
        <Details>
          <IdDetail label="Id" id={query.data.id} what="tenant id" />
          <Detail label="Plan">
            <Badge tone="accent">{query.data.plan.replaceAll('_', ' ')}</Badge>
          </Detail>
          <TimeDetail label="Created" at={query.data.createdAt} />
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
        <span className="flex min-w-0 items-center gap-2">
          <RecordLink id={row.original.id} className="min-w-0 truncate font-medium">
            {row.original.name}
          </RecordLink>
          {row.original.id === defaultAppId ? <Badge>default</Badge> : null}
        </span>
      ),
    },
    { id: 'rp', header: 'Relying party id', cell: ({ row }) => row.original.passkey.rpId },
    { id: 'origins', header: 'Origins', cell: ({ row }) => row.original.allowedOrigins.length },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
  ]
}

const PHONE = { detail: 'rp', when: 'created' }

function NewApp({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title="Create an app"
      description="Each app has its own users, keys and settings."
    >
      <Form
        fields={[NAME]}
        values={{ name: '' }}
        action="Create"
        onCancel={onClose}
        onSubmit={async ({ name }) => {
          const app = await api.apps.create({ name })
          await client.invalidateQueries({ queryKey: ['apps'] })
          await navigate({ to: '/settings/apps/$appId', params: { appId: app.id } as never })
        }}
      />
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
          description="Each app has its own users, origins and sign-in methods."
          actions={mayCreate ? <Button onClick={() => set({ create: '1' })}>Create an app</Button> : undefined}
        >
          <DataTable
            label="Apps"
            query={query}
            columns={columns}
            phone={PHONE}
            empty={<EmptyState title="No apps" command={curl(session.publicUrl, 'POST', '/apps', { name: 'Shop' })} />}
          />
        </Card>
      ) : null}
      {values.create === undefined ? null : <NewApp onClose={() => set({ create: '' })} />}
    </Page>
  )
}
