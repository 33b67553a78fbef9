import type { WebhookWithSecret } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { allows, api } from '../../../api.ts'
import { Form } from '../../../components/form/form.tsx'
import { type FormField, widenFields } from '../../../components/form/form-field.ts'
import { Dialog } from '../../../components/layout/dialog.tsx'
import { CodeBlock, Secret } from '../../../components/records/copy.tsx'
import { useAppOptions } from '../../../components/records/use-apps.ts'
import { useSession } from '../../../shell/session-context.ts'
import { receiverSnippet } from '../snippets.ts'
import { destinationOf, NO_TARGET, TARGET_FIELDS, type Target } from './destination-fields.ts'
import { type Endpoint, endpointFields, endpointOf } from './endpoint-fields.tsx'

const ALL_APPS = ''

type NewEndpoint = Endpoint & Target & { appId: string }

function useFields(): FormField<NewEndpoint>[] {
  const { session } = useSession()
  const apps = useAppOptions()
  const [url, ...others] = widenFields<NewEndpoint, Endpoint>(endpointFields(session.environment)) as [
    FormField<NewEndpoint>,
    ...FormField<NewEndpoint>[],
  ]
  const targets = allows(session, 'destinations:write') ? widenFields<NewEndpoint, Target>(TARGET_FIELDS) : []
  const fields = [...targets, { ...url, shown: ({ kind }: NewEndpoint) => kind === 'url' }, ...others]
  if (session.appId !== null || apps.length < 2) return fields
  const all = { value: ALL_APPS, label: 'All apps and tenant events' }
  return [...fields, { name: 'appId', label: 'App', kind: 'select', options: [all, ...apps] }]
}

function RegisterForm({ onMade, onCancel }: { onMade: (made: WebhookWithSecret) => void; onCancel: () => void }) {
  const queryClient = useQueryClient()
  return (
    <Form
      fields={useFields()}
      values={{ ...endpointOf(), ...NO_TARGET, appId: ALL_APPS }}
      action="Register"
      onCancel={onCancel}
      onSubmit={async ({ url, events, description, appId, ...target }) => {
        const made = await api.webhooks.create({
          ...(target.kind === 'url' ? { url: url.trim() } : destinationOf(target)),
          events: events as never,
          description: description.trim() || null,
          ...(appId === ALL_APPS ? {} : { appId }),
        })
        onMade(made)
        await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
      }}
    />
  )
}

function ExampleReceiver({ url }: { url: string }) {
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <h3 className="text-sm font-medium">Example receiver</h3>
      <p className="text-sm text-soft">
        It uses the SDK, which is not on npm yet.{' '}
        <a href="/docs/sdk#installing" target="_blank" rel="noreferrer" className="text-accent underline">
          How to install the SDK
        </a>
      </p>
      <CodeBlock label="receiver" text={receiverSnippet(url)} />
    </div>
  )
}

/** Registers an endpoint and shows its secret once, with a receiver to paste. */
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
      title={made === null ? 'Register a webhook' : 'Signing secret'}
      description={
        made === null
          ? 'Halfkey sends signed events to your endpoint and retries until it responds with a 2xx status.'
          : 'Your receiver uses it to verify that a delivery comes from Halfkey and was not changed.'
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
            // The target URL no longer asks for the dialog.
            onDone={() => {
              setMade(null)
              void navigate({ to: '/webhooks/$webhookId', params: { webhookId: made.id } } as never)
            }}
          />
          {made.destination === null ? <ExampleReceiver url={made.url} /> : null}
        </div>
      )}
    </Dialog>
  )
}
