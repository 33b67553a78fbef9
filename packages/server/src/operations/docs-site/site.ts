import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PlainAnswer } from '../../platform/http/route.ts'
import { escapeHtml, type Heading, readHeadings, readSections, renderMarkdown } from './markdown.ts'
import { type Entry, renderPage, type Section } from './page.ts'

/** In the package the guides lie beside the program; in the repository at its root. */
const FOLDERS = ['../../docs/', '../../../../../docs/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))
const ASSETS = fileURLToPath(new URL('../../../assets/docs-site/', import.meta.url))
const TYPES: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  png: 'image/png',
}

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
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

/** Which guides there are, in which order. */
const INDEX = 'README.md'

const pathOf = (file: string) => PATHS[file] ?? `/docs/${file.replace(/\.md$/, '')}`

/** The guides' folder; null in an installation that came without. */
function folder(): string | null {
  return FOLDERS.find((path) => existsSync(join(path, 'README.md'))) ?? null
}

function listFiles(root: string): string[] {
  const pages = (path: string) => (existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.md')) : [])
  return [...pages(root), ...pages(join(root, 'errors')).map((name) => `errors/${name}`)].sort()
}

/** Every page's path with its file. Decisions are not among them: they are for who works on the program. */
export function listPages(): { path: string; file: string }[] {
  const root = folder()
  return root === null ? [] : listFiles(root).map((file) => ({ path: pathOf(file), file }))
}

/** Where a link in a guide leads on the site; null for a file that it does not have. */
function resolveIn(file: string, files: ReadonlySet<string>): (href: string) => string | null {
  return (href) => {
    if (href.startsWith('#')) return href
    if (href.startsWith(`${OWN_ORIGIN}/`)) return href.slice(OWN_ORIGIN.length)
    if (/^[a-z]+:/i.test(href)) return /^(https?|mailto):/i.test(href) ? href : null
    const { pathname, hash } = new URL(href, `file:///docs/${file}`)
    const target = pathname.replace(/^\/docs\//, '').replace(/(^|\/)$/, '$1README.md')
    return files.has(target) ? pathOf(target) + hash : null
  }
}

interface Guide {
  title: string
  headings: Heading[]
  /** Its text as HTML. */
  render(): string
}

interface Site {
  sections: Section[]
  /** The order of previous and next: as in the list, then all others by their paths. */
  order: Entry[]
  guides: ReadonlyMap<string, Guide>
}

function readGuides(root: string | null): Map<string, Guide> {
  const files = root === null ? [] : listFiles(root)
  const known = new Set(files)
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(root as string, file), 'utf8')
      const headings = readHeadings(text)
      const render = () => renderMarkdown(text, resolveIn(file, known))
      return [pathOf(file), { title: headings[0]?.text ?? file, headings, render }] as const
    }),
  )
}

function readSite(): Site {
  const root = folder()
  const guides = readGuides(root)
  const resolve = resolveIn(INDEX, new Set(root === null ? [] : listFiles(root)))
  const listed = guides.has('/docs') ? readSections(readFileSync(join(root as string, INDEX), 'utf8')) : []
  const sections = listed.map(({ title, links }) => ({
    title,
    entries: links.flatMap((one) => {
      const path = resolve(one.href)
      return path?.startsWith('/docs') ? [{ title: one.text, path }] : []
    }),
  }))
  const seen = new Set(['/docs', ...sections.flatMap(({ entries }) => entries.map(({ path }) => path))])
  const others = [...guides].flatMap(([path, { title }]) => (seen.has(path) ? [] : [{ title, path }]))
  const isError = ({ path }: Entry) => path.startsWith('/docs/errors/')
  const forgotten = others.filter((entry) => !isError(entry))
  // A guide that the index forgot can still be found.
  if (forgotten.length > 0) sections.push({ title: 'More', entries: forgotten })
  const order = [
    ...sections.flatMap(({ entries }) => entries).filter(({ path }) => guides.has(path)),
    ...others.filter(isError),
  ]
  return { sections, order, guides }
}

let site: Site | undefined

/** Read at the first visit, and kept: a start does not wait for it. Its size is the guides'. */
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
    html: guide.render(),
    path,
    sections,
    previous: place > 0 ? (order[place - 1] as Entry) : null,
    next: place === -1 ? null : (order[place + 1] ?? null),
  })
  bodies.set(path, body)
  return html(200, body)
}

/** A text that is made once. */
function once(make: () => string): () => string {
  let made: string | undefined
  return () => {
    made ??= make()
    return made
  }
}

const missingBody = once(() => {
  const { sections, guides } = theSite()
  const hasGuides = guides.has('/docs')
  const places = [
    ...(hasGuides ? [{ path: '/docs', title: 'All guides' }] : []),
    ...(hasGuides ? [{ path: '/docs/errors', title: 'Error codes' }] : []),
    { path: '/docs/api', title: 'API reference' },
  ]
  const links = places.map(({ path, title }) => `<li><a href="${path}">${escapeHtml(title)}</a></li>`).join('')
  const said = hasGuides ? 'There is no such page here.' : 'The guides are not part of this installation.'
  return renderPage({
    title: 'Page not found',
    path: '',
    html: `<h1>Page not found</h1><p>${said} These are:</p><ul>${links}</ul>`,
    headings: [],
    sections,
    previous: null,
    next: null,
  })
})

/** For whatever else is asked for below `/docs`: never what was asked for, which anybody may have written. */
export function missingPage(): PlainAnswer {
  return html(404, missingBody())
}

const indexBody = once(() => {
  const { order, guides } = theSite()
  const pages = order.map(({ path, title }) => ({
    path,
    title,
    headings: (guides.get(path)?.headings ?? [])
      .filter(({ depth }) => depth > 1)
      .map(({ text, anchor }) => [text, anchor]),
  }))
  return JSON.stringify(pages)
})

/** What the filter looks through: each page's title, path and headings with their anchors. */
export function docsIndex(): PlainAnswer {
  return {
    status: 200,
    contentType: 'application/json; charset=utf-8',
    headers: { 'cache-control': 'no-cache' },
    body: indexBody(),
  }
}

/** The pages' style and script, and the guides' pictures, by name. */
export function docsAssets(): { name: string; contentType: string; body: Buffer }[] {
  const root = folder()
  const images = root === null ? '' : join(root, 'images')
  return [ASSETS, images].filter(existsSync).flatMap((path) =>
    readdirSync(path).map((name) => ({
      name,
      contentType: TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
      body: readFileSync(join(path, name)),
    })),
  )
}
