import type { Webhook } from '@halfkey/sdk'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { allows, api } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Page } from '../../components/layout/page.tsx'
import { curl, EmptyState } from '../../components/layout/states.tsx'
import { Badge, StatusBadge } from '../../components/records/badge.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { RelativeTime } from '../../components/records/relative-time.tsx'
import { useAppOptions, useApps } from '../../components/records/use-apps.ts'
import { type Column, DataTable } from '../../components/table/data-table.tsx'
import { FilterSelect, Filters, useFilters, useSort } from '../../components/table/filters.tsx'
import { NoMatches } from '../../components/table/no-matches.tsx'
import { LIVE } from '../../query-client.ts'
import { useSession } from '../../shell/session-context.ts'
import { DestinationBadge } from './destination.tsx'
import { RegisterDialog } from './endpoint/register-dialog.tsx'
import { useDeliveryCount } from './queries.ts'
import { ReadOnly } from './read-only.tsx'

const STATUSES = ['active', 'paused', 'disabled'] as const
type Status = (typeof STATUSES)[number]

function Endpoint({ webhook }: { webhook: Webhook }) {
  return (
    <RecordLink
      id={webhook.id}
      title={webhook.description === null ? webhook.url : `${webhook.url}\n${webhook.description}`}
      className="block truncate font-medium"
    >
      <DestinationBadge destination={webhook.destination} /> {webhook.url}
    </RecordLink>
  )
}

/** The first event type of a subscription, and how many more there are. */
function Subscription({ events }: { events: string[] }) {
  const [first = '', ...more] = events
  return (
    <span title={events.join(', ')} className="block truncate">
      <Badge>{first === '*' ? 'all events' : first}</Badge>
      {more.length === 0 ? null : <span className="text-soft">{` +${more.length}`}</span>}
    </span>
  )
}

function AppName({ appId }: { appId: string | null }) {
  const name = useApps().find(({ id }) => id === appId)?.name ?? appId
  return (
    <span title={name ?? undefined} className="block truncate">
      {appId === null ? 'All' : name}
    </span>
  )
}

const HEALTH_TONES = { ok: 'good', failing: 'danger', idle: 'neutral' } as const

/** How the attempts of the last 15 minutes ended. */
function Health({ health: { attempts, failed, state } }: { health: Webhook['health'] }) {
  const text = attempts === 0 ? 'No attempts in the last 15 minutes' : `${failed} of ${attempts} attempts failed`
  return (
    <span title={text} className="inline-flex items-center gap-1.5">
      <Badge tone={HEALTH_TONES[state]}>{state}</Badge>
      {failed === 0 ? null : <span className="text-xs text-soft">{`${failed}/${attempts}`}</span>}
    </span>
  )
}

/** The failed and retrying deliveries of a webhook, with links. */
function Trouble({ webhook }: { webhook: Webhook }) {
  const dead = useDeliveryCount(webhook.id, 'dead_letter')
  const retrying = useDeliveryCount(webhook.id, 'retrying')
  if (dead === undefined || retrying === undefined) return <span className="text-soft">…</span>
  if (dead === 0 && retrying === 0) return <span className="text-soft">None</span>
  const to = `/webhooks/${webhook.id}`
  return (
    <span className="inline-flex gap-1.5">
      {dead === 0 ? null : (
        <Link to={to} search={{ tab: 'dead-letters' } as never} className="hover:underline">
          <Badge tone="danger">{dead === 1 ? '1 dead letter' : `${dead} dead letters`}</Badge>
        </Link>
      )}
      {retrying === 0 ? null : (
        // A phone has room for one of them beside the endpoint.
        <Link
          to={to}
          search={{ status: 'retrying' } as never}
          className={`hover:underline ${dead === 0 ? '' : 'max-md:hidden'}`}
        >
          <Badge tone="warn">{`${retrying} retrying`}</Badge>
        </Link>
      )}
    </span>
  )
}

const SORTABLE = { created: 'createdAt' } as const
const PHONE = { side: 'status', detail: 'events', when: 'trouble' }

const columns: Column<Webhook>[] = [
  { id: 'url', header: 'Endpoint', cell: ({ row }) => <Endpoint webhook={row.original} /> },
  { id: 'status', header: 'Status', cell: ({ row }) => <StatusBadge status={row.original.status} /> },
  { id: 'health', header: 'Health', cell: ({ row }) => <Health health={row.original.health} /> },
  { id: 'events', header: 'Events', cell: ({ row }) => <Subscription events={row.original.events} /> },
  { id: 'app', header: 'App', cell: ({ row }) => <AppName appId={row.original.appId} /> },
  { id: 'trouble', header: 'Failures', cell: ({ row }) => <Trouble webhook={row.original} /> },
  { id: 'created', header: 'Created', cell: ({ row }) => <RelativeTime at={row.original.createdAt} /> },
]

function NoWebhooks({ onRegister }: { onRegister: (() => void) | null }) {
  const { session } = useSession()
  return (
    <EmptyState
      title="No webhooks yet"
      action={
        onRegister === null ? undefined : (
          <Button tone="primary" onClick={onRegister}>
            Register a webhook
          </Button>
        )
      }
      command={curl(session.publicUrl, 'POST', '/webhooks', { url: 'https://example.com/webhooks', events: ['*'] })}
    >
      A webhook sends each event, signed, to your endpoint. Register one here or with this command:
    </EmptyState>
  )
}

/** All webhooks, with their failed deliveries. */
export function WebhooksPage() {
  const { values, page, set } = useFilters()
  const { session } = useSession()
  const mayWrite = allows(session, 'webhooks:write')
  const apps = useAppOptions()
  const status = STATUSES.find((each) => each === values.status) as Status | undefined
  const sort = useSort(SORTABLE)
  const query = useQuery({
    queryKey: ['webhooks', 'list', { page, status, app: values.app, sort }],
    queryFn: ({ signal }) => api.webhooks.list({ page, status, appId: values.app, sort }, { signal }),
    placeholderData: keepPreviousData,
    ...LIVE,
  })
  const register = mayWrite ? () => set({ register: '1' }) : null
  return (
    <Page
      title="Webhooks"
      description="Endpoints that receive signed events. Failed deliveries are retried."
      actions={
        register === null ? (
          <ReadOnly />
        ) : (
          <Button tone="primary" onClick={register}>
            <Plus aria-hidden className="size-4" />
            Register
          </Button>
        )
      }
    >
      <Card flush>
        <Filters>
          <FilterSelect name="status" label="Status" options={STATUSES} />
          {apps.length < 2 ? null : <FilterSelect name="app" label="App" options={apps} />}
        </Filters>
        <DataTable
          label="Webhooks"
          query={query}
          columns={columns}
          phone={PHONE}
          sortable={SORTABLE}
          empty={
            status === undefined && values.app === undefined ? (
              <NoWebhooks onRegister={register} />
            ) : (
              <NoMatches names={['status', 'app']} what="webhooks" />
            )
          }
        />
      </Card>
      <RegisterDialog open={mayWrite && values.register === '1'} onClose={() => set({ register: undefined })} />
    </Page>
  )
}
