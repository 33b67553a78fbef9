import { Lexer, Marked, type Token, type Tokens, type TokensList } from 'marked'
import { escapeHtml } from '../../platform/http/pages/pages.ts'

/** A section's heading: its text, its anchor on the page, and how deep it is (1 is the page's title). */
export interface Heading {
  text: string
  anchor: string
  depth: number
}

/** Where a link of the text leads on the site: a path or URL, or null where the site has no such page. */
export type Resolve = (href: string) => string | null

/** What is read of inline Markdown: code, links and emphasis without their marks. */
function plainText(markdown: string): string {
  return markdown
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*]/g, '')
    .trim()
}

/** Anchors as code hosts make them, so that a link to a section works on both. */
function createAnchors(): (text: string) => string {
  const taken = new Map<string, number>()
  return (text) => {
    const anchor = text
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    const before = taken.get(anchor)
    taken.set(anchor, (before ?? 0) + 1)
    return before === undefined ? anchor : `${anchor}-${before}`
  }
}

/** The headings of a guide, in their order. Nothing else of it is parsed: all guides are looked at for the list of pages. */
export function readHeadings(markdown: string): Heading[] {
  const anchorOf = createAnchors()
  return new Lexer().blockTokens(markdown).flatMap((token) => {
    if (token.type !== 'heading') return []
    const text = plainText(token.text)
    return [{ text, anchor: anchorOf(text), depth: token.depth }]
  })
}

/** The languages in which a task can be shown, as their tabs name them. */
const TASK_LANGUAGES: Readonly<Record<string, string>> = {
  sh: 'curl',
  ts: 'TypeScript',
  js: 'JavaScript',
  python: 'Python',
  go: 'Go',
}

const isBetweenSamples = (token: Token) =>
  token.type === 'space' || (token.type === 'html' && token.text.trim().startsWith('<!--'))

/** The tokens with each run of samples of one task, every one in another language, joined to a token `samples`. */
function joinSamples(tokens: TokensList): Token[] {
  const joined: Token[] = []
  let samples: Tokens.Code[] = []
  const flush = () => {
    if (samples.length > 1) joined.push({ type: 'samples', raw: '', tokens: samples })
    else joined.push(...samples)
    samples = []
  }
  for (const token of tokens) {
    if (isBetweenSamples(token)) continue
    const sample = token.type === 'code' && token.lang in TASK_LANGUAGES ? (token as Tokens.Code) : null
    if (sample === null || samples.some(({ lang }) => lang === sample.lang)) flush()
    if (sample === null) joined.push(token)
    else samples.push(sample)
  }
  flush()
  return joined
}

type Inline = { parser: { parseInline(tokens: Token[]): string } }

function renderer(resolve: Resolve) {
  const anchorOf = createAnchors()
  return {
    heading(this: Inline, { tokens, depth, text }: Tokens.Heading): string {
      const anchor = anchorOf(plainText(text))
      const inner = this.parser.parseInline(tokens)
      // Links cannot be nested, so a heading that contains a link is not a link itself.
      const linked = inner.includes('<a ') ? inner : `<a href="#${anchor}">${inner}</a>`
      return `<h${depth} id="${anchor}">${linked}</h${depth}>\n`
    },
    link(this: Inline, { href, tokens }: Tokens.Link): string {
      const inner = this.parser.parseInline(tokens)
      const target = resolve(href)
      if (target === null)
        return `<span class="elsewhere" title="In the repository: ${escapeHtml(href)}">${inner}</span>`
      const outside = /^[a-z]+:/i.test(target) ? ' rel="noreferrer"' : ''
      return `<a href="${escapeHtml(target)}"${outside}>${inner}</a>`
    },
    // External pictures are not loaded. All pictures are stored with the guides.
    image({ href, text }: Tokens.Image): string {
      const [, name] = /^images\/([\w-]+\.png)$/.exec(href) ?? []
      return name === undefined
        ? escapeHtml(text)
        : `<img src="/docs/assets/${name}" alt="${escapeHtml(text)}" loading="lazy">`
    },
    // Comments mark what is generated or run by tests; no page has other HTML.
    html: ({ text }: Tokens.HTML | Tokens.Tag): string => (text.trim().startsWith('<!--') ? '' : escapeHtml(text)),
    code({ text, lang }: Tokens.Code): string {
      const label = TASK_LANGUAGES[lang ?? '']
      const language = label === undefined ? '' : ` data-language="${label}"`
      return `<pre tabindex="0"${language}><code>${escapeHtml(text)}\n</code></pre>\n`
    },
  }
}

/** A guide as HTML. Wide tables and code scroll by themselves, and can be reached by the keyboard for it. */
export function renderMarkdown(text: string, resolve: Resolve): string {
  const samples = {
    name: 'samples',
    renderer(this: { parser: { parse(tokens: Token[]): string } }, { tokens = [] }: Tokens.Generic) {
      return `<div class="samples">\n${this.parser.parse(tokens)}</div>\n`
    },
  }
  const marked = new Marked({ gfm: true, renderer: renderer(resolve), extensions: [samples] })
  const html = marked.parser(joinSamples(marked.lexer(text)))
  return (
    html
      .replaceAll('<table>', '<div class="table" role="group" aria-label="Table" tabindex="0"><table>')
      .replaceAll('</table>', '</table></div>')
      // An empty cell is not a header.
      .replace(/<th([^>]*)><\/th>/g, '<td$1></td>')
  )
}

/** The sections of an index page: each second-level heading with the links that begin its list's entries. */
export function readSections(text: string): { title: string; links: { text: string; href: string }[] }[] {
  const sections: { title: string; links: { text: string; href: string }[] }[] = []
  for (const token of new Marked({ gfm: true }).lexer(text)) {
    if (token.type === 'heading' && token.depth === 2) sections.push({ title: token.text, links: [] })
    if (token.type !== 'list') continue
    for (const item of (token as Tokens.List).items) {
      const first = (item.tokens[0] as Tokens.Text | undefined)?.tokens?.[0]
      if (first?.type === 'link') sections.at(-1)?.links.push({ text: first.text, href: first.href })
    }
  }
  return sections.filter(({ links }) => links.length > 0)
}
