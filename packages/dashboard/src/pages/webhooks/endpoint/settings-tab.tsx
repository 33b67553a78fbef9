import type { Webhook } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Form } from '../../../components/form/form.tsx'
import { type FormField, widenFields } from '../../../components/form/form-field.ts'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmButton } from '../../../components/layout/confirm-button.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { useSession } from '../../../shell/session-context.ts'
import { DestinationCard } from '../destination.tsx'
import { ReadOnly } from '../read-only.tsx'
import { useSetStatus } from '../set-status.ts'
import { AdvancedCard } from './advanced-card.tsx'
import { type Content, contentChanges, contentFields, contentOf } from './content-fields.tsx'
import { type Endpoint, endpointFields, endpointOf } from './endpoint-fields.tsx'
import { SecretCard } from './secret-card.tsx'

type Settings = Endpoint & Content

function fieldsOf(webhook: Webhook, environment: 'development' | 'production'): FormField<Settings>[] {
  const fields = endpointFields(environment).filter(({ name }) => name !== 'url' || webhook.destination === null)
  return [...widenFields<Settings, Endpoint>(fields), ...widenFields<Settings, Content>(contentFields(webhook))]
}

function EditCard({ webhook }: { webhook: Webhook }) {
  const { session } = useSession()
  const queryClient = useQueryClient()
  const { done } = useToast()
  return (
    <Card
      title={webhook.destination === null ? 'Endpoint' : 'Events'}
      description={
        webhook.destination === null
          ? 'Waiting deliveries are also sent to the new URL, in the new format. A new filter applies to later events.'
          : 'Waiting deliveries are also sent in the new format. A new filter applies to later events.'
      }
    >
      <Form<Settings>
        fields={fieldsOf(webhook, session.environment)}
        values={{ ...endpointOf(webhook), ...contentOf(webhook) }}
        action="Save changes"
        stays
        className="max-w-2xl"
        onSubmit={async (_, { url, events, description, ...content }) => {
          await api.webhooks.update(webhook.id, {
            ...(url === undefined ? {} : { url: url.trim() }),
            ...(events === undefined ? {} : { events: events as never }),
            ...(description === undefined ? {} : { description: description.trim() || null }),
            ...contentChanges(content),
          })
          done('Changes saved')
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
        }}
      />
    </Card>
  )
}

function StatusCard({ webhook }: { webhook: Webhook }) {
  const setStatus = useSetStatus(webhook)
  const active = webhook.status === 'active'
  return (
    <Card
      title="Deliveries"
      description={
        active
          ? 'Events are sent as they happen. While the webhook is paused, events are stored and sent later.'
          : 'Events are not being sent.'
      }
      actions={
        <Button busy={setStatus.isPending} onClick={() => setStatus.mutate(active ? 'paused' : 'active')}>
          {active ? 'Pause' : webhook.status === 'paused' ? 'Resume deliveries' : 'Activate the webhook'}
        </Button>
      }
    />
  )
}

function DeleteCard({ webhook }: { webhook: Webhook }) {
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const { done } = useToast()
  return (
    <Card
      title="Delete this webhook"
      description="Halfkey stops sending events to it, and its deliveries can no longer be viewed."
      actions={
        <ConfirmButton
          label="Delete"
          tone="danger"
          title="Delete this webhook"
          action="Delete webhook"
          onConfirm={async () => {
            await api.webhooks.delete(webhook.id)
            done('Webhook deleted')
            await navigate({ to: '/webhooks' })
            queryClient.removeQueries({ queryKey: ['webhooks', webhook.id] })
            await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
          }}
        >
          <p className="[overflow-wrap:anywhere]">{webhook.url}</p>
          <p>Waiting deliveries are cancelled and dead letters are deleted. This cannot be undone.</p>
        </ConfirmButton>
      }
    />
  )
}

/** A webhook's settings, status, secret and deletion. */
export function SettingsTab({ webhook, mayWrite }: { webhook: Webhook; mayWrite: boolean }) {
  if (!mayWrite)
    return (
      <Card>
        <ReadOnly />
      </Card>
    )
  return (
    <>
      <EditCard key={webhook.id} webhook={webhook} />
      {webhook.destination === null ? (
        <AdvancedCard key={`advanced ${webhook.id}`} webhook={webhook} />
      ) : (
        <DestinationCard webhook={webhook} destination={webhook.destination} />
      )}
      <StatusCard webhook={webhook} />
      <SecretCard webhook={webhook} />
      <DeleteCard webhook={webhook} />
    </>
  )
}
