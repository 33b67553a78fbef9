import type { ApiKey, App } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Ban, Plus, RotateCw } from 'lucide-react'
import { useMemo, useState } from 'react'
import { allows, api } from '../../api.ts'
import { Button, IconButton } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { useRecordDialog } from '../../components/layout/use-record-dialog.ts'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions, useApps } from '../../components/records/use-apps.ts'
import { UserText } from '../../components/records/user-text.tsx'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { unknownIsEmpty } from '../transactions/unknown-is-empty.ts'
import { CreateKeyDialog } from './create-key-dialog.tsx'
import { KeyDialog } from './key-dialog.tsx'
import { RevokeKeyDialog } from './revoke-key-dialog.tsx'
import { RotateKeyDialog } from './rotate-key-dialog.tsx'
import { rightsInWords } from './scopes.ts'

const TYPES = ['secret', 'publishable'] as const
const STATUSES = ['active', 'expired', 'revoked'] as const
const FILTERS = ['type', 'status', 'app']

interface Acts {
  rotate: (key: ApiKey) => void
  revoke: (key: ApiKey) => void
}

function Named({ apiKey, isOwn }: { apiKey: ApiKey; isOwn: boolean }) {
  return (
    <span className="flex min-w-0 items-center gap-x-2">
      <Link
        to="."
        search={((before: Record<string, string | undefined>) => ({ ...before, key: apiKey.id })) as never}
        className="min-w-0 truncate font-medium text-accent hover:underline"
      >
        <UserText>{apiKey.name}</UserText>
      </Link>
      <code title={`${apiKey.prefix}…${apiKey.last4}`} className="flex-none font-mono text-xs text-soft">
        …{apiKey.last4}
      </code>
      {isOwn ? <Badge tone="accent">this session</Badge> : null}
    </span>
  )
}

function RowActions({ apiKey, acts }: { apiKey: ApiKey; acts: Acts }) {
  if (apiKey.status !== 'active') return null
  return (
    <span className="ml-auto flex justify-end gap-1">
      <IconButton label={`Rotate ${apiKey.name}`} onClick={() => acts.rotate(apiKey)}>
        <RotateCw aria-hidden className="size-4" />
      </IconButton>
      <IconButton label={`Revoke ${apiKey.name}`} onClick={() => acts.revoke(apiKey)}>
        <Ban aria-hidden className="size-4" />
      </IconButton>
    </span>
  )
}

function columnsFor(apps: App[], ownKeyId: string | null, acts: Acts | null): Column<ApiKey>[] {
  const nameOf = (appId: string | null) =>
    appId === null ? 'all' : (apps.find(({ id }) => id === appId)?.name ?? appId)
  const actions: Column<ApiKey> = {
    id: 'actions',
    header: () => <span className="sr-only">Actions</span>,
    cell: ({ row }) => (acts === null ? null : <RowActions apiKey={row.original} acts={acts} />),
  }
  return [
    {
      id: 'name',
      header: 'Name',
      cell: ({ row }) => <Named apiKey={row.original} isOwn={row.original.id === ownKeyId} />,
    },
    {
      id: 'rights',
      header: 'Scopes',
      cell: ({ row }) => <span title={row.original.scopes.join(', ')}>{rightsInWords(row.original)}</span>,
    },
    {
      id: 'app',
      header: 'App',
      cell: ({ row }) => <UserText className="md:max-w-40">{nameOf(row.original.appId)}</UserText>,
    },
    { id: 'used', header: 'Last used', cell: ({ row }) => <RelativeTime at={row.original.lastUsedAt} none="never" /> },
    { id: 'ends', header: 'Expires', cell: ({ row }) => <RelativeTime at={row.original.expiresAt} none="never" /> },
    { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
    { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
    ...(acts === null ? [] : [actions]),
  ]
}

const SORTABLE = { created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'rights', when: 'used', act: 'actions' }

function NoKeys() {
  const { session } = useSession()
  const body = { name: 'Backend', type: 'secret', scopes: ['users:write'] }
  return (
    <EmptyState title="No keys yet" command={curl(session.publicUrl, 'POST', '/api-keys', body)}>
      Servers and browsers use keys to call the API.
    </EmptyState>
  )
}

/** The API keys: create, rotate, revoke. */
export function ApiKeysPage() {
  const { values, page } = useFilters()
  const { session } = useSession()
  const [creating, setCreating] = useState(false)
  const rotating = useRecordDialog<ApiKey>()
  const revoking = useRecordDialog<ApiKey>()
  const apps = useApps()
  const mayWrite = allows(session, 'api_keys:write')
  const { show: rotate } = rotating
  const { show: revoke } = revoking
  const columns = useMemo(
    () => columnsFor(apps, session.keyId, mayWrite ? { rotate, revoke } : null),
    [apps, session.keyId, mayWrite, rotate, revoke],
  )
  const appOptions = useAppOptions()
  const filter = {
    type: TYPES.find((each) => each === values.type),
    status: STATUSES.find((each) => each === values.status),
    appId: values.app,
  }
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['api-keys', 'list', filter, sort, page],
    queryFn: ({ signal }) => unknownIsEmpty(api.apiKeys.list({ ...filter, sort, page }, { signal })),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  return (
    <Page
      title="API keys"
      description="Secret keys are for your servers, publishable keys for browsers and apps. The value of a key is shown once, when you create it."
      actions={
        mayWrite ? (
          <Button tone="primary" onClick={() => setCreating(true)}>
            <Plus aria-hidden className="size-4" />
            Create key
          </Button>
        ) : undefined
      }
    >
      <Card flush>
        <Filters>
          <FilterSelect name="type" label="Type" options={TYPES} />
          <FilterSelect name="status" label="Status" options={STATUSES} />
          {appOptions.length > 1 ? <FilterSelect name="app" label="App" options={appOptions} /> : null}
        </Filters>
        <DataTable
          label="API keys"
          query={query}
          columns={columns}
          empty={isFiltered ? <NoMatches names={FILTERS} what="API keys" /> : <NoKeys />}
          phone={PHONE}
          sortable={SORTABLE}
        />
      </Card>
      <CreateKeyDialog open={creating} onClose={() => setCreating(false)} />
      <RotateKeyDialog apiKey={rotating.record} open={rotating.open} onOpenChange={rotating.onOpenChange} />
      <RevokeKeyDialog apiKey={revoking.record} open={revoking.open} onOpenChange={revoking.onOpenChange} />
      <KeyDialog />
    </Page>
  )
}
