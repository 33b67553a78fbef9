import type { Webhook, WebhookWithSecret } from '@halfkey/sdk'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Checkbox } from '../components/controls/checkbox.tsx'
import { Form } from '../components/form/form.tsx'
import type { Bound, FormField } from '../components/form/form-field.ts'
import { Dialog } from '../components/layout/dialog.tsx'
import { Secret } from '../components/records/copy.tsx'
import { type Portal, webhooks } from './portal-api.ts'

const EVERYTHING = '*'

interface Endpoint {
  url: string
  events: string[]
  description: string
}

function EventChoice({ portal, value, onChange }: Bound<string[]> & { portal: Portal }) {
  const all = value.includes(EVERYTHING)
  // What the app chose for the endpoint may be more than is offered here.
  const others = value.filter((entry) => entry !== EVERYTHING && !portal.eventTypes.some(({ name }) => name === entry))
  const offered = [...portal.eventTypes, ...others.map((name) => ({ name, description: null, deprecated: false }))]
  const set = (entry: string, on: boolean) => onChange(on ? [...value, entry] : value.filter((each) => each !== entry))
  return (
    <div className="flex flex-col gap-2.5">
      <Checkbox
        label="All events"
        hint="Including types that are added later"
        checked={all}
        onChange={(on) => onChange(on ? [EVERYTHING] : [])}
      />
      {offered.map(({ name, description, deprecated }) => (
        <Checkbox
          key={name}
          label={<span className="font-mono text-[0.8125rem]">{name}</span>}
          hint={[description, deprecated ? 'Deprecated.' : null].filter((text) => text !== null).join(' ') || undefined}
          checked={all || value.includes(name)}
          disabled={all}
          onChange={(on) => set(name, on)}
        />
      ))}
    </div>
  )
}

function fieldsOf(portal: Portal): FormField<Endpoint>[] {
  return [
    {
      name: 'url',
      label: 'URL',
      required: 'Enter the URL of your endpoint.',
      help: 'An https URL that is reachable from the public internet.',
      input: { inputMode: 'url', placeholder: 'https://example.com/webhooks', spellCheck: false },
    },
    {
      name: 'events',
      label: 'Events',
      kind: 'group',
      required: 'Choose at least one event.',
      render: (events) => <EventChoice portal={portal} {...events} />,
    },
    { name: 'description', label: 'Description', help: 'Optional. A note for you and your colleagues.' },
  ]
}

interface DialogProps {
  portal: Portal
  open: boolean
  onClose: () => void
}

/** Adds an endpoint and shows its secret once. */
export function AddDialog({ portal, open, onClose }: DialogProps) {
  const [made, setMade] = useState<WebhookWithSecret | null>(null)
  const queryClient = useQueryClient()
  const close = () => {
    setMade(null)
    onClose()
  }
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : close())}
      title={made === null ? 'Add an endpoint' : 'Signing secret'}
      description={made === null ? undefined : 'Your receiver verifies with it that a delivery is genuine.'}
      sticky
    >
      {made === null ? (
        <Form<Endpoint>
          fields={fieldsOf(portal)}
          values={{ url: '', events: [EVERYTHING], description: '' }}
          action="Add"
          onCancel={close}
          onSubmit={async ({ url, events, description }) => {
            setMade(
              await webhooks.create({
                url: url.trim(),
                events: events as never,
                description: description.trim() || null,
              }),
            )
            await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
          }}
        />
      ) : (
        <Secret label="Signing secret" value={made.secret} onDone={close} />
      )}
    </Dialog>
  )
}

/** Changes an endpoint. */
export function EditDialog({ portal, webhook, open, onClose }: DialogProps & { webhook: Webhook }) {
  const queryClient = useQueryClient()
  const { url, events, description } = webhook
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => (next ? undefined : onClose())}
      title="Edit the endpoint"
      description="Waiting deliveries are also sent to the new URL."
    >
      <Form<Endpoint>
        fields={fieldsOf(portal)}
        values={{ url, events, description: description ?? '' }}
        action="Save changes"
        onCancel={onClose}
        onSubmit={async (_, changes) => {
          await webhooks.update(webhook.id, {
            ...(changes.url === undefined ? {} : { url: changes.url.trim() }),
            ...(changes.events === undefined ? {} : { events: changes.events as never }),
            ...(changes.description === undefined ? {} : { description: changes.description.trim() || null }),
          })
          await queryClient.invalidateQueries({ queryKey: ['webhooks'] })
          onClose()
        }}
      />
    </Dialog>
  )
}
