import { z } from 'zod'

/** How members of a tenant sign in beside their passkeys. */
export const MemberSignIn = z
  .object({
    emailCode: z.boolean().meta({
      description:
        'Whether members sign in by a code that is mailed to their address. It counts only for an address that they have verified (`emailVerified`).',
    }),
    signInUrl: z.string().meta({
      description:
        'Where members of this tenant sign in. With one tenant only, the address without `?tenant=` does the same.',
      example: 'https://id.example.com/dashboard?tenant=ten_01jb2m7x9kq4t8v6w0r3s5y1za',
    }),
  })
  .meta({ id: 'MemberSignIn' })
export type MemberSignIn = z.infer<typeof MemberSignIn>

export const UpdateMemberSignIn = z
  .strictObject({ emailCode: z.boolean().optional() })
  .meta({ id: 'UpdateMemberSignIn' })
export type UpdateMemberSignIn = z.infer<typeof UpdateMemberSignIn>
