import { escapeHtml } from '../../platform/http/pages/pages.ts'
import { de } from './languages/de.ts'
import { en } from './languages/en.ts'
import type { EmailTexts } from './languages/language.ts'
import type { EmailLanguage, EmailPurpose } from './schema.ts'

const TEXTS: Record<EmailLanguage, EmailTexts> = { en, de }

/** How long the code of an email is valid, in minutes. */
export const CODE_MINUTES = 10

/** What an email says. Nothing that a user wrote is in it: the address may be somebody else's. */
export interface EmailContent {
  purpose: EmailPurpose
  language: EmailLanguage
  /** The app's name, as its team wrote it. */
  appName: string
  code: string
  /** A page of the asking browser; null if the code must be typed. */
  link: string | null
}

/** An email, written out. */
export interface RenderedEmail {
  subject: string
  text: string
  html: string
}

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

/** Writes an email as plain text and as HTML, in which every value is escaped. */
export function renderEmail({ purpose, language, appName, code, link }: EmailContent): RenderedEmail {
  const texts = TEXTS[language]
  const values: Record<string, string> = { app: oneLine(appName), minutes: String(CODE_MINUTES) }
  const fill = (text: string) => text.replace(/\{(\w+)\}/g, (_, name: string) => values[name] as string)
  const [intro, validity, unasked] = [texts.intro[purpose], texts.validity, texts.unasked].map(fill) as [
    string,
    string,
    string,
  ]
  const line = (text: string) => `<p>${escapeHtml(text)}</p>`
  const button =
    'display:inline-block;padding:12px 20px;border-radius:8px;background:#4254c5;color:#ffffff;text-decoration:none'
  const htmlLink =
    link === null
      ? []
      : [line(texts.link), `<p><a style="${button}" href="${escapeHtml(link)}">${escapeHtml(texts.button)}</a></p>`]
  const textLink = link === null ? [] : [`${texts.link}\n${link}`]
  return {
    subject: fill(texts.subject[purpose]),
    text: `${[intro, code, ...textLink, validity, unasked].join('\n\n')}\n`,
    html: HTML(language, [
      line(intro),
      `<p style="font-size:32px;font-weight:600;letter-spacing:6px;margin:16px 0">${code}</p>`,
      ...htmlLink,
      line(validity),
      `<p style="font-size:14px;opacity:0.7">${escapeHtml(unasked)}</p>`,
    ]),
  }
}
