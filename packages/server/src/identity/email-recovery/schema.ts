import { z } from 'zod'
import { Paging, Time, Times } from '../../platform/http/route.ts'
import { ChallengeId, Code } from '../email-sign-in/schema.ts'
import { RegistrationChallenge } from '../passkeys/schema.ts'

/** What ended a recovery without a passkey. */
const ENDED_BY = ['session', 'link', 'passkey', 'second_factor', 'email_changed', 'suspended', 'tampered'] as const
export type EndedBy = (typeof ENDED_BY)[number]

/** A recovery in responses. */
export const EmailRecovery = z
  .object({
    id: z.string().meta({ example: 'rcv_01jb2m7x9kq4t8v6w0r3s5y1zw' }),
    userId: z.string(),
    appId: z.string(),
    status: z.enum(['pending', 'ready', 'completed', 'canceled', 'expired']).meta({
      description:
        '`pending`: it waits until `availableAt`. `ready`: another code gives the account a new passkey. `expired`: nobody came for it in seven days.',
    }),
    availableAt: Time.meta({
      description:
        'When the wait ends. If the reminder is sent late, this moves: it comes at least twelve hours before.',
    }),
    expiresAt: Time,
    endedAt: Time.nullable(),
    endedBy: z.enum(ENDED_BY).nullable().meta({
      description:
        'What canceled it: a session of the user, the link in an email, a passkey of the user that was shown or added, a second factor that was set up, another address, a suspension, or a change of the record by something other than Halfkey.',
    }),
    passkeyId: z.string().nullable().meta({ description: 'The passkey that completed it.' }),
    ...Times,
  })
  .meta({ id: 'EmailRecovery' })
export type EmailRecovery = z.infer<typeof EmailRecovery>

export const RecoverByEmail = z.strictObject({ challengeId: ChallengeId, code: Code }).meta({ id: 'RecoverByEmail' })
export type RecoverByEmail = z.infer<typeof RecoverByEmail>

export const RecoveryStep = z
  .object({
    recovery: EmailRecovery,
    registration: RegistrationChallenge.nullable().meta({
      description:
        'For `navigator.credentials.create`, if the recovery is `ready`. Complete it with `POST /auth/passkey/register-verify`, without an access token.',
    }),
  })
  .meta({ id: 'RecoveryStep' })
export type RecoveryStep = z.infer<typeof RecoveryStep>

export const CancelRecovery = z
  .strictObject({
    token: z.string().min(1).max(200).optional().meta({
      description: 'What follows `#cancel_recovery=` in the link of an email. Without it, the current user cancels.',
    }),
  })
  .meta({ id: 'CancelRecovery' })
export type CancelRecovery = z.infer<typeof CancelRecovery>

export const ListRecoveries = z.strictObject({ ...Paging })
export type ListRecoveries = z.infer<typeof ListRecoveries>
