import type { Webhook } from '@halfkey/sdk'
import type { FormField } from '../../../components/form/form-field.ts'
import { EventsPicker } from './events-picker.tsx'
import { hintOfUrl } from './url-hint.ts'

/** An endpoint as it is edited. */
export interface Endpoint {
  url: string
  events: string[]
  description: string
}

/** What a form of an endpoint begins with. */
export function endpointOf(webhook?: Webhook): Endpoint {
  return { url: webhook?.url ?? '', events: webhook?.events ?? [], description: webhook?.description ?? '' }
}

/** The fields that registering and changing an endpoint have in common. */
export function endpointFields(environment: 'development' | 'production'): FormField<Endpoint>[] {
  return [
    {
      name: 'url',
      label: 'URL',
      help: ({ url }) => {
        const { text, bad } = hintOfUrl(url, environment)
        return <span className={bad ? 'text-warn' : ''}>{text}</span>
      },
      input: { inputMode: 'url', placeholder: 'https://example.com/webhooks', spellCheck: false },
    },
    {
      name: 'events',
      label: 'Events',
      kind: 'group',
      required: 'Choose at least one event.',
      render: (events) => <EventsPicker {...events} />,
    },
    { name: 'description', label: 'Description', help: 'Optional. A note for you and your colleagues.' },
  ]
}
