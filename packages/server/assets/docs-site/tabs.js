// Samples of one task in several languages, as tabs: https://www.w3.org/WAI/ARIA/apg/patterns/tabs/. The choice is remembered.
import { element } from './dom.js'

const CHOICE = 'halfkey-docs-language'

/** Storage may be forbidden; then the choice lasts as long as the page. */
function readChoice() {
  try {
    return localStorage.getItem(CHOICE)
  } catch {
    return null
  }
}

function writeChoice(language) {
  try {
    localStorage.setItem(CHOICE, language)
  } catch {
    // As above.
  }
}

/** Selects the tab of a language in every group that has it. */
function choose(language) {
  for (const group of document.querySelectorAll('.samples')) {
    const tabs = [...group.querySelectorAll('[role=tab]')]
    if (!tabs.some((tab) => tab.textContent === language)) continue
    for (const tab of tabs) {
      const isChosen = tab.textContent === language
      tab.ariaSelected = String(isChosen)
      tab.tabIndex = isChosen ? 0 : -1
      document.getElementById(tab.getAttribute('aria-controls')).hidden = !isChosen
    }
  }
}

/** Chooses what a tab stands for. The groups above change their height: the tab stays where it is in the window. */
function chooseTab(tab) {
  const { top } = tab.getBoundingClientRect()
  choose(tab.textContent)
  writeChoice(tab.textContent)
  tab.focus({ preventScroll: true })
  scrollBy({ top: tab.getBoundingClientRect().top - top, behavior: 'instant' })
}

/** Where a key leads from a tab; undefined for other keys. */
function tabByKey(key, tabs, at) {
  const index = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[key]
  return index === undefined ? undefined : tabs.at(index % tabs.length)
}

function addTabs(group, name) {
  const list = element('div', { className: 'tabs', role: 'tablist', ariaLabel: 'Language' })
  const tabs = [...group.children].map((panel, index) => {
    panel.id = `${name}-${index}`
    const tab = element('button', { type: 'button', id: `${panel.id}-tab`, role: 'tab' })
    tab.textContent = panel.querySelector('pre').dataset.language
    tab.setAttribute('aria-controls', panel.id)
    panel.role = 'tabpanel'
    panel.setAttribute('aria-labelledby', tab.id)
    return tab
  })
  list.append(...tabs)
  group.prepend(list)
  list.addEventListener('click', ({ target }) => {
    if (target.role === 'tab') chooseTab(target)
  })
  list.addEventListener('keydown', (event) => {
    const tab = tabByKey(event.key, tabs, tabs.indexOf(event.target))
    if (tab === undefined) return
    event.preventDefault()
    chooseTab(tab)
  })
  return tabs[0].textContent
}

/** Makes tabs of all groups of samples. Each group shows its first language, or the one chosen before. */
export function showTabs() {
  const groups = [...document.querySelectorAll('.samples')]
  const first = groups.map((group, index) => addTabs(group, `sample-${index + 1}`))
  for (const language of [...new Set(first)].reverse()) choose(language)
  const chosen = readChoice()
  if (chosen !== null) choose(chosen)
}
