import { escapeHtml } from '../../../platform/http/pages/pages.ts'
import type { EmailLanguage, EmailPurpose } from '../schema.ts'
import type { EmailBrand } from '../template.ts'
import { buttonOf } from './defaults.ts'

const ACCENT = '#4254c5'
const RIGHT_TO_LEFT: ReadonlySet<EmailLanguage> = new Set(['ar'])

/** A whole HTML document around a body. Mail programs that drop the outer elements keep the direction of the inner one. */
export function documentOf(language: EmailLanguage, body: string): string {
  const direction = RIGHT_TO_LEFT.has(language) ? ' dir="rtl"' : ''
  return `<!doctype html>
<html lang="${language}"${direction}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
</head>
<body style="margin:0;padding:24px;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:16px;line-height:1.5">
<div style="max-width:480px;margin:0 auto"${direction}>
${body}
</div>
</body>
</html>
`
}

const LOGO =
  '<p style="margin:0 0 24px"><img src="{{logo}}" alt="{{appName}}" style="max-width:200px;max-height:40px;border:0"></p>'
const CODE =
  '<p dir="ltr" style="font-size:32px;font-weight:600;letter-spacing:6px;margin:16px 0;text-align:start">{{code}}</p>'

const button = (words: string, color: string) =>
  `<p><a style="display:inline-block;padding:12px 20px;border-radius:8px;background:${color};color:#ffffff;text-decoration:none" href="{{link}}">${escapeHtml(words)}</a></p>`

const LINK = '<a href="{{link}}" style="overflow-wrap:anywhere">{{link}}</a>'
const paragraph = (lines: string[]) =>
  lines.length === 0
    ? []
    : [`<p>${lines.map((line) => escapeHtml(line).replaceAll('{{link}}', LINK)).join('<br>')}</p>`]

/** One paragraph of text: a link that is alone in its line becomes a button. */
function partsOf(lines: string[], asButton: string): string[] {
  const at = lines.indexOf('{{link}}')
  if (at === -1) return paragraph(lines)
  return [...paragraph(lines.slice(0, at)), asButton, ...partsOf(lines.slice(at + 1), asButton)]
}

/** The default layout: plain text with the app's branding. The code, alone in a paragraph, is shown large. */
export function bodyOfText(
  text: string,
  { purpose, language, brand }: { purpose: EmailPurpose; language: EmailLanguage; brand: EmailBrand },
): string {
  const asButton = button(buttonOf(purpose, language), brand.accentColor ?? ACCENT)
  const paragraphs = text
    .trim()
    .split(/\n{2,}/)
    .flatMap((each) => {
      const lines = each.split('\n').map((line) => line.trim())
      return lines.length === 1 && lines[0] === '{{code}}' ? [CODE] : partsOf(lines, asButton)
    })
  return [...(brand.logo === null ? [] : [LOGO]), ...paragraphs].join('\n')
}
