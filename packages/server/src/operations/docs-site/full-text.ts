import MiniSearch from 'minisearch'
import { unescapeHtml } from '../../platform/http/pages/pages.ts'

/** A page as the index takes it. */
interface Page {
  path: string
  title: string
  /** Rendered. */
  html: string
}

/** What one finds: the part of a page from one heading to the next. */
interface PageSection {
  /** Where it is: the page's path, with the heading's anchor for all but the first. */
  id: string
  /** Of the page. */
  title: string
  /** Of the section; the page's title for the first one. */
  heading: string
  text: string
}

/** Elements that end a word; all others stand within words. */
const BLOCK = /<\/?(?:p|pre|div|ul|ol|li|table|thead|tbody|tr|th|td|blockquote|h\d|br|hr)\b[^>]*>/g

/** The text of HTML that `renderMarkdown` has written. */
const textOf = (html: string) =>
  unescapeHtml(html.replace(BLOCK, ' ').replace(/<[^>]+>/g, ''))
    .replace(/\s+/g, ' ')
    .trim()

const sectionsOf = ({ path, title, html }: Page): PageSection[] =>
  html.split(/(?=<h\d id=")/).map((part) => {
    const [, depth, anchor, heading = title, text = part] = /^<h(\d) id="([^"]*)">(.*?)<\/h\d>(.*)$/s.exec(part) ?? []
    return { id: depth === '1' ? path : `${path}#${anchor}`, title, heading: textOf(heading), text: textOf(text) }
  })

/**
 * The full-text index of pages, as JSON that `assets/docs-site/search.js` loads with the same fields. Yields after each page,
 * because a process that builds the index also answers requests.
 */
export async function buildSearchIndex(pages: Iterable<Page>): Promise<string> {
  const index = new MiniSearch<PageSection>({
    fields: ['heading', 'title', 'text'],
    storeFields: ['title', 'heading', 'text'],
  })
  for (const page of pages) {
    index.addAll(sectionsOf(page))
    await new Promise(setImmediate)
  }
  return JSON.stringify(index)
}
