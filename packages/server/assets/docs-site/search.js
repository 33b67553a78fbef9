// Full-text search over all pages, by the combobox pattern: https://www.w3.org/WAI/ARIA/apg/patterns/combobox/. The library and
// the index are loaded when somebody begins to search.
import { element, say } from './dom.js'

const FOUND_MAX = 12
const SNIPPET_CHARS = 160
/** As `full-text.ts` builds it. */
const INDEX = { fields: ['heading', 'title', 'text'], storeFields: ['title', 'heading', 'text'] }
const QUERY = {
  // A short word would be the beginning of too many.
  prefix: (word) => word.length > 2,
  // One typo in words of four letters or more, two in long ones.
  fuzzy: (word) => (word.length < 4 ? false : 0.2),
  boost: { heading: 4 },
  // Guides come before the pages about single errors and events.
  boostDocument: (id) => (/^\/docs\/(errors\/|event-catalogue)/.test(id) ? 0.4 : 1),
}

const input = document.querySelector('#site-search')
const found = document.querySelector('.found')
const note = found.querySelector('p')
const list = document.querySelector('#site-found')

let loading
/** The index. A failed attempt is repeated at the next word. */
function load() {
  loading ??= Promise.all([import('./minisearch.js'), fetch('/docs/search.json').then((answer) => answer.text())])
    .then(([{ default: MiniSearch }, json]) => MiniSearch.loadJSON(json, INDEX))
    .catch((error) => {
      loading = undefined
      throw error
    })
  return loading
}

/** Sections that have every word; if there are none, sections that have some of them. */
function search(index, text) {
  const every = index.search(text, { ...QUERY, combineWith: 'AND' })
  const hits = every.length > 0 ? every : index.search(text, QUERY)
  return { hits: hits.slice(0, FOUND_MAX), hasEvery: every.length > 0 }
}

/** Text with the words that were found marked. */
function mark(text, words) {
  if (words.length === 0) return [text]
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${escaped.join('|')})(?![\\p{L}\\p{N}])`, 'giu')
  return text.split(pattern).map((part, index) => (index % 2 === 0 ? part : element('mark', {}, part)))
}

/** The part of a section that has most of the words. */
function snippet(text, words) {
  const lower = text.toLowerCase()
  const countFrom = (start) => {
    const part = lower.slice(start, start + SNIPPET_CHARS)
    return words.filter((word) => part.includes(word)).length
  }
  const starts = words.map((word) => lower.indexOf(word)).filter((at) => at !== -1)
  const at = starts.reduce((best, start) => (countFrom(start) > countFrom(best) ? start : best), starts[0] ?? 0)
  // From the beginning of a word, with some of what stands before.
  const start = at < SNIPPET_CHARS / 2 ? 0 : text.indexOf(' ', at - SNIPPET_CHARS / 4) + 1
  const end = text.length <= start + SNIPPET_CHARS ? text.length : text.lastIndexOf(' ', start + SNIPPET_CHARS)
  return `${start === 0 ? '' : '… '}${text.slice(start, end)}${end === text.length ? '' : ' …'}`
}

function option({ id, title, heading, text, terms }, index) {
  const link = element('a', {
    href: id,
    id: `site-found-${index}`,
    role: 'option',
    tabIndex: -1,
    ariaSelected: 'false',
  })
  link.append(element('span', {}, ...mark(heading, terms)))
  if (heading !== title) link.append(element('small', {}, title))
  link.append(element('small', { className: 'snippet' }, ...mark(snippet(text, terms), terms)))
  return link
}

function hide() {
  found.hidden = true
  list.replaceChildren()
  input.ariaExpanded = 'false'
  input.removeAttribute('aria-activedescendant')
}

function show(message, options) {
  note.textContent = message
  note.hidden = message === ''
  list.replaceChildren(...options)
  found.hidden = false
  input.ariaExpanded = String(options.length > 0)
  select(options[0])
}

function select(chosen) {
  list.querySelector('[aria-selected=true]')?.setAttribute('aria-selected', 'false')
  input.removeAttribute('aria-activedescendant')
  if (chosen === undefined) return
  chosen.ariaSelected = 'true'
  input.setAttribute('aria-activedescendant', chosen.id)
  chosen.scrollIntoView({ block: 'nearest' })
}

async function look() {
  const text = input.value.trim()
  if (text === '') return hide()
  const index = await load().catch(() => null)
  // Typed on meanwhile.
  if (text !== input.value.trim()) return
  if (index === null) return show('The search could not be loaded. Check the connection and type again.', [])
  const { hits, hasEvery } = search(index, text)
  const options = hits.map(option)
  const nothing = 'Nothing was found. Try fewer or other words, or look through the list of pages.'
  show(hits.length === 0 ? nothing : hasEvery ? '' : 'No section has all of these words. These have some:', options)
  say(hits.length === 0 ? nothing : hits.length === 1 ? 'One section found.' : `${hits.length} sections found.`)
}

function move(step) {
  const options = [...list.children]
  const at = options.findIndex(({ ariaSelected }) => ariaSelected === 'true')
  select(options.at((at + step) % options.length))
}

input.addEventListener('focus', look)
input.addEventListener('input', look)
input.addEventListener('keydown', (event) => {
  if (event.isComposing) return
  if (event.key === 'Escape') {
    input.value = ''
    hide()
  }
  if (event.key === 'Tab') hide()
  if (event.key === 'Enter') list.querySelector('[aria-selected=true]')?.click()
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (step === undefined || list.children.length === 0) return
  event.preventDefault()
  move(step)
})
document.addEventListener('click', ({ target }) => {
  if (target.closest('[role=option]') !== null || target.closest('.find') === null) hide()
})
