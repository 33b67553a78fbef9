/**
 * The HTML that a template can have: a small language of which every accepted text means the same to all parsers. What is not in these
 * lists is refused, not removed, so that what was previewed is what is sent.
 */

const COLOR = '(?:#[0-9a-f]{3}|#[0-9a-f]{6}|[a-z]{3,20})'
const LENGTH = String.raw`(?:0|auto|\d{1,2}(?:\.\d+)?px)`
const BORDER = `(?:0|none|[0-9]px (?:solid|dashed|dotted) ${COLOR})`

const whole = (pattern: string) => new RegExp(`^(?:${pattern})$`, 'i')
const lengths = whole(`${LENGTH}(?: ${LENGTH}){0,3}`)
const sides = (name: string, pattern: RegExp) =>
  Object.fromEntries(['', '-top', '-right', '-bottom', '-left'].map((side) => [`${name}${side}`, pattern]))

/** Properties in `style`. None of them hides text, moves it over other text, or loads anything. */
const PROPERTIES: Readonly<Record<string, RegExp>> = {
  color: whole(COLOR),
  background: whole(COLOR),
  'background-color': whole(COLOR),
  'font-family': whole("[a-z0-9 ,'-]{1,200}"),
  'font-size': whole('(?:1[0-9]|[2-5][0-9]|6[0-4])px'),
  'font-style': whole('normal|italic'),
  'font-weight': whole('normal|bold|[1-9]00'),
  'letter-spacing': whole(String.raw`normal|\d(?:\.\d+)?px`),
  'line-height': whole(String.raw`normal|[12](?:\.\d+)?|[2-9]\dpx`),
  'text-align': whole('left|right|center|start|end'),
  'text-decoration': whole('none|underline'),
  'vertical-align': whole('top|middle|bottom|baseline'),
  ...sides('margin', lengths),
  ...sides('padding', lengths),
  ...sides('border', whole(BORDER)),
  'border-radius': whole(String.raw`\d{1,3}px|50%`),
  'border-collapse': whole('collapse|separate'),
  display: whole('block|inline-block'),
  width: whole(String.raw`auto|[1-9]\d{1,3}px|[1-9]\d%|100%`),
  'max-width': whole(String.raw`[1-9]\d{1,3}px|[1-9]\d%|100%`),
}

const LINK = /^(?:https:\/\/[a-z0-9.-]+(?::\d{1,5})?(?:[/?#][^\s{}\\]*)?|mailto:[a-z0-9.+_-]+@[a-z0-9.-]+)$/i
const PICTURE = /^https:\/\/[a-z0-9.-]+(?::\d{1,5})?\/[^\s{}\\]*$/i
const NUMBER = /^\d{1,4}$/
const SIZE = /^(?:[1-9]\d{1,3}|[1-9]\d%|100%)$/
const ALIGN = /^(?:left|right|center)$/i

const isStyle = (value: string): boolean => value.length <= 1_000 && value.split(';').every(isDeclaration)

function isDeclaration(text: string): boolean {
  if (text.trim() === '') return true
  const colon = text.indexOf(':')
  const name = text.slice(0, colon).trim().toLowerCase()
  return Object.hasOwn(PROPERTIES, name) && (PROPERTIES[name] as RegExp).test(text.slice(colon + 1).trim())
}

type Check = (value: string) => boolean
const like =
  (pattern: RegExp): Check =>
  (value) =>
    pattern.test(value)

const EVERYWHERE: Readonly<Record<string, Check>> = {
  style: isStyle,
  dir: like(/^(?:ltr|rtl|auto)$/i),
  lang: like(/^[a-z]{2,3}(?:-[a-z0-9]{2,8})*$/i),
  align: like(ALIGN),
}
const CELL: Readonly<Record<string, Check>> = {
  colspan: like(/^[1-9]$/),
  rowspan: like(/^[1-9]$/),
  width: like(SIZE),
  valign: like(/^(?:top|middle|bottom|baseline)$/i),
  bgcolor: like(whole(COLOR)),
}

interface Element {
  attributes?: Readonly<Record<string, Check>>
  /** What may stand in it: `blocks`, text and what stands in text, nothing at all, or only these elements. */
  holds: 'blocks' | 'text' | 'nothing' | readonly string[]
  isBlock?: true
}

const TEXT: Element = { holds: 'text' }
const BLOCK: Element = { holds: 'blocks', isBlock: true }
const HEADING: Element = { holds: 'text', isBlock: true }
const LIST: Element = { holds: ['li'], isBlock: true }
const ROWS: Element = { holds: ['tr'] }

const ELEMENTS: Readonly<Record<string, Element>> = {
  ...Object.fromEntries(['span', 'strong', 'b', 'em', 'i', 'u', 'small', 'code'].map((name) => [name, TEXT])),
  ...Object.fromEntries(['p', 'h1', 'h2', 'h3'].map((name) => [name, HEADING])),
  div: BLOCK,
  blockquote: BLOCK,
  ul: LIST,
  ol: LIST,
  li: { holds: 'blocks' },
  br: { holds: 'nothing' },
  hr: { holds: 'nothing', isBlock: true },
  a: { holds: 'text', attributes: { href: (value) => value === '{{link}}' || LINK.test(value) } },
  img: {
    holds: 'nothing',
    attributes: {
      src: (value) => value === '{{logo}}' || PICTURE.test(value),
      alt: (value) => !value.replaceAll('{{appName}}', '').includes('{{'),
      width: like(NUMBER),
      height: like(NUMBER),
    },
  },
  table: {
    holds: ['thead', 'tbody', 'tr'],
    isBlock: true,
    attributes: {
      role: like(/^presentation$/),
      width: like(SIZE),
      border: like(/^[0-9]$/),
      cellpadding: like(/^\d{1,2}$/),
      cellspacing: like(/^\d{1,2}$/),
      bgcolor: like(whole(COLOR)),
    },
  },
  thead: ROWS,
  tbody: ROWS,
  tr: { holds: ['td', 'th'] },
  td: { holds: 'blocks', attributes: CELL },
  th: { holds: 'blocks', attributes: CELL },
}
/** Those that stand only where their parent names them. */
const PARTS: ReadonlySet<string> = new Set(['li', 'thead', 'tbody', 'tr', 'td', 'th'])

const DEPTH_MAX = 40
const TAG = /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-z][a-z-]*="[^"<>]*")*)\s*(\/?)>/iy
const ATTRIBUTE = /\s+([a-z][a-z-]*)="([^"<>]*)"/gi
/** What shows nothing: spaces, format characters, and characters by their number or name. */
const UNSEEN = /&#?\w+;|[\s\p{Cf}\p{Mn}\u3164\u2800]/gu

/** An HTML that can be sent, as far as placeholders need to know it. */
export interface CheckedHtml {
  /** All text, without elements. */
  text: string
  /** Whether an `<a href="{{link}}">` has text to click on. */
  hasLink: boolean
}

/** Why an HTML is refused. */
export class HtmlProblem extends Error {}

interface Open {
  name: string
  element: Element
  /** The element's `href`. */
  href: string | null
  /** Where the text in it begins. */
  from: number
}

function checkAttributes(name: string, element: Element, source: string): Record<string, string> {
  const values: Record<string, string> = {}
  for (const [, given, value] of source.matchAll(ATTRIBUTE) as Iterable<[string, string, string]>) {
    const attribute = given.toLowerCase()
    const checks = { ...EVERYWHERE, ...element.attributes }
    if (!Object.hasOwn(checks, attribute))
      throw new HtmlProblem(`The attribute "${attribute}" of <${name}> is not allowed.`)
    if (Object.hasOwn(values, attribute)) throw new HtmlProblem(`<${name}> has the attribute "${attribute}" twice.`)
    if (!checks[attribute]?.(value))
      throw new HtmlProblem(`The value of "${attribute}" of <${name}> is not allowed: ${value.slice(0, 60)}`)
    values[attribute] = value
  }
  if (name === 'img' && values.src === undefined) throw new HtmlProblem('<img> needs a "src".')
  if (name === 'a' && values.href === undefined) throw new HtmlProblem('<a> needs an "href".')
  return values
}

function checkPlace(name: string, element: Element, open: readonly Open[]): void {
  const parent = open.at(-1)
  const holds = parent?.element.holds ?? 'blocks'
  const fits =
    typeof holds === 'string'
      ? !PARTS.has(name) && (holds === 'blocks' || element.isBlock !== true)
      : holds.includes(name)
  if (!fits)
    throw new HtmlProblem(`<${name}> is not allowed in ${parent === undefined ? 'the body' : `<${parent.name}>`}.`)
  if (name === 'a' && open.some((each) => each.name === 'a')) throw new HtmlProblem('<a> is not allowed in <a>.')
  if (open.length >= DEPTH_MAX) throw new HtmlProblem(`Elements are nested more than ${DEPTH_MAX} deep.`)
}

function checkText(text: string, open: readonly Open[]): void {
  const parent = open.at(-1)
  if (typeof parent?.element.holds === 'object' && text.trim() !== '')
    throw new HtmlProblem(`Text is not allowed directly in <${parent.name}>.`)
  const link = open.find(({ name }) => name === 'a')
  if (link !== undefined && link.href !== '{{link}}' && /\{\{(?:code|link)\}\}/.test(text))
    throw new HtmlProblem('{{code}} and {{link}} are not allowed in a link that leads elsewhere.')
}

function close(name: string, open: Open[], text: string): boolean {
  const last = open.pop()
  if (last?.name !== name) throw new HtmlProblem(`</${name}> closes no element that is open there.`)
  return last.href === '{{link}}' && text.slice(last.from).replace(UNSEEN, '') !== ''
}

/** @throws HtmlProblem naming the first thing that is not allowed */
export function checkHtml(source: string): CheckedHtml {
  const open: Open[] = []
  let text = ''
  let hasLink = false
  for (let at = 0; at < source.length; ) {
    const next = source.indexOf('<', at)
    const end = next === -1 ? source.length : next
    checkText(source.slice(at, end), open)
    text += source.slice(at, end)
    if (next === -1) break
    TAG.lastIndex = next
    const tag = TAG.exec(source)
    if (tag === null)
      throw new HtmlProblem(`Not allowed, or not written as name="value": ${source.slice(next, next + 40)}`)
    const [all, slash, given, attributes, selfClosing] = tag as unknown as [string, string, string, string, string]
    const name = given.toLowerCase()
    const element = Object.hasOwn(ELEMENTS, name) ? ELEMENTS[name] : undefined
    if (element === undefined) throw new HtmlProblem(`The element <${name}> is not allowed.`)
    if (slash !== '') hasLink = close(name, open, text) || hasLink
    else {
      checkPlace(name, element, open)
      const { href = null } = checkAttributes(name, element, attributes)
      if (element.holds !== 'nothing') open.push({ name, element, href, from: text.length })
    }
    if ((slash !== '' && attributes !== '') || (selfClosing !== '' && (slash !== '' || element.holds !== 'nothing')))
      throw new HtmlProblem(`Not allowed: ${all.slice(0, 40)}`)
    at = TAG.lastIndex
  }
  const left = open.at(-1)
  if (left !== undefined) throw new HtmlProblem(`<${left.name}> is not closed.`)
  return { text, hasLink }
}
