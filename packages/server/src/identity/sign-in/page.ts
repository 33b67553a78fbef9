import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { escapeHtml } from '../../platform/http/pages/pages.ts'
import type { Branding } from '../../tenancy/apps/service.ts'
import {
  brandFooter,
  brandHeader,
  brandStylesheet,
  monogram,
  type PageBrand,
  PLAIN,
  schemeAttribute,
  schemeTags,
} from './brand.ts'

import { directionOf, inLanguage, LANGUAGES, type Language } from './language.ts'

/** The configuration of the hosted sign-in page, embedded in the document. */
export interface SignInPageConfig {
  appId: string
  appName: string
  /** Null if the app has no bot. `authUrl` already has a query. */
  messenger: { botUsername: string | null; authUrl: string } | null
  /** The ways in that come first, in this order. */
  methodOrder: Branding['methodOrder']
  /** Whether users can sign in with a code sent by email. */
  email: boolean
  /** The language of these emails, if there are some in the page's; null: the app's. */
  emailLanguage: Language | null
  /** Whether who lost their passkeys gets a new one by email. */
  recovery: boolean
  /** Other accounts that users can sign in with, in the order of the buttons. */
  providers: { id: string; preset: string; name: string }[]
  /** The chains of Ethereum accounts that sign in; null if none do. */
  externalWallets: { chainIds: number[] } | null
  /** Where the browser returns to, checked by the caller. Null: the page shows the account instead. */
  redirect: { uri: string; state: string | null; codeChallenge: string } | null
  /** The approval that the page is about; null for the other pages. */
  approval: string | null
  /** What an agent's client asks for, if the page is about that. */
  connect: string | null
  /** Whether the page is the one of the user's wallet. */
  wallet: boolean
  /** Whether the page only shows how it looks, and does nothing. */
  preview: boolean
}

/** What signs for wallets, in the files that the build makes: loaded when somebody opens their wallet. */
export const KEYS = fileURLToPath(new URL('../../../assets/keys/', import.meta.url))

/** The page's scripts and styles. */
export const ASSETS = fileURLToPath(new URL('../../../assets/signin/', import.meta.url))

/** The page's modules except its entry: the browser preloads all of them at once instead of level by level. */
const MODULES = readdirSync(ASSETS)
  .filter((name) => name.endsWith('.js') && name !== 'page.js')
  .sort()

/** A key on a tile. With an icon, browsers do not request /favicon.ico. */
const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#4254c5"/><g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"><circle cx="12.5" cy="16" r="4.5"/><path d="M17 16h8v4M21.5 16v3"/></g></svg>',
)}`

/** JSON that cannot end its script element or open a comment in it, and that old JavaScript parses the same way. */
const scriptJson = (value: unknown) =>
  JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

interface Parts {
  language: Language
  title: string
  brand: PageBrand
  head: string
  /** Whether nothing on it can be pressed or focused. */
  inert: boolean
  header: string
  main: string
  footer: string
  after: string
}

function documentOf(parts: Parts): string {
  return `<!doctype html>
<html lang="${parts.language}" dir="${directionOf(parts.language)}"${schemeAttribute(parts.brand)}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
${schemeTags(parts.brand)}<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>${escapeHtml(parts.title)}</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/signin/tokens.css">
<link rel="stylesheet" href="/signin/page.css">
<link rel="stylesheet" href="/signin/controls.css">
<link rel="stylesheet" href="/signin/account.css">
<link rel="stylesheet" href="/signin/approval.css">
${brandStylesheet(parts.brand)}${parts.head}</head>
<body${parts.inert ? ' inert' : ''}>
<div class="page">
${parts.header}
<main id="view">
${parts.main}
</main>
${brandFooter(parts.brand, (english) => inLanguage(parts.language, english))}${parts.footer}</div>
${parts.after}</body>
</html>
`
}

/** Where the reader chooses another language. It is of use only with the page's scripts, which also take it away after the sign-in. */
function languageChoice(language: Language): string {
  const options = Object.entries(LANGUAGES).map(
    ([each, name]) =>
      `<option value="${each}" lang="${each}" dir="auto"${each === language ? ' selected' : ''}>${name}</option>`,
  )
  const label = escapeHtml(inLanguage(language, 'Language'))
  return `<nav class="language" id="language" aria-label="${label}" hidden><select aria-label="${label}">${options.join('')}</select></nav>
`
}

/**
 * The hosted sign-in page. Every text in it may be hostile. The page has no inline scripts or styles, because its policy
 * forbids them. Until its modules run, it shows that it is loading; without scripts, it says that it needs them.
 */
export function renderSignInPage(config: SignInPageConfig, brand: PageBrand, language: Language): string {
  const words = (english: string) => inLanguage(language, english)
  const title = words('Sign in to {0}').replace('{0}', () => config.appName)
  const modules = [...MODULES, ...(language === 'en' ? [] : [`languages/${language}.js`])]
  return documentOf({
    language,
    title,
    brand,
    inert: config.preview,
    header: brandHeader(brand, { id: config.appId, name: config.appName }),
    head: modules.map((name) => `<link rel="modulepreload" href="/signin/${name}">\n`).join(''),
    main: `<h1 dir="auto">${escapeHtml(title)}</h1>
<p class="lead" id="loading">${words('One moment…')}</p>
<noscript><p class="lead">${words('Signing in needs JavaScript. Turn it on in your browser and load this page again.')}</p></noscript>`,
    footer: languageChoice(language),
    after: `<script type="application/json" id="config">${scriptJson(config)}</script>
<script src="/signin/webauthn.js" defer></script>
<script type="module" src="/signin/page.js"></script>
`,
  })
}

/** The page for an invalid link. It has no script and no link, so that nothing in an invalid link is followed. */
export function renderSignInError(problem: { title: string; message: string }): string {
  return documentOf({
    language: 'en',
    title: problem.title,
    brand: PLAIN,
    inert: false,
    header: monogram('!'),
    head: '',
    main: `<h1 dir="auto">${escapeHtml(problem.title)}</h1>
<p class="lead" dir="auto">${escapeHtml(problem.message)}</p>`,
    footer: '',
    after: '',
  })
}
