import { make, newId } from './dom.js'
import { t } from './texts.js'
import { button, notice, runner } from './ui.js'

/**
 * A part of the account page: a heading, a sentence, and content that is loaded and can be loaded again.
 * @param {{ title: string, lead: string, load: (part: Part) => Promise<Node[]> }} options
 *
 * @typedef {object} Part
 * @property {HTMLElement} element
 * @property {ReturnType<typeof notice>} place
 * @property {ReturnType<typeof runner>} run
 * @property {(said?: string) => Promise<void>} reload shows the present state, and says what led to it
 */
export function part({ title, lead, load }) {
  const titleId = newId('part')
  const place = notice()
  const content = make('div', { class: 'stack' }, make('p', { class: 'quiet-text' }, t`Loading…`))
  const heading = make('h2', { id: titleId, tabindex: '-1' }, title)
  const element = make(
    'section',
    { class: 'part', 'aria-labelledby': titleId },
    heading,
    make('p', { class: 'lead' }, lead),
    content,
    place.element,
  )
  const run = runner(element, place)
  /** @type {Part} */
  const made = {
    element,
    place,
    run,
    async reload(said) {
      const heldFocus = content.contains(document.activeElement)
      content.replaceChildren(...(await load(made)))
      // What had the focus is gone: the heading is where the reading goes on.
      if (heldFocus) heading.focus()
      if (said !== undefined) place.say(said)
    },
  }
  const retry = button({ label: t`Try again`, kind: 'secondary' })
  const first = () =>
    run(retry.isConnected ? retry : null, t`Loading…`, async () => {
      try {
        await made.reload()
      } catch (error) {
        content.replaceChildren(retry)
        throw error
      }
    })
  retry.addEventListener('click', first)
  first()
  return made
}
