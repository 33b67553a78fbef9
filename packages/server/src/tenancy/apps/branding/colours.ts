/** A channel's part of the luminance, from its two hexadecimal digits. */
function linear(digits: string): number {
  const share = Number.parseInt(digits, 16) / 255
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
}

/** The two digits of each channel of a colour (`#rrggbb`). */
const channels = (color: string) => [1, 3, 5].map((at) => color.slice(at, at + 2)) as [string, string, string]

/** WCAG 2.2, "relative luminance". */
function luminance(color: string): number {
  const [red, green, blue] = channels(color)
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/** The contrast of two colours, 1 to 21: WCAG 2.2, "contrast ratio". */
export function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}

/** The contrast of white text on a colour. */
export const contrastWithWhite = (color: string): number => contrast(color, '#ffffff')

/** A colour with `share` (0 to 1) of another mixed in. */
function mixed(color: string, other: string, share: number): string {
  const others = channels(other)
  const mix = channels(color).map((digits, at) => {
    const [from, to] = [digits, others[at] as string].map((text) => Number.parseInt(text, 16)) as [number, number]
    return Math.round(from + (to - from) * share)
  })
  return `#${mix.map((value) => value.toString(16).padStart(2, '0')).join('')}`
}

/** Small enough that no step jumps over the colours that fit. */
const STEPS = 50

/** The colour, moved towards another one only as far as it needs to fit. */
function movedUntil(color: string, other: string, fits: (moved: string) => boolean): string {
  for (let step = 0; step < STEPS; step += 1) {
    const moved = mixed(color, other, step / STEPS)
    if (fits(moved)) return moved
  }
  return other
}

/** WCAG 2.2, success criteria 1.4.3 and 1.4.11: of text, and of what marks a control. */
export const TEXT_CONTRAST_MIN = 4.5
const CONTROL_CONTRAST_MIN = 3

const WHITE = '#ffffff'
const BLACK = '#000000'
/** `--surface` and `--raised` of tokens.css. */
const GROUNDS = { light: [WHITE, '#f1f2f6'], dark: ['#16191f', '#20242d'] } as const

/** What a page draws in an app's colour, in one colour scheme. */
export interface Palette {
  /** The ground of the main button, under white text. */
  primary: string
  primaryHover: string
  /** Text, icons and outlines, on the grounds of the page and on `wash`. */
  accent: string
  wash: string
}

/** What a page draws in a colour that white text is readable on. Every text in it is readable too. */
export function paletteOf(color: string, scheme: 'light' | 'dark'): Palette {
  const [surface, raised] = GROUNDS[scheme]
  const isDark = scheme === 'dark'
  // A dark button on a dark page is brighter, so that it can be seen. White text stays readable on it: there are colours between the two.
  const primary = movedUntil(color, WHITE, (moved) => contrast(moved, surface) >= CONTROL_CONTRAST_MIN)
  const wash = mixed(surface, primary, isDark ? 0.2 : 0.1)
  const readable = (moved: string) =>
    [surface, raised, wash].every((ground) => contrast(moved, ground) >= TEXT_CONTRAST_MIN)
  return {
    primary,
    primaryHover: mixed(primary, BLACK, 0.12),
    accent: movedUntil(primary, isDark ? WHITE : BLACK, readable),
    wash,
  }
}
