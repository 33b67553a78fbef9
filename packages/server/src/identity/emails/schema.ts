import { z } from 'zod'
import { Paging, Time, Times } from '../../platform/http/route.ts'
import { EMAIL_LANGUAGES } from '../../tenancy/apps/schema.ts'

/** What an email's code is for. */
const CODE_PURPOSES = ['sign_in', 'link', 'change', 'change_current', 'recovery'] as const
export type CodePurpose = (typeof CODE_PURPOSES)[number]

/** What an email without a code tells the owner of an account. */
const NOTICE_PURPOSES = ['recovery_requested', 'recovery_reminder', 'recovery_completed'] as const
export type NoticePurpose = (typeof NOTICE_PURPOSES)[number]

/** The kinds of emails. */
export const EMAIL_KINDS = [...CODE_PURPOSES, ...NOTICE_PURPOSES] as const
export type EmailPurpose = CodePurpose | NoticePurpose

/** Emails to members of a tenant, who sign in to the dashboard: they belong to no app, and no list shows them. */
export type MemberPurpose = 'member_invitation' | 'member_link' | 'member_code'

const NOTICES: ReadonlySet<string> = new Set(NOTICE_PURPOSES)
export const isNotice = (purpose: EmailPurpose | MemberPurpose): purpose is NoticePurpose => NOTICES.has(purpose)

/** A kind of email in the path or body of a call. */
export const EmailKind = z
  .enum(EMAIL_KINDS)
  .meta({ description: 'What the email is for: the `purpose` in the list of emails.' })

export const EmailLanguage = z.enum(EMAIL_LANGUAGES)
export type EmailLanguage = z.infer<typeof EmailLanguage>

const Status = z.enum(['queued', 'sent', 'failed', 'skipped']).meta({
  description:
    '`sent`: the mail server or your server took it. `failed`: it was refused, or the code expired before it was taken. `skipped`: nobody gets it, because no user has the address and the app lets nobody sign up, or because it is a test address.',
})

/** An email in responses: everything but what it says. */
export const SentEmail = z
  .object({
    id: z.string().meta({ example: 'eml_01jb2m7x9kq4t8v6w0r3s5y1zt' }),
    appId: z.string(),
    userId: z.string().nullable().meta({ description: 'Null if no user had the address yet.' }),
    address: z.string().meta({ example: 'ada@example.com' }),
    purpose: z.enum(EMAIL_KINDS).meta({
      description:
        'What its code is for. Of a change of address, `change` went to the new one and `change_current` to the old. `recovery_…` are notices without a code: a recovery of the account was requested, is almost over, or was completed.',
    }),
    language: EmailLanguage,
    status: Status,
    attempts: z.int().meta({ description: 'How often sending it was tried.' }),
    error: z
      .string()
      .nullable()
      .meta({ description: 'Why the last attempt failed.', example: 'The mail server refused it: 550.' }),
    sentAt: Time.nullable(),
    ...Times,
  })
  .meta({ id: 'Email' })
export type SentEmail = z.infer<typeof SentEmail>

export const ListEmails = z.strictObject({
  ...Paging,
  status: Status.optional().meta({ description: 'Only emails with this status.' }),
  app_id: z.string().optional().meta({ description: 'Only emails of this app.' }),
})
export type ListEmails = z.infer<typeof ListEmails>
