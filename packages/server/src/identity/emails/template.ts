import { escapeHtml } from '../../platform/http/pages/pages.ts'
import type { EmailLanguage, EmailPurpose } from './schema.ts'
import { textsOf } from './templates/defaults.ts'
import { bodyOfText, documentOf } from './templates/layout.ts'
import { fill, withSections } from './templates/placeholders.ts'

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

/** How an email is written, with placeholders. */
export interface Template {
  subject: string
  text: string
  /** What the body of the HTML contains. Null: it is made from `text`. */
  html: string | null
}

/** How an email looks: what the app's branding says. */
export interface EmailBrand {
  /** As `#rrggbb`, on which white text is readable. Null: the default. */
  accentColor: string | null
  /** A `data:` URL; null without a logo. */
  logo: string | null
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

/** A time as its reader writes it. Whose clock the reader has is not known, so it is UTC. */
const timeText = (language: EmailLanguage, at: string) =>
  `${new Intl.DateTimeFormat(language, { dateStyle: 'long', timeStyle: 'short', timeZone: 'UTC' }).format(new Date(at))} UTC`

function valuesOf({ purpose, language, appName, code, link, at }: EmailContent): Record<string, string> {
  const values = {
    appName: oneLine(appName),
    code: code ?? '',
    link: link ?? '',
    minutes: String(CODE_MINUTES),
    time: at === undefined ? '' : timeText(language, at),
  }
  return { ...values, warning: fill(textsOf(language).warning[purpose], values) }
}

/** Writes an email as plain text and as HTML, in which every value is escaped. */
export function renderEmail(content: EmailContent, template: Template, brand: EmailBrand): RenderedEmail {
  const { purpose, language, link } = content
  const values = valuesOf(content)
  const escaped = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeHtml(value)]))
  const part = (source: string) => withSections(source, link !== null)
  const body = template.html ?? bodyOfText(part(template.text), { purpose, language, brand })
  return {
    subject: oneLine(fill(template.subject, values)),
    text: `${fill(part(template.text), values).trim()}\n`,
    html: documentOf(language, fill(part(body), { ...escaped, logo: escapeHtml(brand.logo ?? '') })),
  }
}
