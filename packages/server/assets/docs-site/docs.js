// The documentation's pages: a copy button on each sample, tabs for samples of one task, and a menu that is closed on a phone.
// Runs before the first rendering, so that nothing moves afterwards.
import { element, say } from './dom.js'
import { showTabs } from './tabs.js'

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

showTabs()

// What needs a script is shown only with scripts.
document.querySelector('.find').hidden = false

const menu = document.querySelector('.menu')
const wide = matchMedia('(min-width: 60rem)')
const fit = () => {
  menu.open = wide.matches
}
fit()
wide.addEventListener('change', fit)
menu.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
