import type { Deps } from '../../platform/deps.ts'
import { escapeHtml } from '../../platform/http/pages/pages.ts'
import type { PlainAnswer, PlainRoute } from '../../platform/http/route.ts'
import { operatorSends, readyEmail } from './send.ts'
import type { ReadyEmail } from './senders/sender.ts'
import { listMailbox } from './store.ts'

const SHOWN_MAX = 50

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

const NOT_FOUND: PlainAnswer = { status: 404, contentType: 'text/plain; charset=utf-8', body: 'Not found.' }

async function mails(deps: Deps): Promise<ReadyEmail[]> {
  return Promise.all((await listMailbox(deps.db, SHOWN_MAX)).map((row) => readyEmail(deps, row)))
}

const shown = ({ row, content, rendered }: ReadyEmail) => ({
  id: row.id,
  appId: row.app_id,
  to: row.address,
  purpose: row.purpose,
  language: row.language,
  code: content.code,
  link: content.link,
  ...rendered,
  createdAt: row.created_at.toISOString(),
})

function item(mail: ReturnType<typeof shown>): string {
  const link = mail.link === null ? '' : `<p><a href="${escapeHtml(mail.link)}">Open its link</a></p>\n`
  return `<article>
<h2>${escapeHtml(mail.subject)}</h2>
<p>To ${escapeHtml(mail.to)}, ${escapeHtml(mail.createdAt)}</p>
${link}<pre>${escapeHtml(mail.text)}</pre>
</article>`
}

function pageOf(found: ReadyEmail[]): string {
  const body =
    found.length === 0
      ? '<p>No emails yet. Reload this page to look again.</p>'
      : found.map((each) => item(shown(each))).join('\n')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Emails in development</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:720px;margin:24px auto;padding:0 16px}article{border-top:1px solid #8888;padding:8px 0}pre{white-space:pre-wrap;overflow-wrap:anywhere}h2{margin:8px 0}</style>
</head>
<body>
<h1>Emails in development</h1>
<p>Without HALFKEY_SMTP_URL, development sends no emails. It shows the last ${SHOWN_MAX} here instead.</p>
${body}
</body>
</html>
`
}

/** Answers only where emails are not sent: in development, without a mail server. Other services have no such page. */
const inDevelopment =
  (answer: (found: ReadyEmail[]) => Pick<PlainAnswer, 'contentType' | 'body'>): PlainRoute['handler'] =>
  async (deps) =>
    operatorSends(deps) === 'mailbox' ? { status: 200, headers: HEADERS, ...answer(await mails(deps)) } : NOT_FOUND

/** The mailbox for development: a page, and the same as JSON for tests. */
export const mailboxPages: PlainRoute[] = [
  {
    path: '/dev/mail',
    handler: inDevelopment((found) => ({ contentType: 'text/html; charset=utf-8', body: pageOf(found) })),
  },
  {
    path: '/dev/mail.json',
    handler: inDevelopment((found) => ({
      contentType: 'application/json; charset=utf-8',
      body: JSON.stringify(found.map(shown)),
    })),
  },
]
