import type { Config } from '../../../platform/config.ts'
import type { MailServer } from '../../../platform/settings.ts'
import { oneLine } from '../template.ts'
import type { Sender, SendOutcome } from './sender.ts'

const CONNECTIONS_MAX = 4
const CONNECT_TIMEOUT_MS = 10_000
const SOCKET_TIMEOUT_MS = 20_000

const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|::1)$/

/** An app's name as that of a sender: it must not look like an address, whatever reads it. */
const displayName = (name: string) => oneLine(name.replace(/["<>@,;:\\]+/g, ' '))

/** What nodemailer's errors have in common. */
interface MailError {
  code?: string
  responseCode?: number
}

/** What went wrong, without the server's own words: they may repeat the address or what was sent. */
function outcomeOf(error: MailError): SendOutcome {
  const { responseCode, code } = error
  if (responseCode !== undefined)
    return { ok: false, error: `The mail server refused it: ${responseCode}.`, final: responseCode >= 500 }
  return { ok: false, error: `The mail server could not be used: ${code ?? 'unknown error'}.`, final: false }
}

/** Sends through the operator's mail server. Connections are kept; without TLS nothing is sent, except in development and to loopback. */
export function createSmtpSender(
  server: MailServer,
  from: string,
  env: Config['env'],
): { send: Sender; close(): void } {
  const { host, port, tls, user, password } = server
  // Loaded with the first email: processes that send none do without its megabytes.
  const open = async () =>
    (await import('nodemailer')).createTransport({
      pool: true,
      host,
      port,
      secure: tls,
      requireTLS: env === 'production' && !LOOPBACK.test(host),
      ...(user === '' ? {} : { auth: { user, pass: password } }),
      maxConnections: CONNECTIONS_MAX,
      connectionTimeout: CONNECT_TIMEOUT_MS,
      greetingTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SOCKET_TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
    })
  let transport: ReturnType<typeof open> | undefined
  return {
    async send({ row, content, rendered }) {
      try {
        transport ??= open()
        await (await transport).sendMail({
          // As objects: an address or a name is never parsed as a list.
          from: { name: displayName(content.appName), address: from },
          to: { name: '', address: row.address },
          envelope: { from, to: [row.address] },
          messageId: `<${row.id}@${from.slice(from.lastIndexOf('@') + 1)}>`,
          // RFC 3834: no automatic replies.
          headers: { 'auto-submitted': 'auto-generated' },
          ...rendered,
          // Mail programs show a logo that comes with the email, and no `data:` URL.
          attachDataUrls: true,
        })
        return { ok: true }
      } catch (error) {
        return outcomeOf(error as MailError)
      }
    },
    close: () => void transport?.then((opened) => opened.close()),
  }
}
