/**
 * Makes an element. Strings become text nodes, never markup, so that hostile names stay text.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes] `true` sets an empty attribute;
 *   false, null and undefined leave it out.
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue
    element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false))
  return element
}

/**
 * A text of others in which everything can be seen: characters that are invisible, or that turn the text around them, are written as escapes.
 * @param {string} text
 */
export const visible = (text) =>
  text.replace(
    /(?!\n)[\p{C}\p{Zl}\p{Zp}\p{Variation_Selector}]/gu,
    (found) => `\\u{${found.codePointAt(0)?.toString(16)}}`,
  )

let idsMade = 0

/**
 * An id for tying labels and descriptions to what they are about.
 * @param {string} stem
 */
export function newId(stem) {
  idsMade += 1
  return `${stem}-${idsMade}`
}

/**
 * Moves the focus to a heading or notice, which is no tab stop otherwise.
 * @param {HTMLElement | null} element
 */
export function focusOn(element) {
  if (element === null) return
  if (!element.matches('a[href], button, input, summary')) element.setAttribute('tabindex', '-1')
  element.focus()
}
