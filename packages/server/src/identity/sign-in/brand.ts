import { escapeHtml } from '../../platform/http/pages/pages.ts'
import { type Branding, paletteOf } from '../../tenancy/apps/service.ts'

/** How the hosted pages of an app look, and where they lead. */
export type PageBrand = Pick<Branding, 'accentColor' | 'cornerRadius' | 'colorScheme' | 'logo'> &
  Pick<Branding, 'termsUrl' | 'privacyUrl' | 'supportUrl'>

/** The pages as they are without a brand. */
export const PLAIN: PageBrand = {
  accentColor: null,
  cornerRadius: 'rounded',
  colorScheme: 'auto',
  logo: null,
  termsUrl: null,
  privacyUrl: null,
  supportUrl: null,
}

const RADIUS: ReadonlyMap<string, string> = new Map([
  ['square', '0px'],
  ['round', '16px'],
])
const GROUND = { light: '#ffffff', dark: '#16191f' } as const
const SHA256_CHARS = 16

/** The name of a logo's content in its address. */
export const logoVersion = (sha256: string): string => sha256.slice(0, SHA256_CHARS)

/**
 * The stylesheet of a brand, from the query of its address. All of it is in the query, and only a colour and a word can be: nothing of
 * others gets into the styles. Undefined for anything else.
 */
export function brandStyles(query: URLSearchParams): string | undefined {
  const [accent, corners] = [query.get('accent'), query.get('corners')]
  if (accent !== null && !/^[0-9a-f]{6}$/.test(accent)) return undefined
  const radius = corners === null ? undefined : RADIUS.get(corners)
  if (corners !== null && radius === undefined) return undefined
  const lines = radius === undefined ? [] : [`--radius: ${radius};`]
  if (accent !== null) {
    const [light, dark] = [paletteOf(`#${accent}`, 'light'), paletteOf(`#${accent}`, 'dark')]
    const names = { accent: 'accent', wash: 'accent-wash', primary: 'primary', primaryHover: 'primary-hover' } as const
    for (const [part, name] of Object.entries(names) as [keyof typeof names, string][])
      lines.push(`--${name}: light-dark(${light[part]}, ${dark[part]});`)
    lines.push('--on-primary: #ffffff;')
  }
  return `:root {\n${lines.map((line) => `  ${line}\n`).join('')}}\n`
}

/** What of the document's head is a brand's: its stylesheet, after the page's own. */
export function brandStylesheet({ accentColor, cornerRadius }: PageBrand): string {
  const query = new URLSearchParams({
    ...(accentColor === null ? {} : { accent: accentColor.slice(1) }),
    ...(cornerRadius === 'rounded' ? {} : { corners: cornerRadius }),
  })
  return query.size === 0 ? '' : `<link rel="stylesheet" href="/signin/brand.css?${escapeHtml(String(query))}">\n`
}

/** The colour scheme of the page for the browser's own parts. */
export function schemeTags({ colorScheme }: PageBrand): string {
  const schemes = colorScheme === 'auto' ? (['light', 'dark'] as const) : [colorScheme]
  const themes = schemes.map((scheme) => {
    const media = schemes.length === 1 ? '' : ` media="(prefers-color-scheme: ${scheme})"`
    return `<meta name="theme-color" content="${GROUND[scheme]}"${media}>\n`
  })
  return `<meta name="color-scheme" content="${schemes.join(' ')}">\n${themes.join('')}`
}

/** What the root element says of the colour scheme. */
export const schemeAttribute = ({ colorScheme }: PageBrand): string =>
  colorScheme === 'auto' ? '' : ` data-theme="${colorScheme}"`

/** The first letter or digit of a name. A surrogate pair or a combined character counts as one. */
function initialOf(name: string): string {
  for (const { segment } of new Intl.Segmenter().segment(name))
    if (/[\p{L}\p{N}]/u.test(segment)) return segment.toUpperCase()
  return '•'
}

/** A letter in place of a logo. */
export const monogram = (initial: string): string =>
  `<div class="monogram" aria-hidden="true"><span dir="auto">${escapeHtml(initial)}</span></div>`

/** What stands above every view: the app's logo, or the first letter of its name. */
export function brandHeader({ logo }: PageBrand, app: { id: string; name: string }): string {
  if (logo === null) return monogram(initialOf(app.name))
  const query = new URLSearchParams({ app: app.id, v: logoVersion(logo.sha256) })
  const src = escapeHtml(`/signin/logo.png?${query}`)
  return `<header class="logo"><img src="${src}" alt="${escapeHtml(app.name)}" width="${logo.width}" height="${logo.height}"></header>`
}

/** What stands below every view: links to the app's own pages, which open beside this one, so that nobody loses a sign-in. */
export function brandFooter(
  { termsUrl, privacyUrl, supportUrl }: PageBrand,
  inWords: (english: string) => string,
): string {
  const links = Object.entries({ Terms: termsUrl, Privacy: privacyUrl, Support: supportUrl })
    .filter((entry): entry is [string, string] => entry[1] !== null)
    .map(
      ([label, url]) =>
        `<a href="${escapeHtml(url)}" target="_blank" rel="noopener noreferrer">${escapeHtml(inWords(label))}</a>\n`,
    )
  return links.length === 0 ? '' : `<footer class="links">\n${links.join('')}</footer>\n`
}
