import type { RenderedEmail } from '../../identity/emails/template.ts'
import { documentOf } from '../../identity/emails/templates/layout.ts'
import { escapeHtml } from '../../platform/http/pages/pages.ts'

const BUTTON =
  'display:inline-block;padding:12px 20px;border-radius:8px;background:#4254c5;color:#ffffff;text-decoration:none'

const line = (text: string) => `<p>${escapeHtml(text)}</p>`

/** A part of an email to a member, as text and as HTML. */
interface Part {
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

/** Writes an email of the given parts as plain text and as HTML. */
export const renderParts = (subject: string, parts: readonly Part[]): RenderedEmail => ({
  subject,
  text: `${parts.map(({ text }) => text).join('\n\n')}\n`,
  html: documentOf('en', parts.map(({ html }) => html).join('\n')),
})
