import type { EmailPurpose, NoticePurpose } from '../schema.ts'

/** The texts of emails in one language, with the placeholders of templates. `{{time}}` is when a recovery's wait ends. */
export interface EmailTexts {
  subject: Record<EmailPurpose, string>
  intro: Record<EmailPurpose, string>
  /** Above the link of an email with a code. */
  link: string
  /** The link's button. */
  button: string
  validity: string
  /** Above the link of a notice, and its button. Null: the notice has no link. */
  notice: Record<NoticePurpose, { link: string; button: string } | null>
  /** What to do with an email that was not asked for: `{{warning}}`, which no template of an app rewords. */
  warning: Record<EmailPurpose, string>
}
