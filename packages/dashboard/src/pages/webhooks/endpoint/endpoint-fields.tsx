import type { Webhook } from '@halfkey/sdk'
import { fieldErrors } from '../../../api.ts'
import { TextField } from '../../../components/controls/field.tsx'
import { useSession } from '../../../shell/session-context.ts'
import { EventsPicker } from './events-picker.tsx'
import { hintOfUrl } from './url-hint.ts'

/** What a form of an endpoint holds. */
export interface Endpoint {
  url: string
  events: string[]
  description: string
}

/** A form's beginning: what is there, or nothing. */
export function endpointOf(webhook?: Webhook): Endpoint {
  return { url: webhook?.url ?? '', events: webhook?.events ?? [], description: webhook?.description ?? '' }
}

/** The server names the entry of a list that it refuses: `events.0`. */
function errorOfEvents(errors: Record<string, string>, events: string[]): string | undefined {
  const name = Object.keys(errors).find((field) => field === 'events' || field.startsWith('events.'))
  if (name === undefined) return undefined
  return events.length === 0 ? 'Choose at least one event.' : errors[name]
}

/** The fields that registering and changing an endpoint have in common. */
export function EndpointFields({
  value,
  onChange,
  error,
}: {
  value: Endpoint
  onChange: (changes: Partial<Endpoint>) => void
  /** What the server answered to the last attempt. */
  error: unknown
}) {
  const { session } = useSession()
  const errors = fieldErrors(error)
  const hint = hintOfUrl(value.url, session.environment)
  return (
    <>
      <TextField
        label="URL"
        type="text"
        inputMode="url"
        value={value.url}
        onChange={(url) => onChange({ url })}
        placeholder="https://example.com/webhooks"
        hint={<span className={hint.bad ? 'text-warn' : ''}>{hint.text}</span>}
        error={errors.url}
        autoComplete="off"
        spellCheck={false}
      />
      <EventsPicker
        value={value.events}
        onChange={(events) => onChange({ events })}
        error={errorOfEvents(errors, value.events)}
      />
      <TextField
        label="Description"
        value={value.description}
        onChange={(description) => onChange({ description })}
        hint="For you and your colleagues. May be empty."
        error={errors.description}
        autoComplete="off"
      />
    </>
  )
}
