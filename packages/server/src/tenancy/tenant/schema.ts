import { z } from 'zod'
import { Times } from '../../platform/http/route.ts'

const Name = z.string().max(200).regex(/\S/).meta({
  description: 'The display name of the tenant.',
  example: 'Example Ltd',
  'x-expected': 'text of 1 to 200 characters, not only spaces',
})

const DefaultAppId = z.string().meta({
  description: 'The default app: new users belong to it if a call has no app id.',
  example: 'app_01jb2m7x9kq4t8v6w0r3s5y1zb',
})

/** The tenant in responses. */
export const Tenant = z
  .object({
    id: z.string().meta({ example: 'ten_01jb2m7x9kq4t8v6w0r3s5y1zp' }),
    name: Name,
    plan: z.string().meta({ description: 'Set by billing. You cannot change it here.', example: 'self_hosted' }),
    settings: z.object({ defaultAppId: DefaultAppId }),
    ...Times,
  })
  .meta({ id: 'Tenant' })
export type Tenant = z.infer<typeof Tenant>

export const UpdateTenant = z
  .strictObject({
    name: Name.optional(),
    settings: z.strictObject({ defaultAppId: DefaultAppId.optional() }).optional(),
  })
  .meta({ id: 'UpdateTenant' })
export type UpdateTenant = z.infer<typeof UpdateTenant>
