import { escapeHtml } from '../../platform/http/pages/pages.ts'
import { VERSION } from '../../platform/version.ts'
import type { Heading } from './markdown.ts'

/** A page in the list beside every page. `path` is where it is served. */
export interface Entry {
  title: string
  path: string
}

/** A part of that list: pages of one family. */
export interface Section {
  title: string
  entries: Entry[]
}

export interface PageParts {
  title: string
  /** Where it is served; what the list marks as the current page. */
  path: string
  /** Rendered, trusted: our own pages. */
  html: string
  /** Of which the list shows the second level below the current page. */
  headings: readonly Heading[]
  sections: readonly Section[]
  previous: Entry | null
  next: Entry | null
  /** Where its text is edited; null if nowhere. */
  editUrl: string | null
}

/** The API reference, which is drawn by another program. */
const REFERENCE = '/docs/api'

const link = ({ path, title }: Entry, more = '') => `<a href="${path}"${more}>${escapeHtml(title)}</a>`

function entry(at: Entry, page: PageParts): string {
  if (at.path !== page.path) return `<li>${link(at)}</li>`
  const below = page.headings
    .filter(({ depth }) => depth === 2)
    .map(({ text, anchor }) => `<li>${link({ path: `#${anchor}`, title: text })}</li>`)
  const list = below.length > 1 ? `<ul class="sections">${below.join('')}</ul>` : ''
  return `<li>${link(at, ' aria-current="page"')}${list}</li>`
}

function section({ title, entries }: Section, page: PageParts): string {
  return `<h2>${escapeHtml(title)}</h2><ul>${entries.map((at) => entry(at, page)).join('')}</ul>`
}

function around({ previous, next }: PageParts): string {
  if (previous === null && next === null) return ''
  const side = (to: Entry | null, rel: string) => (to === null ? '<span></span>' : link(to, ` rel="${rel}"`))
  return `<nav class="around" aria-label="Previous and next page">${side(previous, 'prev')}${side(next, 'next')}</nav>`
}

function about({ editUrl }: PageParts): string {
  const edit = editUrl === null ? '' : `<a href="${escapeHtml(editUrl)}" rel="noreferrer">Edit this page</a>`
  return `<p class="about"><span>Halfkey ${VERSION}</span>${edit}</p>`
}

/** The whole page. All that it loads comes from below `/docs/assets`; without scripts it can still be read and navigated. */
export function renderPage(page: PageParts): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(page.title === 'Halfkey' ? page.title : `${page.title} · Halfkey`)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/assets/tokens.css">
<link rel="stylesheet" href="/docs/assets/docs.css">
<link rel="modulepreload" href="/docs/assets/dom.js">
<link rel="modulepreload" href="/docs/assets/tabs.js">
<script type="module" src="/docs/assets/docs.js" blocking="render"></script>
<script type="module" src="/docs/assets/search.js"></script>
</head>
<body>
<a class="skip" href="#site-content">Skip to the text</a>
<header>
<a class="brand" href="/docs"${page.path === '/docs' ? ' aria-current="page"' : ''}>Halfkey docs</a>
<div class="find" role="search" hidden>
<input id="site-search" type="text" role="combobox" placeholder="Search" aria-label="Search the documentation" aria-controls="site-found" aria-expanded="false" aria-autocomplete="list" autocomplete="off" autocapitalize="none" spellcheck="false" enterkeyhint="search">
<div class="found" hidden>
<p></p>
<div id="site-found" role="listbox" aria-label="Sections found"></div>
</div>
</div>
<a class="reference" href="${REFERENCE}">API reference</a>
</header>
<div class="columns">
<details class="menu" open>
<summary>All pages</summary>
<nav aria-label="Documentation">${page.sections.map((each) => section(each, page)).join('')}</nav>
</details>
<main id="site-content" tabindex="-1"${page.path === '/docs' ? ' class="home"' : ''}>
${page.html}
${around(page)}
${about(page)}
</main>
</div>
<div id="site-said" class="said" role="status"></div>
</body>
</html>
`
}
