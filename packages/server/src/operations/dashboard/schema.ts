import { z } from 'zod'
import { Code } from '../../identity/email-sign-in/schema.ts'
import { LoginVerify, RegisterVerify } from '../../identity/passkeys/schema.ts'
import { Time } from '../../platform/http/route.ts'
import { ROLES } from '../../platform/security/roles/roles.ts'

const SECRET_CHARS_MAX = 200
const EMAIL_CHARS_MAX = 320

/** A code that was mailed to a member, with its challenge. */
const EmailCode = z.strictObject({ challengeId: z.string().max(SECRET_CHARS_MAX), code: Code })

/** How to sign in: by a one-time link's token, by a secret API key, or by a member's passkey or email code. */
export const SignIn = z.strictObject({
  link: z.string().min(1).max(SECRET_CHARS_MAX).optional(),
  key: z.string().min(1).max(SECRET_CHARS_MAX).optional(),
  passkey: LoginVerify.optional(),
  emailCode: EmailCode.optional(),
})
export type SignIn = z.infer<typeof SignIn>

/** Who asks for a code. Without a tenant it is the only one of the installation. */
export const StartCode = z.strictObject({
  email: z.string().max(EMAIL_CHARS_MAX),
  tenantId: z.string().max(SECRET_CHARS_MAX).optional(),
})
export type StartCode = z.infer<typeof StartCode>

/** Which tenant's login. Without a tenant it is the only one of the installation. */
export const StartLogin = z.strictObject({ tenantId: z.string().max(SECRET_CHARS_MAX).optional() })
export type StartLogin = z.infer<typeof StartLogin>

/** A passkey that is shown again by somebody who is signed in. */
export const StepUp = LoginVerify
/** A new passkey. */
export const NewPasskey = RegisterVerify
/** Which passkey to remove. */
export const OldPasskey = z.strictObject({ id: z.string().max(SECRET_CHARS_MAX) })

/** The passkeys of the member who is signed in. */
export const Passkeys = z.array(
  z.object({ id: z.string(), name: z.string(), lastUsedAt: Time.nullable(), createdAt: Time }),
)

const AppName = z.object({ id: z.string(), name: z.string() })

const TenantName = z.object({ id: z.string(), name: z.string() })

/** A dashboard session, as its page sees it. */
export const Session = z.object({
  via: z.enum(['link', 'key', 'member']),
  /** Who is signed in, where it is a member. */
  member: z
    .object({
      id: z.string(),
      name: z.string(),
      email: z.string(),
      role: z.enum(ROLES),
      verifiedAt: z.string().nullable(),
    })
    .nullable(),
  /** The apps that it may change to; null where it has all. */
  apps: z.array(AppName).nullable(),
  keyId: z.string().nullable(),
  keyName: z.string().nullable(),
  scopes: z.array(z.string()),
  /** The app that it is limited to, or shows of those that it may. */
  appId: z.string().nullable(),
  tenant: TenantName,
  /** Those that it may change to. */
  tenants: z.array(TenantName),
  csrfToken: z.string(),
  createdAt: z.string(),
  expiresAt: z.string(),
  environment: z.enum(['development', 'production']),
  publicUrl: z.string(),
  version: z.string(),
  defaultAppId: z.string(),
})
export type Session = z.infer<typeof Session>
