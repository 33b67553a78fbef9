import type { Webhook } from '@halfkey/sdk'
import type { FormField, Option } from '../../../components/form/form-field.ts'
import { parsedJson, problemOfJson } from '../../../components/form/json-text.ts'

/** Which events a webhook gets and how they are sent, as it is edited. */
export interface Content {
  /** JSON; empty without a filter. */
  filter: string
  format: Webhook['format']
  payload: Webhook['payload']
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
export function contentOf({ filter, format, payload }: Webhook): Content {
  return { filter: filter === null ? '' : JSON.stringify(filter, null, 2), format, payload }
}

/** The changes as an update sends them. */
export function contentChanges({ filter, format, payload }: Partial<Content>) {
  return {
    ...(filter === undefined ? {} : { filter: parsedJson(filter) }),
    ...(format === undefined ? {} : { format }),
    ...(payload === undefined ? {} : { payload }),
  }
}

/** The fields of which events a webhook gets and how they are sent. */
export const CONTENT_FIELDS: FormField<Content>[] = [
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
  { name: 'format', label: 'Format', kind: 'select', options: FORMATS },
  {
    name: 'payload',
    label: 'Payload',
    kind: 'select',
    options: PAYLOADS,
    help: 'Thin events have empty data. Your receiver gets the data from the API.',
  },
]
