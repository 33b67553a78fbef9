import type { Webhook } from '@halfkey/sdk'
import { useParams } from '@tanstack/react-router'
import { Send } from 'lucide-react'
import { useState } from 'react'
import { allows } from '../../api.ts'
import { Button } from '../../components/controls/button.tsx'
import { Card } from '../../components/layout/card.tsx'
import { Detail, Details } from '../../components/layout/details.tsx'
import { Page } from '../../components/layout/page.tsx'
import { ErrorState, Loading } from '../../components/layout/states.tsx'
import { Tabs } from '../../components/layout/tabs.tsx'
import { StatusBadge } from '../../components/records/badge.tsx'
import { CopyableId } from '../../components/records/copy.tsx'
import { IdDetail, TimeDetail } from '../../components/records/record-details.tsx'
import { RecordLink } from '../../components/records/record-link.tsx'
import { useApps } from '../../components/records/use-apps.ts'
import { useFilters } from '../../components/table/filters.tsx'
import { useSession } from '../../shell/session-context.ts'
import { DeadLettersTab } from './dead-letters/dead-letters-tab.tsx'
import { DeliveriesTab } from './deliveries/deliveries-tab.tsx'
import { TestDialog } from './deliveries/test-dialog.tsx'
import { DestinationDetails } from './destination.tsx'
import { formatInWords } from './endpoint/content-fields.tsx'
import { SettingsTab } from './endpoint/settings-tab.tsx'
import { useDeliveryCount, useWebhook } from './queries.ts'
import { ReadOnly } from './read-only.tsx'
import { useSetStatus } from './set-status.ts'
import { shortUrl } from './webhook-name.ts'

const TABS = ['deliveries', 'dead-letters', 'settings'] as const
type Tab = (typeof TABS)[number]

/** Why a webhook gets nothing at present, and what to do about it. */
function Notice({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const setStatus = useSetStatus(webhook)
  if (webhook.status === 'active') return null
  const disabled = webhook.status === 'disabled'
  return (
    <section
      aria-label={disabled ? 'This webhook is disabled' : 'This webhook is paused'}
      className={`flex flex-wrap items-start justify-between gap-4 rounded-card px-5 py-4 ${disabled ? 'bg-danger-wash' : 'bg-warn-wash'}`}
    >
      <div className="flex min-w-0 max-w-3xl flex-col gap-1 text-sm">
        <p className={`font-semibold ${disabled ? 'text-danger' : 'text-warn'}`}>
          {disabled ? 'Disabled: no events are sent to this endpoint' : 'Paused: deliveries wait until you resume'}
        </p>
        {disabled ? (
          <>
            <p className="[overflow-wrap:anywhere]">{webhook.disabledReason}</p>
            <p>
              New events are stored as dead letters. Fix the endpoint and send a test event. Then activate the webhook
              and retry its dead letters.
            </p>
          </>
        ) : (
          <p>Events are stored, and sent when you resume.</p>
        )}
      </div>
      {mayWrite ? (
        <Button busy={setStatus.isPending} onClick={() => setStatus.mutate('active')}>
          {disabled ? 'Activate' : 'Resume'}
        </Button>
      ) : null}
    </section>
  )
}

function Facts({ webhook }: { webhook: Webhook }) {
  const name = useApps().find(({ id }) => id === webhook.appId)?.name
  return (
    <Card>
      <Details>
        <Detail label="Status">
          <StatusBadge status={webhook.status} />
        </Detail>
        <Detail label="Id">
          <CopyableId id={webhook.id} />
        </Detail>
        <Detail label="App">
          {webhook.appId === null ? 'All apps and tenant events' : <RecordLink id={webhook.appId}>{name}</RecordLink>}
        </Detail>
        {webhook.subscriberId === null ? null : (
          <Detail label="Subscriber">
            <RecordLink id={webhook.subscriberId} />
          </Detail>
        )}
        <IdDetail label="URL" id={webhook.url} what="URL" />
        <DestinationDetails destination={webhook.destination} />
        <Detail label="Events">{webhook.events.includes('*') ? 'All' : webhook.events.join(', ')}</Detail>
        {webhook.filter === null ? null : (
          <Detail label="Filter">
            <code className="line-clamp-6 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
              {JSON.stringify(webhook.filter)}
            </code>
          </Detail>
        )}
        {webhook.includeSubscribers ? <Detail label="Events for subscribers">Included</Detail> : null}
        <Detail label="Format">{formatInWords(webhook)}</Detail>
        <TimeDetail label="Registered" at={webhook.createdAt} />
        {webhook.previousSecretUntil === null ? null : (
          <TimeDetail label="Previous secret signs until" at={webhook.previousSecretUntil} />
        )}
        {webhook.description === null ? null : <Detail label="Description">{webhook.description}</Detail>}
      </Details>
    </Card>
  )
}

function Parts({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  const { values, set } = useFilters()
  const dead = useDeliveryCount(webhook.id, 'dead_letter')
  return (
    <Tabs<Tab>
      label="Webhook sections"
      value={TABS.find((tab) => tab === values.tab) ?? 'deliveries'}
      onChange={(tab) =>
        set({ tab: tab === 'deliveries' ? undefined : tab, status: undefined, type: undefined, page: undefined })
      }
      tabs={[
        { value: 'deliveries', label: 'Deliveries', content: <DeliveriesTab webhook={webhook} /> },
        {
          value: 'dead-letters',
          label: dead === undefined || dead === 0 ? 'Dead letters' : `Dead letters (${dead})`,
          content: <DeadLettersTab webhook={webhook} mayWrite={mayWrite} />,
        },
        { value: 'settings', label: 'Settings', content: <SettingsTab webhook={webhook} mayWrite={mayWrite} /> },
      ]}
    />
  )
}

/** One webhook: what was sent, what could not be, and how it is set. */
export function WebhookPage() {
  const { webhookId } = useParams({ strict: false }) as { webhookId: string }
  const { session } = useSession()
  const query = useWebhook(webhookId)
  const [testing, setTesting] = useState(false)
  const mayWrite = allows(session, 'webhooks:write')
  const back = { to: '/webhooks', label: 'Webhooks' }
  const webhook = query.data
  if (webhook === undefined)
    return (
      <Page title="Webhook" back={back}>
        {query.isError ? <ErrorState error={query.error} onRetry={() => void query.refetch()} /> : <Loading />}
      </Page>
    )
  return (
    <Page
      title={shortUrl(webhook.url)}
      back={back}
      actions={
        mayWrite ? (
          <Button onClick={() => setTesting(true)}>
            <Send aria-hidden className="size-4" />
            Send test event
          </Button>
        ) : (
          <ReadOnly />
        )
      }
    >
      <Notice webhook={webhook} mayWrite={mayWrite} />
      <Facts webhook={webhook} />
      <Parts webhook={webhook} mayWrite={mayWrite} />
      <TestDialog webhook={webhook} open={testing} onClose={() => setTesting(false)} />
    </Page>
  )
}
