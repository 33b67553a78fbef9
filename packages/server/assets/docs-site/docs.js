// The documentation's pages: a copy button on each sample, a filter, and a menu that is closed on a phone.
const FOUND_MAX = 30

const filter = document.querySelector('#site-filter')
const found = document.querySelector('#site-found')
const said = document.querySelector('#site-said')
const menu = document.querySelector('.menu')

const say = (text) => {
  said.textContent = text
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}

for (const sample of document.querySelectorAll('pre')) {
  const button = element('button', { type: 'button', className: 'copy', textContent: 'Copy' })
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(sample.textContent)
      button.textContent = 'Copied'
      say('The sample was copied.')
    } catch {
      // Without https, or where the user forbids it: leave it selected.
      getSelection().selectAllChildren(sample)
      button.textContent = 'Selected'
      say('The sample is selected: copy it with the keyboard.')
    }
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2_000)
  })
  const frame = element('div', { className: 'sample' })
  sample.replaceWith(frame)
  frame.append(sample, button)
}

const wide = matchMedia('(min-width: 60rem)')
const fit = () => {
  menu.open = wide.matches
}
fit()
wide.addEventListener('change', fit)
menu.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })

let pages
async function load() {
  pages ??= fetch('/docs/index.json').then((answer) => answer.json())
  try {
    return await pages
  } catch {
    pages = undefined
    return []
  }
}

/** Pages and headings that have every word, titles first. */
function search(all, words) {
  const has = (text) => words.every((word) => text.toLowerCase().includes(word))
  const titles = all
    .filter(({ title, path }) => has(`${title} ${path}`))
    .map(({ path, title }) => ({ path, title, of: '' }))
  const headings = all.flatMap(({ path, title, headings }) =>
    headings
      .filter(([text]) => has(`${text} ${title}`) && words.some((word) => text.toLowerCase().includes(word)))
      .map(([text, anchor]) => ({ path: `${path}#${anchor}`, title: text, of: title })),
  )
  return [...titles, ...headings].slice(0, FOUND_MAX)
}

function hide() {
  found.hidden = true
  found.replaceChildren()
}

async function look() {
  const text = filter.value.trim().toLowerCase()
  if (text === '') return hide()
  const all = await load()
  // Typed on meanwhile.
  if (text !== filter.value.trim().toLowerCase()) return
  const hits = search(all, text.split(/\s+/))
  const links = hits.map(({ path, title, of }) => {
    const link = element('a', { href: path }, title)
    if (of !== '') link.append(element('small', {}, of))
    return element('li', {}, link)
  })
  found.replaceChildren(hits.length === 0 ? element('p', {}, 'Nothing has these words.') : element('ul', {}, ...links))
  found.hidden = false
  say(hits.length === 1 ? 'One place found.' : `${hits.length} places found.`)
}

document.querySelector('.find').hidden = false
filter.addEventListener('focus', load)
filter.addEventListener('input', look)
filter.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    filter.value = ''
    hide()
  }
  if (event.key === 'Enter') found.querySelector('a')?.click()
  if (event.key === 'ArrowDown') {
    event.preventDefault()
    found.querySelector('a')?.focus()
  }
})
document.addEventListener('click', (event) => {
  if (event.target.closest('#site-found a') !== null || event.target.closest('.find') === null) hide()
})
