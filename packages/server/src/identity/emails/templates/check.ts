import { type ErrorDetail, fail } from '../../../platform/http/errors.ts'
import type { EmailPurpose } from '../schema.ts'
import type { Template } from '../template.ts'
import { type CheckedHtml, checkHtml, HtmlProblem } from './html.ts'
import { hasLinkSection, namesIn, type Placeholder, RULES, withSections } from './placeholders.ts'

type Field = 'subject' | 'text' | 'html'

/** Control characters, and those that reorder what is read. Lines and tabs may be in a body. */
const UNWANTED = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069\ufeff]/u
/** An address with a placeholder in it: opening it would tell the code to whoever runs that server. */
const IN_ADDRESS = /(?:[a-z][a-z0-9+.-]*:\/\/|www\.)[^\s<>]*\{\{\w+\}\}/i

const refusal = (field: Field, code: string, message: string, placeholder?: string): ErrorDetail => ({
  field,
  code,
  message,
  ...(placeholder === undefined ? {} : { placeholder }),
})

const shown = (names: readonly string[]) => names.map((name) => `{{${name}}}`).join(', ')

/** What a template may not name there, and braces that are no placeholder. */
function unknownIn(field: Field, source: string, allowed: readonly string[]): ErrorDetail[] {
  const unknown = [...new Set(namesIn(source))].filter((name) => !allowed.includes(name))
  const problems = unknown.map((name) =>
    refusal(field, 'unknown_placeholder', `{{${name}}} is not allowed here. Use ${shown(allowed)}.`, name),
  )
  if (!/\{\{|\}\}/.test(source.replace(/\{\{\w+\}\}/g, ''))) return problems
  return [...problems, refusal(field, 'invalid', 'Contains {{ or }} that is not part of a placeholder.')]
}

const missing = (field: Field, names: readonly Placeholder[]): ErrorDetail[] =>
  names.map((name) => refusal(field, 'missing_placeholder', `Must contain {{${name}}}.`, name))

function checkSubject(subject: string): ErrorDetail[] {
  if (UNWANTED.test(subject)) return [refusal('subject', 'invalid', 'Must be one line without control characters.')]
  // Servers log subjects, and locked screens show them: no code, and no link.
  return unknownIn('subject', subject, ['appName'])
}

/** The texts that are sent without and with a link. */
const variants = (kind: EmailPurpose, source: string): string[] =>
  hasLinkSection(kind) ? [withSections(source, false), withSections(source, true)] : [source]

function checkCharacters(field: Field, source: string): ErrorDetail[] {
  if (UNWANTED.test(source.replace(/[\n\t]/g, '')))
    return [
      refusal(
        field,
        'invalid',
        'Must not contain control characters, or characters that change the reading direction.',
      ),
    ]
  if (IN_ADDRESS.test(source))
    return [refusal(field, 'invalid', 'A placeholder must not be part of an address. {{link}} is a whole address.')]
  return []
}

const outsideSection = (field: Field) =>
  refusal(
    field,
    'invalid',
    '{{link}} must stand between {{#link}} and {{/link}}: not every email of this kind has a link.',
    'link',
  )

function checkText(kind: EmailPurpose, source: string): ErrorDetail[] {
  const { allowed, required } = RULES[kind]
  const [plain = '', full = plain] = variants(kind, source)
  const problems = [...checkCharacters('text', source), ...unknownIn('text', full, allowed)]
  if (hasLinkSection(kind) && namesIn(plain).includes('link')) problems.push(outsideSection('text'))
  return [
    ...problems,
    ...missing(
      'text',
      required.filter((name) => !namesIn(plain).includes(name)),
    ),
  ]
}

function checkMarkup(kind: EmailPurpose, source: string): ErrorDetail[] {
  const { allowed, required } = RULES[kind]
  const problems = [
    ...checkCharacters('html', source),
    ...unknownIn('html', variants(kind, source).at(-1) ?? '', [...allowed, 'logo']),
  ]
  let parts: CheckedHtml[]
  try {
    parts = variants(kind, source).map(checkHtml)
  } catch (error) {
    if (!(error instanceof HtmlProblem)) throw error
    return [...problems, refusal('html', 'not_allowed', error.message)]
  }
  const [plain = { text: '', hasLink: false }] = parts
  if (parts.some(({ text }) => namesIn(text).includes('logo')))
    problems.push(refusal('html', 'invalid', '{{logo}} is the "src" of an <img>, and nothing else.', 'logo'))
  if (hasLinkSection(kind) && (plain.hasLink || namesIn(variants(kind, source)[0] ?? '').includes('link')))
    problems.push(outsideSection('html'))
  const has = (name: Placeholder) => (name === 'link' ? plain.hasLink : namesIn(plain.text).includes(name))
  const absent = missing(
    'html',
    required.filter((name) => !has(name)),
  )
  return [
    ...problems,
    ...absent.map((each) =>
      each.placeholder === 'link'
        ? { ...each, message: 'Must contain <a href="{{link}}"> with words to click on.' }
        : each,
    ),
  ]
}

/** Everything that keeps a template from being sent. */
export function problemsOf(kind: EmailPurpose, { subject, text, html }: Template): ErrorDetail[] {
  return [...checkSubject(subject), ...checkText(kind, text), ...(html === null ? [] : checkMarkup(kind, html))]
}

/** @throws validation_failed, which names each field and placeholder */
export function checkTemplate(kind: EmailPurpose, template: Template): void {
  const problems = problemsOf(kind, template)
  if (problems.length > 0) throw fail('validation_failed', problems)
}
