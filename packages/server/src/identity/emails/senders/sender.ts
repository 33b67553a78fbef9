import type { EmailRow } from '../store.ts'
import type { RenderedEmail, SentContent } from '../template.ts'

/** An email that is ready to be sent. */
export interface ReadyEmail<Row extends EmailRow = EmailRow> {
  row: Row
  content: SentContent
  rendered: RenderedEmail
}

/** How one attempt to send ended. `final`: another attempt would fail too. */
export type SendOutcome = { ok: true } | { ok: false; error: string; final: boolean }

/** Takes an email over: a mail server, an app's own server, or the mailbox for development. */
export type Sender<Row extends EmailRow = EmailRow> = (email: ReadyEmail<Row>) => Promise<SendOutcome>
