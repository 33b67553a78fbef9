import { z } from 'zod'

/** Shorter waits give the owner too little time to notice. */
const RECOVERY_HOURS_MIN = 24
const RECOVERY_HOURS_MAX = 720

/** Settings of an app's recovery by email. */
export const EmailRecovery = {
  enabled: z.boolean().meta({
    description:
      'Whether users who lost their passkeys get a new one by their confirmed email, after a wait in which every other way in can cancel it. Needs `email.enabled`.',
  }),
  waitHours: z
    .int()
    .min(RECOVERY_HOURS_MIN)
    .max(RECOVERY_HOURS_MAX)
    .meta({
      description: `How long such a recovery waits: ${RECOVERY_HOURS_MIN} to ${RECOVERY_HOURS_MAX} hours. A change counts for recoveries that are requested later.`,
      example: 72,
    }),
}
