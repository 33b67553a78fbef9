import type { EmailRow } from '../store.ts'
import type { EmailContent, RenderedEmail } from '../template.ts'

/** An email that is ready to be sent. */
export interface ReadyEmail {
  row: EmailRow
  content: EmailContent
  rendered: RenderedEmail
}

/** How one attempt to send ended. `final`: another attempt would fail too. */
export type SendOutcome = { ok: true } | { ok: false; error: string; final: boolean }

/** Takes an email over: a mail server, an app's own server, or the mailbox for development. */
export type Sender = (email: ReadyEmail) => Promise<SendOutcome>
