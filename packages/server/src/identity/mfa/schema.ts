import { z } from 'zod'
import { Time } from '../../platform/http/route.ts'

const PURPOSE_CHARS_MAX = 100
const RECOVERY_CODE_CHARS_MAX = 64

const Methods = z.array(z.enum(['totp', 'recovery_code'])).meta({
  description: 'The accepted methods. `recovery_code` is listed while unused recovery codes are left.',
})

export const MfaSetup = z
  .object({
    secret: z.string().meta({
      description: 'In base32, for typing into an authenticator app.',
      example: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
    }),
    otpauthUrl: z.string().meta({
      example:
        'otpauth://totp/Shop:ada%40example.com?issuer=Shop&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&algorithm=SHA1&digits=6&period=30',
    }),
    qrSvg: z
      .string()
      .meta({ description: 'The URL as a QR code: an SVG with a background and without external references.' }),
    expiresAt: Time.meta({ description: 'The set-up can be completed until this time.' }),
  })
  .meta({ id: 'MfaSetup' })
export type MfaSetup = z.infer<typeof MfaSetup>

const Code = z
  .string()
  .regex(/^\d{6}$/)
  .meta({
    description: 'The code that the authenticator app shows.',
    'x-expected': 'the six digits that the authenticator app shows',
    example: '123456',
  })

export const VerifyMfaSetup = z.strictObject({ code: Code }).meta({ id: 'VerifyMfaSetup' })
export type VerifyMfaSetup = z.infer<typeof VerifyMfaSetup>

export const RecoveryCodes = z
  .object({
    recoveryCodes: z.array(z.string()).meta({
      description: 'Each code can be used once. They are only in this response.',
      example: ['7f3k-9qwx-2m4h-c8rt'],
    }),
  })
  .meta({ id: 'RecoveryCodes' })
export type RecoveryCodes = z.infer<typeof RecoveryCodes>

export const CreateMfaChallenge = z
  .strictObject({
    purpose: z
      .string()
      .min(1)
      .max(PURPOSE_CHARS_MAX)
      .nullable()
      .optional()
      .meta({ description: 'The purpose of the challenge, in your own words.', example: 'withdrawal' }),
  })
  .meta({ id: 'CreateMfaChallenge' })
export type CreateMfaChallenge = z.infer<typeof CreateMfaChallenge>

export const MfaChallenge = z
  .object({
    challengeId: z.string().meta({ example: 'chl_01jb2m7x9kq4t8v6w0r3s5y1za' }),
    methods: Methods,
    purpose: z.string().nullable(),
    expiresAt: Time,
  })
  .meta({ id: 'MfaChallenge' })
export type MfaChallenge = z.infer<typeof MfaChallenge>

export const VerifyMfa = z
  .strictObject({
    challengeId: z.string(),
    code: Code.optional(),
    recoveryCode: z
      .string()
      .min(1)
      .max(RECOVERY_CODE_CHARS_MAX)
      .optional()
      .meta({ description: 'Instead of `code`. Case and dashes do not matter.', example: '7f3k-9qwx-2m4h-c8rt' }),
  })
  .meta({ id: 'VerifyMfa' })
export type VerifyMfa = z.infer<typeof VerifyMfa>

export const MfaVerification = z
  .object({
    verified: z.literal(true),
    accessToken: z.string().nullable().meta({
      description: 'An access token of the same session, with the extended `amr`. Null if a server acts for the user.',
    }),
    expiresInSeconds: z.int().nullable().meta({ description: 'Seconds until the access token expires.', example: 900 }),
    mfaExpiresAt: Time.meta({
      description: 'Until this time, calls that need a second factor accept this verification.',
    }),
  })
  .meta({ id: 'MfaVerification' })
export type MfaVerification = z.infer<typeof MfaVerification>

export const MfaStatus = z
  .object({
    enabled: z.boolean(),
    methods: Methods,
    recoveryCodesRemaining: z.int(),
    enabledAt: Time.nullable(),
  })
  .meta({ id: 'MfaStatus' })
export type MfaStatus = z.infer<typeof MfaStatus>
