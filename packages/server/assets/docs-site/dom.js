const said = document.querySelector('#site-said')

/** Tells assistive technology what has changed. */
export const say = (text) => {
  said.textContent = text
}

/** An element with properties (`className`, not `class`) and children. */
export function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties)
  made.append(...children)
  return made
}
