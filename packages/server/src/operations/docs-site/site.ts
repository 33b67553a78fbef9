import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readAssets } from '../../platform/http/pages/pages.ts'
import type { PlainAnswer } from '../../platform/http/route.ts'
import { type Heading, type Resolve, readHeadings, readSections, renderMarkdown } from './markdown.ts'
import { type Entry, renderPage, type Section } from './page.ts'

/** In the package the guides lie beside the program; in the repository at its root. */
const FOLDERS = ['../../docs/', '../../../../../docs/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))
const ASSETS = fileURLToPath(new URL('../../../assets/docs-site/', import.meta.url))

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-cache',
}

/** Where the guides' own addresses would lie on a developer's machine: on the site they are paths. */
const OWN_ORIGIN = 'http://127.0.0.1:8080'

/** `/docs/api` is the reference's. */
const PATHS: Record<string, string> = {
  'README.md': '/docs',
  'api.md': '/docs/conventions',
  'errors/README.md': '/docs/errors',
}

/** The file that lists the guides in their order. */
const INDEX = 'README.md'

const pathOf = (file: string) => PATHS[file] ?? `/docs/${file.replace(/\.md$/, '')}`

/** The guides' folder; null in an installation that came without. */
const ROOT = FOLDERS.find((path) => existsSync(join(path, INDEX))) ?? null

const pagesIn = (path: string) => (existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.md')) : [])

/** The guides, and a page for each error code. Decisions are not among them: they are for developers of Halfkey. */
const FILES =
  ROOT === null ? [] : [...pagesIn(ROOT), ...pagesIn(join(ROOT, 'errors')).map((name) => `errors/${name}`)].sort()

const readGuide = (file: string) => readFileSync(join(ROOT ?? '', file), 'utf8')

/** The paths of all pages. */
export const listPages = (): string[] => FILES.map(pathOf)

/** Where a link in a guide leads on the site; null for a file that it does not have. */
function resolveIn(file: string): Resolve {
  return (href) => {
    if (href.startsWith('#')) return href
    if (href.startsWith(`${OWN_ORIGIN}/`)) return href.slice(OWN_ORIGIN.length)
    if (/^[a-z]+:/i.test(href)) return /^(https?|mailto):/i.test(href) ? href : null
    const { pathname, hash } = new URL(href, `file:///docs/${file}`)
    const target = pathname.replace(/^\/docs\//, '').replace(/(^|\/)$/, '$1README.md')
    return FILES.includes(target) ? pathOf(target) + hash : null
  }
}

interface Guide {
  file: string
  title: string
  headings: Heading[]
}

interface Site {
  sections: Section[]
  /** The order of previous and next: as in the list, then all others by their paths. */
  order: Entry[]
  guides: ReadonlyMap<string, Guide>
  /** Each page's title, path and headings with their anchors, as JSON. */
  index: string
}

function readSite(): Site {
  const guides = new Map<string, Guide>()
  for (const file of FILES) {
    const headings = readHeadings(readGuide(file))
    guides.set(pathOf(file), { file, title: headings[0]?.text ?? file, headings })
  }
  const resolve = resolveIn(INDEX)
  const sections = (ROOT === null ? [] : readSections(readGuide(INDEX))).map(({ title, links }) => ({
    title,
    entries: links
      .map((one) => ({ title: one.text, path: resolve(one.href) ?? '' }))
      .filter(({ path }) => path.startsWith('/docs')),
  }))
  const listed = sections.flatMap(({ entries }) => entries)
  const seen = new Set(['/docs', ...listed.map(({ path }) => path)])
  const others = [...guides].flatMap(([path, { title }]) => (seen.has(path) ? [] : [{ title, path }]))
  const order = [...listed.filter(({ path }) => guides.has(path)), ...others]
  const index = order.map((entry) => {
    const below = (guides.get(entry.path)?.headings ?? []).filter(({ depth }) => depth > 1)
    return { ...entry, headings: below.map(({ text, anchor }) => [text, anchor]) }
  })
  return { sections, order, guides, index: JSON.stringify(index) }
}

let site: Site | undefined

/** Read at the first visit and cached, so that a start does not wait for it. */
function theSite(): Site {
  site ??= readSite()
  return site
}

const html = (status: number, body: string): PlainAnswer => ({
  status,
  contentType: 'text/html; charset=utf-8',
  headers: HEADERS,
  body,
})

const bodies = new Map<string, string>()

/** The page at a path that `listPages` names. */
export function docsPage(path: string): PlainAnswer {
  const known = bodies.get(path)
  if (known !== undefined) return html(200, known)
  const { sections, order, guides } = theSite()
  const guide = guides.get(path)
  if (guide === undefined) return missingPage()
  const place = order.findIndex((entry) => entry.path === path)
  const body = renderPage({
    title: guide.title,
    headings: guide.headings,
    html: renderMarkdown(readGuide(guide.file), resolveIn(guide.file)),
    path,
    sections,
    previous: place > 0 ? (order[place - 1] as Entry) : null,
    next: place === -1 ? null : (order[place + 1] ?? null),
  })
  bodies.set(path, body)
  return html(200, body)
}

/** For every other path below `/docs`. It does not repeat the path, which may be an attacker's text. */
export function missingPage(): PlainAnswer {
  const { sections, guides } = theSite()
  const hasGuides = guides.has('/docs')
  const toGuides = '<li><a href="/docs">All guides</a></li><li><a href="/docs/errors">Error codes</a></li>'
  const links = `${hasGuides ? toGuides : ''}<li><a href="/docs/api">API reference</a></li>`
  const said = hasGuides ? 'This page does not exist.' : 'The guides are not part of this installation.'
  const body = renderPage({
    title: 'Page not found',
    path: '',
    html: `<h1>Page not found</h1><p>${said} These are:</p><ul>${links}</ul>`,
    headings: [],
    sections,
    previous: null,
    next: null,
  })
  return html(404, body)
}

/** What the filter searches. */
export const docsIndex = (): PlainAnswer => ({
  status: 200,
  contentType: 'application/json; charset=utf-8',
  headers: { 'cache-control': 'no-cache' },
  body: theSite().index,
})

/** The pages' style and script, and the guides' pictures. */
export const docsAssets = () =>
  (ROOT === null ? [ASSETS] : [ASSETS, join(ROOT, 'images')]).filter(existsSync).flatMap(readAssets)
