import type { Webhook } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { FormError } from '../../../components/form/form-error.tsx'
import { Card } from '../../../components/layout/card.tsx'
import { ConfirmDialog } from '../../../components/layout/dialog.tsx'
import { useToast } from '../../../components/layout/toast.tsx'
import { ReadOnly } from '../read-only.tsx'
import { useSetStatus } from '../set-status.ts'
import { EndpointFields, endpointOf } from './endpoint-fields.tsx'
import { SecretCard } from './secret-card.tsx'

function EditCard({ webhook }: { webhook: Webhook }) {
  const [saved, setSaved] = useState(() => endpointOf(webhook))
  const [endpoint, setEndpoint] = useState(saved)
  const queryClient = useQueryClient()
  const { done } = useToast()
  const changed = JSON.stringify(saved) !== JSON.stringify(endpoint)
  const save = useMutation({
    mutationFn: () => {
      const description = endpoint.description.trim() || null
      return api.webhooks.update(webhook.id, {
        ...(endpoint.url === saved.url ? {} : { url: endpoint.url.trim() }),
        ...(endpoint.events.join() === saved.events.join() ? {} : { events: endpoint.events as never }),
        ...(endpoint.description === saved.description ? {} : { description }),
      })
    },
    onSuccess: (after) => {
      setSaved(endpointOf(after))
      setEndpoint(endpointOf(after))
      done('Changes saved')
      return queryClient.invalidateQueries({ queryKey: ['webhooks'] })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate()
  }
  return (
    <Card title="Endpoint" description="A new address counts for deliveries that wait, too.">
      <form onSubmit={submit} className="flex max-w-2xl flex-col gap-5">
        <EndpointFields
          value={endpoint}
          onChange={(changes) => setEndpoint((before) => ({ ...before, ...changes }))}
          error={save.error}
        />
        <FormError error={save.error} fields={['url', 'events', 'description']} />
        <div className="flex flex-wrap gap-2">
          <Button tone="primary" type="submit" disabled={!changed} busy={save.isPending}>
            Save changes
          </Button>
          {changed ? <Button onClick={() => setEndpoint(saved)}>Discard changes</Button> : null}
        </div>
      </form>
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
          ? 'Events are sent as they happen. While paused they wait, and none is lost.'
          : 'Events are not sent at present.'
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
  const [open, setOpen] = useState(false)
  const queryClient = useQueryClient()
  const navigate = useNavigate()
  const { done } = useToast()
  return (
    <>
      <Card
        title="Delete this webhook"
        description="Nothing more is sent to it, and its deliveries can no longer be looked at."
        actions={
          <Button tone="danger" onClick={() => setOpen(true)}>
            Delete
          </Button>
        }
      />
      <ConfirmDialog
        open={open}
        onOpenChange={setOpen}
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
        <p>Deliveries that wait are cancelled, and its dead letters go with it. This cannot be undone.</p>
      </ConfirmDialog>
    </>
  )
}

/** How a webhook is set, and how it ends. */
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
      <StatusCard webhook={webhook} />
      <SecretCard webhook={webhook} />
      <DeleteCard webhook={webhook} />
    </>
  )
}
