import type { Body, CustomEventType } from '@halfkey/sdk'
import type { FormField } from '../../components/form/form-field.ts'
import { parsedJson, problemOfJson } from '../../components/form/json-text.ts'

/** An event type as it is edited: its schema and example are JSON. */
export interface TypeInput {
  description: string
  schema: string
  example: string
  deprecated: boolean
}

const text = (value: object | null | undefined) => (value == null ? '' : JSON.stringify(value, null, 2))

/** What a form of a type begins with. */
export function inputOf(type?: CustomEventType): TypeInput {
  return {
    description: type?.description ?? '',
    schema: text(type?.schema),
    example: text(type?.example),
    deprecated: type?.deprecated ?? false,
  }
}

/** The body with what was typed, or with what was changed. */
export function bodyOf({
  description,
  schema,
  example,
  ...same
}: Partial<TypeInput>): Body<'/event-types/{id}', 'patch'> {
  return {
    ...same,
    ...(description === undefined ? {} : { description: description.trim() || null }),
    ...(schema === undefined ? {} : { schema: parsedJson(schema) }),
    ...(example === undefined ? {} : { example: parsedJson(example) }),
  }
}

const SCHEMA_EXAMPLE = '{"required": ["invoiceId"]}'
const DATA_EXAMPLE = '{"invoiceId": "inv_1"}'
const part = (path: string) => path

/** The fields that creating and changing a type have in common. */
export const TYPE_FIELDS: FormField<TypeInput>[] = [
  { name: 'description', label: 'Description', help: 'Optional. What happened when this event is published.' },
  {
    name: 'schema',
    label: 'JSON Schema',
    kind: 'code',
    help: 'Optional. Halfkey refuses events whose data does not match it. A change applies to events that are published afterwards.',
    validate: (value) => problemOfJson(value, SCHEMA_EXAMPLE),
    partName: part,
    input: { placeholder: SCHEMA_EXAMPLE },
  },
  {
    name: 'example',
    label: 'Example',
    kind: 'code',
    help: 'Optional. The data of test events. It must match the schema.',
    validate: (value) => problemOfJson(value, DATA_EXAMPLE),
    partName: part,
    input: { placeholder: DATA_EXAMPLE },
  },
  {
    name: 'deprecated',
    label: 'Deprecated',
    kind: 'switch',
    help: 'Tells readers not to use this type any more. You can still publish its events.',
  },
]
