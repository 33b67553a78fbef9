/** A channel's part of the luminance, from its two hexadecimal digits. */
function linear(digits: string): number {
  const share = Number.parseInt(digits, 16) / 255
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
}

/** The contrast of white text on a colour (`#rrggbb`), 1 to 21: WCAG 2.2, "contrast ratio" and "relative luminance". */
export function contrastWithWhite(color: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => linear(color.slice(at, at + 2))) as [number, number, number]
  return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
}
