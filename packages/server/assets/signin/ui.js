import { focusOn, make, newId } from './dom.js'
import { icon } from './icons.js'
import { locale, t } from './texts.js'
import { tell } from './words.js'

/**
 * A button. `kind` is how much it asks for attention; `iconName` draws something in front of the words; `about` makes the
 * name unique where many buttons read the same: "Remove" of "Remove iPhone".
 * @param {{ label: string, kind?: 'primary' | 'secondary' | 'quiet' | 'danger', iconName?: any, submit?: boolean,
 *   about?: string }} options
 */
export function button({ label, kind = 'secondary', iconName, submit = false, about }) {
  return make(
    'button',
    { type: submit ? 'submit' : 'button', class: `button ${kind}` },
    iconName && icon(iconName),
    make('span', { class: 'label' }, label),
    about && make('span', { class: 'unseen', dir: 'auto' }, ` ${about}`),
  )
}

/**
 * A labelled input with room for a hint and for what is wrong with it.
 * @param {{ label: string, hint?: string, optional?: boolean,
 *   attributes: Record<string, any> & { name: string } }} options
 */
export function field({ label, hint, optional = false, attributes }) {
  const id = newId(attributes.name)
  const hintId = `${id}-hint`
  const problemId = `${id}-problem`
  const problem = make('p', { class: 'problem', id: problemId, role: 'alert' })
  const described = hint === undefined ? problemId : `${hintId} ${problemId}`
  const input = make('input', { id, class: 'input', dir: 'auto', 'aria-describedby': described, ...attributes })
  const element = make(
    'div',
    { class: 'field' },
    make('label', { for: id }, label, optional && make('span', { class: 'optional' }, ` (${t`optional`})`)),
    input,
    hint !== undefined && make('p', { class: 'hint', id: hintId }, hint),
    problem,
  )
  input.addEventListener('input', () => clear())
  const clear = () => {
    input.removeAttribute('aria-invalid')
    problem.textContent = ''
  }
  return {
    element,
    input,
    clear,
    /** @param {string} text */
    refuse(text) {
      input.setAttribute('aria-invalid', 'true')
      problem.textContent = text
      input.focus()
    },
  }
}

/** A place near some controls where it is said how they fared. Both parts exist from the start, or nobody hears them. */
export function notice() {
  const status = make('p', { class: 'status', role: 'status' })
  const alert = make('p', { class: 'alert', role: 'alert' })
  return {
    element: make('div', { class: 'notice' }, status, alert),
    clear() {
      status.textContent = ''
      alert.textContent = ''
    },
    /** @param {string} text */
    say(text) {
      alert.textContent = ''
      status.textContent = text
    },
    /** @param {string} text */
    warn(text) {
      status.textContent = ''
      alert.textContent = text
    },
  }
}

/**
 * @param {HTMLElement} root
 * @param {boolean} busy
 */
function setBusy(root, busy) {
  for (const control of root.querySelectorAll('button, a.button')) {
    // Not `disabled`, which would drop the focus of whoever pressed the button with a key.
    if (busy) control.setAttribute('aria-disabled', 'true')
    else control.removeAttribute('aria-disabled')
  }
}

/**
 * Runs what the controls in `root` do, one thing at a time: meanwhile they are disabled, and the one that was pressed
 * says so. A failure is told in `place`, or at the field that it is about.
 * @param {HTMLElement} root
 * @param {ReturnType<typeof notice>} place
 * @param {Record<string, ReturnType<typeof field>>} [fields] by their names on the wire
 */
export function runner(root, place, fields = {}) {
  let busy = false
  // Before any control's own listener.
  const holdBack = (/** @type {Event} */ event) => {
    const control = event.target instanceof Element && event.target.closest('button, a.button')
    if (!busy || !control) return
    event.preventDefault()
    event.stopPropagation()
  }
  root.addEventListener('click', holdBack, { capture: true })
  /**
   * @param {HTMLElement | null} pressed
   * @param {string} busyLabel
   * @param {() => Promise<void>} work
   */
  return async function run(pressed, busyLabel, work) {
    if (busy) return
    busy = true
    const label = pressed?.querySelector('.label') ?? null
    const before = label?.textContent ?? ''
    place.clear()
    for (const one of Object.values(fields)) one.clear()
    setBusy(root, true)
    pressed?.classList.add('busy')
    if (label !== null) label.textContent = busyLabel
    try {
      await work()
    } catch (error) {
      const told = tell(error)
      const about = told.field === null ? undefined : fields[told.field]
      if (about !== undefined) about.refuse(told.text)
      else if (told.calm) place.say(told.text)
      else place.warn(told.text)
    } finally {
      busy = false
      setBusy(root, false)
      pressed?.classList.remove('busy')
      if (label !== null) label.textContent = before
    }
  }
}

/**
 * A modal dialog: the browser keeps the focus in it, closes it on Escape, and gives the focus back.
 * @param {{ title: string, lead: string, body: (close: () => void) => Node[] }} options
 * @returns {{ element: HTMLDialogElement, closed: Promise<void>, close: () => void }} shown already
 */
export function openDialog({ title, lead, body }) {
  const titleId = newId('dialog')
  const heading = make('h2', { id: titleId }, title)
  const element = make('dialog', { 'aria-labelledby': titleId, class: 'dialog' })
  const close = () => element.close()
  element.append(heading, make('p', { class: 'lead', dir: 'auto' }, lead), ...body(close))
  const closed = new Promise((done) => {
    element.addEventListener('close', () => {
      element.remove()
      done(undefined)
    })
  })
  document.body.append(element)
  element.showModal()
  focusOn(element.querySelector('input') ?? heading)
  return { element, closed: /** @type {Promise<void>} */ (closed), close }
}

/**
 * Copies a text and says on the button that it did. Where the browser refuses, the text is selected instead.
 * @param {string} label
 * @param {string} text
 * @param {HTMLElement} source shows the text
 */
export function copyButton(label, text, source) {
  const place = notice()
  const control = button({ label, kind: 'secondary' })
  control.addEventListener('click', async () => {
    place.clear()
    try {
      await navigator.clipboard.writeText(text)
      place.say(t`Copied.`)
    } catch {
      getSelection()?.selectAllChildren(source)
      place.say(t`Selected. Copy it with your keyboard.`)
    }
  })
  return make('div', { class: 'copy' }, control, place.element)
}

/**
 * Calls `onSubmit` instead of sending the form anywhere; the page's policy forbids that too.
 * @param {HTMLFormElement} form
 * @param {() => void} onSubmit
 */
export function onSubmit(form, onSubmit) {
  form.noValidate = true
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    onSubmit()
  })
}

/** @param {string} iso */
export const dayWords = (iso) => new Intl.DateTimeFormat(locale, { dateStyle: 'medium' }).format(new Date(iso))

/** @param {string} iso */
export const timeWords = (iso) =>
  new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(iso))
