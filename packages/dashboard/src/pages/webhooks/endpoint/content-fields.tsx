import type { Webhook } from '@halfkey/sdk'
import type { FormField, Option } from '../../../components/form/form-field.ts'
import { parsedJson, problemOfJson } from '../../../components/form/json-text.ts'

/** Which events a webhook gets and how they are sent, as it is edited. */
export interface Content {
  /** JSON; empty without a filter. */
  filter: string
  format: Webhook['format']
  payload: Webhook['payload']
  includeSubscribers: boolean
}

const FORMATS: readonly (Option & { value: Webhook['format'] })[] = [
  { value: 'standard', label: 'JSON, as in the event feed' },
  { value: 'cloudevents_structured', label: 'CloudEvents, structured' },
  { value: 'cloudevents_binary', label: 'CloudEvents, binary' },
]

const PAYLOADS: readonly (Option & { value: Webhook['payload'] })[] = [
  { value: 'full', label: 'With data' },
  { value: 'thin', label: 'Without data (thin)' },
]

/** How a webhook's events are sent, in words. */
export function formatInWords({ format, payload }: Pick<Webhook, 'format' | 'payload'>): string {
  const name = FORMATS.find(({ value }) => value === format)?.label ?? format
  return payload === 'thin' ? `${name}, without data` : name
}

/** What a form begins with. */
export function contentOf({ filter, format, payload, includeSubscribers }: Webhook): Content {
  return { filter: filter === null ? '' : JSON.stringify(filter, null, 2), format, payload, includeSubscribers }
}

/** The changes as an update sends them. */
export function contentChanges({ filter, ...others }: Partial<Content>) {
  return { ...(filter === undefined ? {} : { filter: parsedJson(filter) }), ...others }
}

const SUBSCRIBERS_FIELD: FormField<Content> = {
  name: 'includeSubscribers',
  label: 'Also events for subscribers',
  kind: 'switch',
  help: 'Sends this webhook the events that you publish for subscribers, too. Subscribers’ own webhooks always get theirs.',
}

const fieldsOf = (webhook: Webhook): FormField<Content>[] => [
  {
    name: 'filter',
    label: 'Filter',
    kind: 'code',
    help: (
      <>
        Optional. Conditions on the event as JSON, for example{' '}
        <code className="font-mono text-[0.8125rem]">{'{"path": "data.total", "gte": "100.00"}'}</code>. Events that do
        not match are not sent.{' '}
        <a href="/docs/webhooks#filter-by-content" target="_blank" rel="noreferrer" className="text-accent underline">
          All conditions
        </a>
      </>
    ),
    validate: (text) => problemOfJson(text, '{"path": "data.total", "gte": "100.00"}'),
    partName: (part) => part,
  },
  {
    name: 'format',
    label: 'Format',
    kind: 'select',
    // Its parts are headers, which queues and buckets have no room for.
    options: FORMATS.filter(({ value }) => value !== 'cloudevents_binary' || webhook.destination === null),
  },
  {
    name: 'payload',
    label: 'Payload',
    kind: 'select',
    options: PAYLOADS,
    help: 'Thin events have empty data. Your receiver gets the data from the API.',
  },
]

/** The fields of which events a webhook gets and how they are sent. A subscriber's webhook gets that subscriber's alone. */
export const contentFields = (webhook: Webhook): FormField<Content>[] =>
  webhook.subscriberId === null ? [...fieldsOf(webhook), SUBSCRIBERS_FIELD] : fieldsOf(webhook)
