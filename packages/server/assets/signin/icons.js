const SVG = 'http://www.w3.org/2000/svg'

/** Paths on a 20 × 20 grid, drawn with a 1.6 stroke. */
const PATHS = {
  passkey: ['M6.4 13.6a3.6 3.6 0 1 0 0-7.2 3.6 3.6 0 0 0 0 7.2Z', 'M10 10h7.8v3.2M14.4 10v2.4'],
  mail: ['M2.8 4.8h14.4v10.4H2.8z', 'm3.2 5.4 6.8 5.4 6.8-5.4'],
  send: ['M17.5 3.2 2.6 9.1l4.6 1.7m10.3-7.6-2.4 13.2-5.2-3.9m7.6-9.3-10.3 7.6m2.7 1.7-2.4 2.6-.3-4.3'],
  person: ['M10 10a3.4 3.4 0 1 0 0-6.8 3.4 3.4 0 0 0 0 6.8Z', 'M3.6 17.2c.5-3 3-5 6.4-5s5.9 2 6.4 5'],
  guest: ['M10 9.4a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4Z', 'M4 17c.3-3.3 2.7-5.4 6-5.4s5.7 2.1 6 5.4'],
  shield: ['M10 2.6 4 5v4.6c0 3.6 2.5 6.6 6 7.8 3.5-1.2 6-4.2 6-7.8V5l-6-2.4Z', 'm7.5 9.9 1.8 1.8 3.3-3.5'],
  device: ['M3.5 4.5h13v8.6h-13z', 'M1.8 16h16.4'],
  phone: ['M6.3 2.6h7.4v14.8H6.3z', 'M9.2 14.7h1.6'],
  wallet: ['M2.8 5.6h13.4v10.6H2.8z', 'M2.8 5.6 13 3v2.6M16.2 9h-3.4a1.9 1.9 0 0 0 0 3.8h3.4'],
  check: ['m4.5 10.4 3.6 3.7 7.4-8.2'],
}

/**
 * A decorative line drawing; what it stands for is always said in words beside it.
 * @param {keyof typeof PATHS} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg')
  svg.setAttribute('viewBox', '0 0 20 20')
  svg.setAttribute('class', 'icon')
  svg.setAttribute('aria-hidden', 'true')
  for (const d of PATHS[name]) {
    const path = document.createElementNS(SVG, 'path')
    path.setAttribute('d', d)
    svg.append(path)
  }
  return svg
}
