import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { contentTypeOf, readAssets } from '../../platform/http/pages/pages.ts'
import { editUrl } from './edit-url.ts'
import { buildSearchIndex } from './full-text.ts'
import { type Heading, type Resolve, readHeadings, readSections, renderMarkdown } from './markdown.ts'
import { type Entry, renderPage, type Section } from './page.ts'

/** In the package the guides lie beside the program; in the repository at its root. */
const FOLDERS = ['../../docs/', '../../../../../docs/'].map((path) => fileURLToPath(new URL(path, import.meta.url)))
const ASSETS = fileURLToPath(new URL('../../../assets/docs-site/', import.meta.url))

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

/** The guides, the ledgers, and a page for each error code. Decisions are not among them: they are for developers of Halfkey. */
const FOLDERS_OF_PAGES = ['', 'errors/', 'ledgers/']
const FILES =
  ROOT === null
    ? []
    : FOLDERS_OF_PAGES.flatMap((folder) => pagesIn(join(ROOT, folder)).map((name) => folder + name)).sort()

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
  return { sections, order, guides }
}

let site: Site | undefined

/** Read at the first visit and cached, so that a start does not wait for it. */
function theSite(): Site {
  site ??= readSite()
  return site
}

/** The generator starts them with a comment that says so. */
const isGenerated = (markdown: string) => markdown.startsWith('<!-- Generated')

/**
 * The page at a path that `listPages` names.
 * @param repository where the guides are edited, as `repository` of package.json; null if nowhere
 */
export function renderGuide(path: string, repository: string | null): string {
  const { sections, order, guides } = theSite()
  const { file, title, headings } = guides.get(path) as Guide
  const markdown = readGuide(file)
  const place = order.findIndex((entry) => entry.path === path)
  return renderPage({
    title,
    headings,
    html: renderMarkdown(markdown, resolveIn(file)),
    path,
    sections,
    previous: place > 0 ? (order[place - 1] as Entry) : null,
    next: place === -1 ? null : (order[place + 1] ?? null),
    editUrl: isGenerated(markdown) ? null : editUrl(repository, `docs/${file}`),
  })
}

/** The page for every other path below `/docs`. It does not repeat the path, which may be an attacker's text. */
export function renderMissing(): string {
  const { sections, guides } = theSite()
  const hasGuides = guides.has('/docs')
  const toGuides = '<li><a href="/docs">All guides</a></li><li><a href="/docs/errors">Error codes</a></li>'
  const links = `${hasGuides ? toGuides : ''}<li><a href="/docs/api">API reference</a></li>`
  const said = hasGuides ? 'This page does not exist.' : 'The guides are not part of this installation.'
  return renderPage({
    title: 'Page not found',
    path: '',
    html: `<h1>Page not found</h1><p>${said} These are:</p><ul>${links}</ul>`,
    headings: [],
    sections,
    previous: null,
    next: null,
    editUrl: null,
  })
}

/** What the search loads. */
export function searchIndex(): Promise<string> {
  const { guides } = theSite()
  const pages = function* () {
    for (const [path, { file, title }] of guides)
      yield { path, title, html: renderMarkdown(readGuide(file), resolveIn(file)) }
  }
  return buildSearchIndex(pages())
}

/** The search itself: `dist/es` is a module that browsers load as it is. */
function searchLibrary() {
  const entry = createRequire(import.meta.url).resolve('minisearch')
  const body = readFileSync(join(dirname(entry), '../es/index.js'))
  return { name: 'minisearch.js', contentType: contentTypeOf('minisearch.js'), body }
}

/** The pages' styles and scripts, and the guides' pictures. */
export const docsAssets = () => [
  ...(ROOT === null ? [ASSETS] : [ASSETS, join(ROOT, 'images')]).filter(existsSync).flatMap(readAssets),
  searchLibrary(),
]
