import { escapeHtml } from '../../platform/http/pages/pages.ts'
import { de } from './languages/de.ts'
import { en } from './languages/en.ts'
import type { EmailTexts } from './languages/language.ts'
import { type EmailLanguage, type EmailPurpose, isNotice } from './schema.ts'

const TEXTS: Record<EmailLanguage, EmailTexts> = { en, de }

/** How long the code of an email is valid, in minutes. */
export const CODE_MINUTES = 10

/** What an email says. Nothing that a user wrote is in it: the address may be somebody else's. */
export interface EmailContent {
  purpose: EmailPurpose
  language: EmailLanguage
  /** The app's name, as its team wrote it. */
  appName: string
  /** Null in a notice. */
  code: string | null
  /** A page of the asking browser; null if the code must be typed. Of a notice, the page that stops what it is about. */
  link: string | null
  /** When the wait of a recovery ends, as ISO 8601. Absent in an email with a code. */
  at?: string
}

/** An email, written out. */
export interface RenderedEmail {
  subject: string
  text: string
  html: string
}

/** What the senders need of an email beside its written form. */
export type SentContent = Pick<EmailContent, 'appName' | 'code' | 'link' | 'at'>

/** One line without control and format characters: it stands in a header, and beside other texts. */
export const oneLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, 200)

const HTML = (language: string, parts: string[]) => `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
</head>
<body style="margin:0;padding:24px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:16px;line-height:1.5">
<div style="max-width:480px;margin:0 auto">
${parts.join('\n')}
</div>
</body>
</html>
`

const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:8px;background:#4254c5;color:#ffffff;text-decoration:none'

const line = (text: string) => `<p>${escapeHtml(text)}</p>`

/** A part of an email in both forms. */
export interface Part {
  text: string
  html: string
}

export const said = (text: string): Part => ({ text, html: line(text) })

export const linked = (above: string, button: string, link: string): Part => ({
  text: `${above}\n${link}`,
  html: `${line(above)}\n<p><a style="${BUTTON}" href="${escapeHtml(link)}">${escapeHtml(button)}</a></p>`,
})

export const small = (text: string): Part => ({
  text,
  html: `<p style="font-size:14px;opacity:0.7">${escapeHtml(text)}</p>`,
})

export const big = (code: string): Part => ({
  text: code,
  html: `<p style="font-size:32px;font-weight:600;letter-spacing:6px;margin:16px 0">${code}</p>`,
})

/** A time as its reader writes it. Whose clock the reader has is not known, so it is UTC. */
const timeText = (language: EmailLanguage, at: string) =>
  `${new Intl.DateTimeFormat(language, { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(new Date(at))} UTC`

function partsOf({ purpose, language, code, link }: EmailContent, fill: (text: string) => string): Part[] {
  const texts = TEXTS[language]
  const intro = said(fill(texts.intro[purpose]))
  const unasked = small(fill(texts.unasked[purpose]))
  if (isNotice(purpose)) {
    const words = texts.notice[purpose]
    return [intro, ...(words === null || link === null ? [] : [linked(words.link, words.button, link)]), unasked]
  }
  return [
    intro,
    big(code ?? ''),
    ...(link === null ? [] : [linked(texts.link, texts.button, link)]),
    said(fill(texts.validity)),
    unasked,
  ]
}

/** Writes an email of the given parts as plain text and as HTML. */
export function renderParts(language: EmailLanguage, subject: string, parts: readonly Part[]): RenderedEmail {
  return {
    subject,
    text: `${parts.map(({ text }) => text).join('\n\n')}\n`,
    html: HTML(
      language,
      parts.map(({ html }) => html),
    ),
  }
}

/** Writes an email as plain text and as HTML, in which every value is escaped. */
export function renderEmail(content: EmailContent): RenderedEmail {
  const { purpose, language, appName, at } = content
  const values: Record<string, string> = {
    app: oneLine(appName),
    minutes: String(CODE_MINUTES),
    time: at === undefined ? '' : timeText(language, at),
  }
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (_, name: string) => values[name] as string)
  return renderParts(language, fill(TEXTS[language].subject[purpose]), partsOf(content, fill))
}
