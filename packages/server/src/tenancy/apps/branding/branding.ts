import { hostUrlProblem } from '../../../platform/security/web-origin.ts'
import { contrastWithWhite, TEXT_CONTRAST_MIN } from './colours.ts'
import type { Branding, BrandingChange, BrandLinks } from './schema.ts'

type Look = Omit<Branding, keyof BrandLinks>

/** How the pages of an app look, as it is stored: without what came later than the row. */
export type BrandLook = Partial<Look>

export const DEFAULT_LOOK: Look = {
  name: null,
  accentColor: null,
  cornerRadius: 'rounded',
  colorScheme: 'auto',
  methodOrder: [],
  logo: null,
}

export const NO_LINKS: BrandLinks = { termsUrl: null, privacyUrl: null, supportUrl: null }

const LINK_NAMES = Object.keys(NO_LINKS) as (keyof BrandLinks)[]

/** What two columns say together. */
export const wholeBranding = (row: { branding: BrandLook; brand_links: BrandLinks }): Branding => ({
  ...DEFAULT_LOOK,
  ...row.branding,
  ...row.brand_links,
})

/** A change, divided into what of it only looks and what leads somewhere: these are stored apart. */
export function divided({ termsUrl, privacyUrl, supportUrl, ...look }: BrandingChange) {
  return { look, links: { termsUrl, privacyUrl, supportUrl } }
}

function linkProblem(text: string): string | null {
  const url = URL.parse(text)
  if (url === null) return 'Must be an absolute https: URL, such as https://shop.example.com/terms.'
  const problem = hostUrlProblem(url, false)
  if (problem !== null) return problem
  // A browser leaves out some characters, such as line breaks. Then a reader of the setting sees another address than the user.
  return url.href === text || url.href === `${text}/` ? null : `Must be written as browsers write it: ${url.href}`
}

/** What is wrong with a change that its schema cannot see, or null. */
export function brandingProblem(input: BrandingChange): { field: string; message: string; code?: string } | null {
  for (const name of LINK_NAMES) {
    const text = input[name]
    const message = text == null ? null : linkProblem(text)
    if (message !== null) return { field: `branding.${name}`, message }
  }
  const { accentColor } = input
  if (accentColor == null || contrastWithWhite(accentColor) >= TEXT_CONTRAST_MIN) return null
  return {
    field: 'branding.accentColor',
    message: `White text on this colour has a contrast of ${contrastWithWhite(accentColor).toFixed(2)}. Choose a darker one, with at least ${TEXT_CONTRAST_MIN}.`,
    code: 'low_contrast',
  }
}

/** Characters that cannot be seen and change how the text around them is read. Names of apps may have them. */
const TURNING = /[\p{Cc}\p{Bidi_Control}]/gu

/** A name for a page on which others' words stand around it: such characters are written as escapes. */
export const shownName = (name: string): string =>
  name.replace(TURNING, (found) => `\\u{${found.codePointAt(0)?.toString(16)}}`)
