/** The language of the document: the server chose it, and has a file for each but English. */
const language = document.documentElement.lang

/** @type {{ texts: Record<string, string> }} */
const { texts } = language === 'en' ? { texts: {} } : await import(`./languages/${language}.js`)

/** For dates and numbers: the reader's region, where it is one of the page's language. */
export const locale = navigator.languages.find((tag) => tag.split('-')[0] === language) ?? language

/** Around what is put into a text that runs from right to left: its parts keep their order. */
const [open, close] = document.documentElement.dir === 'rtl' ? ['\u2068', '\u2069'] : ['', '']

/** @param {TemplateStringsArray} parts */
const found = (parts) => {
  const english = parts.reduce((text, part, at) => `${text}{${at - 1}}${part}`)
  return texts[english] ?? english
}

/**
 * A text in the page's language: t`Sign in to ${app}` is looked up as `Sign in to {0}`, and stays English where it is not found.
 * @param {TemplateStringsArray} parts
 * @param {...(string | number)} values
 */
export const t = (parts, ...values) => found(parts).replace(/\{(\d)\}/g, (_, at) => `${open}${values[at]}${close}`)

/**
 * The same with elements among the values, as children of an element.
 * @param {TemplateStringsArray} parts
 * @param {...(Node | string | number)} values
 * @returns {(Node | string)[]}
 */
export const inWords = (parts, ...values) =>
  found(parts)
    .split(/\{(\d)\}/)
    .map((part, at) => {
      if (at % 2 === 0) return part
      const value = values[Number(part)]
      return value instanceof Node ? value : `${open}${value}${close}`
    })
