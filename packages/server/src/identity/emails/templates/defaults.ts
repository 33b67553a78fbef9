import { ar } from '../languages/ar.ts'
import { de } from '../languages/de.ts'
import { en } from '../languages/en.ts'
import { es } from '../languages/es.ts'
import { fr } from '../languages/fr.ts'
import { ja } from '../languages/ja.ts'
import type { EmailTexts } from '../languages/language.ts'
import { pt } from '../languages/pt.ts'
import { zh } from '../languages/zh.ts'
import { type EmailLanguage, type EmailPurpose, isNotice } from '../schema.ts'

const TEXTS: Readonly<Record<EmailLanguage, EmailTexts>> = { en, de, fr, es, pt, ja, zh, ar }

/** What Halfkey says in a language. */
export const textsOf = (language: EmailLanguage): EmailTexts => TEXTS[language]

/** The words on the button of an email's link. */
export function buttonOf(purpose: EmailPurpose, language: EmailLanguage): string {
  const texts = TEXTS[language]
  return isNotice(purpose) ? (texts.notice[purpose]?.button ?? texts.button) : texts.button
}

function textOf(purpose: EmailPurpose, texts: EmailTexts): string {
  const intro = texts.intro[purpose]
  if (isNotice(purpose)) {
    const notice = texts.notice[purpose]
    return [intro, ...(notice === null ? [] : [`${notice.link}\n{{link}}`]), '{{warning}}'].join('\n\n')
  }
  const link = `{{#link}}\n${texts.link}\n{{link}}\n{{/link}}`
  return [intro, '{{code}}', link, texts.validity, '{{warning}}'].join('\n\n')
}

/** The template of an email for apps that have written none. */
export function defaultTemplate(purpose: EmailPurpose, language: EmailLanguage) {
  const texts = TEXTS[language]
  return { subject: texts.subject[purpose], text: textOf(purpose, texts), html: null }
}
