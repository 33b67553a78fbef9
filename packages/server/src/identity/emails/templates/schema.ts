import { z } from 'zod'
import { IdParam, Paging, Time } from '../../../platform/http/route.ts'
import { EmailKind, EmailLanguage } from '../schema.ts'

const SUBJECT_CHARS_MAX = 200
const TEXT_CHARS_MAX = 10_000
const HTML_CHARS_MAX = 50_000

const expected = (text: string) => ({ 'x-expected': text })

const Subject = z
  .string()
  .max(SUBJECT_CHARS_MAX)
  .regex(/\S/)
  .meta({
    description: 'The subject, in one line. It can contain `{{appName}}`.',
    example: 'Your code for {{appName}}',
    ...expected(`text of 1 to ${SUBJECT_CHARS_MAX} characters, not only spaces`),
  })
const Text = z
  .string()
  .max(TEXT_CHARS_MAX)
  .regex(/\S/)
  .meta({
    description:
      'The plain text, with placeholders such as `{{code}}`. What stands between `{{#link}}` and `{{/link}}` is left out of emails without a link.',
    example: 'Your code is:\n\n{{code}}\n\n{{#link}}\nOr open:\n{{link}}\n{{/link}}',
    ...expected(`text of 1 to ${TEXT_CHARS_MAX} characters, not only spaces`),
  })
const Html = z
  .string()
  .max(HTML_CHARS_MAX)
  .regex(/\S/)
  .nullable()
  .meta({
    description:
      'What the body of the HTML contains. Only some elements, attributes and styles are allowed: see the guide. null: Halfkey makes it from `text`, with the branding of the app.',
    example: null,
    ...expected(`text of 1 to ${HTML_CHARS_MAX} characters, not only spaces`),
  })

/** How one kind of email is written in one language. */
export const EmailTemplate = z
  .object({
    appId: z.string(),
    kind: EmailKind,
    language: EmailLanguage,
    subject: Subject,
    text: Text,
    html: Html,
    isDefault: z.boolean().meta({ description: "Whether this is Halfkey's text, because the app has no other." }),
    placeholders: z.array(z.string()).meta({ description: 'The placeholders that `text` and `html` can contain.' }),
    required: z.array(z.string()).meta({ description: 'Those that `text` and `html` must contain.' }),
    updatedAt: Time.nullable().meta({ description: 'When the app last changed it. null for a default.' }),
  })
  .meta({ id: 'EmailTemplate' })
export type EmailTemplate = z.infer<typeof EmailTemplate>

/** Body of PUT. */
export const SetEmailTemplate = z
  .strictObject({ subject: Subject, text: Text, html: Html.optional() })
  .meta({ id: 'SetEmailTemplate' })
export type SetEmailTemplate = z.infer<typeof SetEmailTemplate>

/** Body of a preview: a template that need not be stored. */
export const PreviewEmailTemplate = SetEmailTemplate.extend({ kind: EmailKind, language: EmailLanguage }).meta({
  id: 'PreviewEmailTemplate',
})
export type PreviewEmailTemplate = z.infer<typeof PreviewEmailTemplate>

export const EmailPreview = z
  .object({
    subject: z.string(),
    text: z.string(),
    html: z.string().meta({ description: 'A whole HTML document.' }),
  })
  .meta({ id: 'EmailPreview' })
export type EmailPreview = z.infer<typeof EmailPreview>

export const ListEmailTemplates = z.strictObject({
  ...Paging,
  kind: EmailKind.optional().meta({ description: 'Only emails of this kind.' }),
  language: EmailLanguage.optional().meta({ description: 'Only emails in this language.' }),
})
export type ListEmailTemplates = z.infer<typeof ListEmailTemplates>

export const EmailTemplateParams = IdParam.extend({ kind: z.string(), language: z.string() })
export type EmailTemplateParams = z.infer<typeof EmailTemplateParams>
