import type { WebhookWithSecret } from '@halfkey/sdk'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api } from '../../../api.ts'
import { Button } from '../../../components/controls/button.tsx'
import { Select } from '../../../components/controls/select.tsx'
import { FormError } from '../../../components/form/form-error.tsx'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { CodeBlock, Secret } from '../../../components/records/copy.tsx'
import { useApps } from '../../../components/records/use-apps.ts'
import { useSession } from '../../../shell/session-context.ts'
import { receiverSnippet } from '../snippets.ts'
import { EndpointFields, endpointOf } from './endpoint-fields.tsx'

const ALL_APPS = ''

function AppField({ value, onChange }: { value: string; onChange: (appId: string) => void }) {
  const { session } = useSession()
  const apps = useApps()
  if (session.appId !== null || apps.length < 2) return null
  return (
    <div className="flex flex-col gap-1.5">
      <p className="text-sm font-medium">App</p>
      <Select
        label="App"
        value={value}
        options={[
          { value: ALL_APPS, label: 'All apps, and the tenant’s own events' },
          ...apps.map(({ id, name }) => ({ value: id, label: name })),
        ]}
        onChange={onChange}
        className="w-full"
      />
    </div>
  )
}

function RegisterForm({ onMade, onCancel }: { onMade: (made: WebhookWithSecret) => void; onCancel: () => void }) {
  const [endpoint, setEndpoint] = useState(endpointOf())
  const [appId, setAppId] = useState(ALL_APPS)
  const queryClient = useQueryClient()
  const register = useMutation({
    mutationFn: () =>
      api.webhooks.create({
        url: endpoint.url.trim(),
        events: endpoint.events as never,
        description: endpoint.description.trim() || null,
        ...(appId === ALL_APPS ? {} : { appId }),
      }),
    onSuccess: (made) => {
      onMade(made)
      return queryClient.invalidateQueries({ queryKey: ['webhooks'] })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    register.mutate()
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-5">
      <EndpointFields
        value={endpoint}
        onChange={(changes) => setEndpoint((before) => ({ ...before, ...changes }))}
        error={register.error}
      />
      <AppField value={appId} onChange={setAppId} />
      <FormError error={register.error} fields={['url', 'events', 'description']} />
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button tone="primary" type="submit" busy={register.isPending}>
          Register
        </Button>
      </div>
    </form>
  )
}

/** Registers an endpoint, and shows its secret once, with the receiver that it belongs to. */
export function RegisterDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [made, setMade] = useState<WebhookWithSecret | null>(null)
  const navigate = useNavigate()
  const close = () => {
    setMade(null)
    onClose()
  }
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title={made === null ? 'Register a webhook' : 'Its signing secret'}
      description={
        made === null
          ? 'Events are posted to your endpoint, signed, until it answers with a 2xx status.'
          : 'Your receiver verifies by it that a delivery is from here and was not changed.'
      }
      wide
      sticky
    >
      {made === null ? (
        <RegisterForm onMade={setMade} onCancel={close} />
      ) : (
        <div className="flex min-w-0 flex-col gap-6">
          <Secret
            label="Signing secret"
            value={made.secret}
            // Where this leads, the address asks for no dialog any more.
            onDone={() => {
              setMade(null)
              void navigate({ to: '/webhooks/$webhookId', params: { webhookId: made.id } } as never)
            }}
          />
          <div className="flex min-w-0 flex-col gap-2">
            <h3 className="text-sm font-medium">A receiver to paste</h3>
            <CodeBlock label="receiver" text={receiverSnippet(made.url)} />
          </div>
        </div>
      )}
    </Dialog>
  )
}
