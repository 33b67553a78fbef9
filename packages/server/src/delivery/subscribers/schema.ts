import { z } from 'zod'
import { Metadata, Paging, Times } from '../../platform/http/route.ts'

const ExternalId = z.string().min(1).max(255).meta({
  description: 'Your id of this customer, unique in the app.',
  example: 'customer-42',
})
const Name = z
  .string()
  .min(1)
  .max(200)
  .meta({ description: 'Shown to the customer in the portal.', example: 'Ada Ltd' })

/** A subscriber, as every response shows it. */
export const Subscriber = z
  .object({
    id: z.string().meta({ example: 'sub_01jb2m7x9kq4t8v6w0r3s5y1zs' }),
    appId: z.string(),
    externalId: ExternalId,
    name: Name.nullable(),
    metadata: z.record(z.string(), z.string()),
    ...Times,
  })
  .meta({ id: 'Subscriber' })
export type Subscriber = z.infer<typeof Subscriber>

export const CreateSubscriber = z
  .strictObject({
    externalId: ExternalId,
    name: Name.nullable().optional(),
    metadata: Metadata.optional(),
    appId: z.string().optional().meta({
      description:
        'The app of the subscriber. By default, the app of the API key; if the key has none, the default app.',
    }),
  })
  .meta({ id: 'CreateSubscriber' })
export type CreateSubscriber = z.infer<typeof CreateSubscriber>

export const UpdateSubscriber = z
  .strictObject({
    externalId: ExternalId.optional(),
    name: Name.nullable().optional(),
    metadata: z.record(z.string().max(200), z.string().nullable()).optional(),
  })
  .meta({ id: 'UpdateSubscriber' })
export type UpdateSubscriber = z.infer<typeof UpdateSubscriber>

export const ListSubscribers = z.strictObject({
  ...Paging,
  app_id: z.string().optional(),
  external_id: z.string().max(255).optional(),
})
export type ListSubscribers = z.infer<typeof ListSubscribers>
