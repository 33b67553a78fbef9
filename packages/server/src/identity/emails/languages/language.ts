import type { EmailPurpose } from '../schema.ts'

/** The texts of emails in one language. `{app}` is the app's name, `{minutes}` how long the code is valid. */
export interface EmailTexts {
  subject: Record<EmailPurpose, string>
  intro: Record<EmailPurpose, string>
  /** Above the link. */
  link: string
  /** The link's button. */
  button: string
  validity: string
  /** What to do with an email that was not asked for. */
  unasked: string
}
