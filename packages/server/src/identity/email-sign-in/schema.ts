import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'
import { EmailLanguage } from '../emails/schema.ts'
import { Email } from '../users/schema.ts'

export const ChallengeId = z.string().max(100).meta({
  description: 'From `POST /auth/email/start`. Keep it where you asked for the code: the email does not contain it.',
  example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1zv',
})

export const Code = z
  .string()
  .regex(/^\d{6}$/)
  .meta({ description: 'The code in the email.', example: '482913', 'x-expected': 'six digits' })

export const StartEmail = z
  .strictObject({
    email: Email,
    purpose: z.enum(['sign_in', 'link', 'change', 'recovery']).optional().meta({
      description:
        '`sign_in` (the default); `link`: the current user wants to sign in with this address from then on; `change`: with this address in place of the one that the user has; `recovery`: a user who lost their passkeys asks for a new one. Answer `link` with `POST /auth/email/link`, `change` with `POST /auth/email/change`, and `recovery` with `POST /auth/email/recovery`.',
    }),
    language: EmailLanguage.optional().meta({ description: "Of the email. Default: the app's `email.language`." }),
    linkUrl: z.string().min(1).max(2048).optional().meta({
      description:
        'A page of yours that the email links to, with the code as `#email_code=…`: exactly one of the app’s `allowedRedirectUrls`. Without it, the email has no link.',
      example: 'https://shop.example.com/signed-in',
    }),
    appId: z.string().optional().meta({ description: "Default: the key's app, or the tenant's default app." }),
  })
  .meta({ id: 'StartEmail' })
export type StartEmail = z.infer<typeof StartEmail>

export const EmailChallenge = z
  .object({
    challengeId: ChallengeId,
    currentChallengeId: ChallengeId.nullable().meta({
      description:
        'Of a change: the challenge of the code that was sent to the address that the user has. Null if that address was never confirmed, and for the other purposes.',
    }),
    expiresAt: Time.meta({ description: 'Until then the code can be used: ten minutes.' }),
  })
  .meta({ id: 'EmailChallenge' })
export type EmailChallenge = z.infer<typeof EmailChallenge>

export const VerifyEmail = z
  .strictObject({
    challengeId: ChallengeId,
    code: Code,
    newAccount: z.boolean().optional().meta({
      description:
        'After `email_not_linked`: starts a new account. The account that named the address without confirming it loses it, and keeps everything else.',
    }),
  })
  .meta({ id: 'VerifyEmail' })
export type VerifyEmail = z.infer<typeof VerifyEmail>

export const LinkEmail = z.strictObject({ challengeId: ChallengeId, code: Code }).meta({ id: 'LinkEmail' })
export type LinkEmail = z.infer<typeof LinkEmail>

export const ChangeEmail = z
  .strictObject({
    challengeId: ChallengeId,
    code: Code.meta({ description: 'The code in the email to the new address.' }),
    currentChallengeId: ChallengeId.optional().meta({
      description: 'From `POST /auth/email/start`, unless it was null there.',
    }),
    currentCode: Code.optional().meta({ description: 'The code in the email to the address that the user has.' }),
  })
  .meta({ id: 'ChangeEmail' })
export type ChangeEmail = z.infer<typeof ChangeEmail>
