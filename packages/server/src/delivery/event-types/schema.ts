import { z } from 'zod'
import { CUSTOM_TYPE, CUSTOM_TYPE_CHARS_MAX } from '../../platform/events/custom-types.ts'
import { Paging, sortedBy, Times } from '../../platform/http/route.ts'

/** The name of a type that a team defines. */
export const TypeName = z
  .string()
  .max(CUSTOM_TYPE_CHARS_MAX)
  .regex(CUSTOM_TYPE)
  .meta({
    'x-expected': `a lower-case name of at least two parts, separated by dots, with at most ${CUSTOM_TYPE_CHARS_MAX} characters, for example acme.invoice.paid`,
    example: 'acme.invoice.paid',
  })

const Description = z.string().max(1_000)
const Example = z.record(z.string(), z.unknown()).meta({
  description: 'An example of the event’s `data`, at most 64 KiB. It must match the schema.',
  example: { invoiceId: 'inv_1' },
})
const Schema = z.record(z.string(), z.unknown()).meta({
  description:
    'A JSON Schema (2020-12) for `data`, at most 64 KiB. `$ref` must be local (`#/…`), patterns are RE2, `format` is not checked. Null: any object.',
  example: { type: 'object', required: ['invoiceId'], properties: { invoiceId: { type: 'string' } } },
})
const Deprecated = z
  .boolean()
  .meta({ description: 'Whether the type should no longer be used. It can still be published.' })
const Status = z.enum(['active', 'archived'])

/** A type of events that a team publishes itself. */
export const CustomEventType = z
  .object({
    id: z.string().meta({ example: 'ety_01jb2m7x9kq4t8v6w0r3s5y1zs' }),
    appId: z.string(),
    name: TypeName,
    description: z.string().nullable(),
    schema: Schema.nullable(),
    schemaVersion: z.int().meta({ description: 'Counts the changes of `schema`, from 1.' }),
    example: Example.nullable(),
    deprecated: Deprecated,
    status: Status.meta({ description: 'Events of an `archived` type cannot be published.' }),
    ...Times,
  })
  .meta({ id: 'CustomEventType' })
export type CustomEventType = z.infer<typeof CustomEventType>

export const CreateEventType = z
  .strictObject({
    name: TypeName,
    appId: z.string().optional(),
    description: Description.nullable().optional(),
    schema: Schema.nullable().optional(),
    example: Example.nullable().optional(),
    deprecated: Deprecated.optional(),
  })
  .meta({ id: 'CreateEventType' })
export type CreateEventType = z.infer<typeof CreateEventType>

export const UpdateEventType = z
  .strictObject({
    description: Description.nullable().optional(),
    schema: Schema.nullable().optional(),
    example: Example.nullable().optional(),
    deprecated: Deprecated.optional(),
    status: Status.optional().meta({ description: '`active` restores an archived type.' }),
  })
  .meta({ id: 'UpdateEventType' })
export type UpdateEventType = z.infer<typeof UpdateEventType>

export const ListEventTypes = z.strictObject({
  ...Paging,
  app_id: z.string().optional(),
  name: z.string().min(1).max(CUSTOM_TYPE_CHARS_MAX).optional(),
  status: Status.optional().meta({ description: '`active` by default.' }),
  ...sortedBy('createdAt'),
})
export type ListEventTypes = z.infer<typeof ListEventTypes>
